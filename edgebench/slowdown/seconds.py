"""Both formulas: seconds of a steady round, and of the start, at a limit. Nothing is fitted.

Steady (:func:`steady_s`): ``T = T0 + max(b · s - C, b · s / 2 + faults · f)``. A round reads b
bytes again (:class:`MissCurve`), each in s seconds (:class:`StorageCosts`). A disk that is held to
a speed reads on while the network computes (C seconds of the round without a limit), but a fault
waits for its own bytes, so that computing hides half of the reading at most. Otherwise nothing
overlaps: T0 + b · s.

The start (:func:`start_s`): the idle runtime is written out to make room; what lacks then is read
again in each pass.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgebench.slowdown.calibration import Calibration
    from edgebench.slowdown.curves import FloatArray

#: A cyclic scan under LRU misses all as soon as one page lacks. What is kept a little longer makes
#: the misses rise over this part of the limit. Chosen on validation-one-thread.
_RAMP = 0.88
#: Clean pages of files that the kernel keeps beside memory that can't be dropped.
_CACHE_BYTES = 16 << 20
#: Pages of the runtime that are used now and then, and come back page by page.
_APART_BYTES = 2.7e6


@dataclass(frozen=True)
class Layer:
    """A row of a layer table at the workload's batch size.

    ``working_bytes`` are the most that is alive beside weights while it is executed.
    """

    name: str
    weight_bytes: int
    output_bytes: int
    working_bytes: int
    flops: float


@dataclass(frozen=True)
class Workload:
    """A network whose layers are loaded and executed one after another.

    Args:
        network: its name.
        layers: in their order.
        schedule: ``bulk`` (or ``whole``) holds all weights at once, ``linear`` those of a layer.
        loader: ``copy`` or ``mmap``.
        passes: executions in a round, warm ones among them.
    """

    network: str
    layers: tuple[Layer, ...]
    schedule: str
    loader: str
    passes: int

    @cached_property
    def weight_bytes(self) -> int:
        """All weights."""
        return sum(layer.weight_bytes for layer in self.layers)

    @property
    def mapped(self) -> bool:
        """Whether weights are clean pages of their file, which need no swap."""
        return self.loader == "mmap"

    @property
    def at_once(self) -> bool:
        """Whether all weights are held at once."""
        return self.schedule != "linear"

    @cached_property
    def held_bytes(self) -> int:
        """Weights that are held at once."""
        largest = max((layer.weight_bytes for layer in self.layers), default=0)
        return self.weight_bytes if self.at_once else largest

    @cached_property
    def table_bytes(self) -> float:
        """The most that weights, tensors and copies take together, by the layer table."""
        if self.at_once:
            return self.weight_bytes + max((one.working_bytes for one in self.layers), default=0)
        return max((one.weight_bytes + one.working_bytes for one in self.layers), default=0)

    @cached_property
    def amounts(self) -> tuple[float, float, float, float]:
        """What a round's time is made of: bytes loaded, layers called, FLOPs, bytes touched."""
        touched = sum(one.weight_bytes + one.output_bytes for one in self.layers)
        flops, passes = sum(one.flops for one in self.layers), float(self.passes)
        calls = passes * len(self.layers)
        return float(self.weight_bytes), calls, passes * flops, passes * touched


@dataclass(frozen=True)
class Round:
    """A round without a limit, and what it needs.

    Args:
        workload: what is executed.
        unlimited_s: seconds of the round.
        needs_bytes: what it needs for no limit to matter.
        base_bytes: the footprint of the idle runtime.
    """

    workload: Workload
    unlimited_s: float
    needs_bytes: float
    base_bytes: float


def steady_s(one: Round, misses: MissCurve, costs: StorageCosts, limits: FloatArray) -> FloatArray:
    """Return the seconds of a steady round at limits."""
    read_s = misses.bytes_at(limits) * costs.again_s(one.workload.mapped)
    if not costs.held:
        return one.unlimited_s + read_s
    computing_s = max(0.0, one.unlimited_s - one.workload.weight_bytes * costs.held_file_s)
    waits_s = read_s / 2 + misses.faults_at(limits) * costs.fault_s
    return np.asarray(one.unlimited_s + np.maximum(read_s - computing_s, waits_s))


def start_s(one: Round, costs: StorageCosts, limit: float) -> float:
    """Return the seconds of the first round after the import at a limit."""
    work, base = one.workload, one.base_bytes
    weights, mapped = work.weight_bytes, work.mapped
    runtime = min(base, limit)  # still in RAM when loading begins
    if mapped:
        new = max(0.0, one.needs_bytes - base - work.held_bytes)
    else:
        new = max(float(work.held_bytes), one.needs_bytes - base)
    cache = min(weights, _CACHE_BYTES)
    out = min(max(runtime + new + cache - limit, 0.0), runtime)  # runtime that is written out
    back = again = 0.0
    if mapped:
        if weights > max(cache, limit - (runtime - out) - new):
            again = (work.passes - 1) * weights
    elif new + cache > limit:
        back = work.passes * new
        if not work.at_once:  # the layers that don't fit beside the rest
            rest = new - work.held_bytes + cache
            sizes = (layer.weight_bytes for layer in work.layers)
            back = sum(size for size in sizes if rest + size > limit)
        out = runtime + new
    apart = _APART_BYTES if base > limit or out >= _APART_BYTES else 0.0
    fresh = max(0.0, runtime + new + weights - limit)
    faults = back / costs.fault_bytes + apart / mmap.PAGESIZE + again / costs.mapped_fault_bytes
    moved_s = (
        faults * costs.fault_s
        + (back + apart) * costs.in_s
        + again * costs.mapped_in_s
        + out * costs.out_s
    )
    waits_s = costs.held_swap_s * (back + apart) + costs.held_file_s * again
    computing_s = one.unlimited_s - weights * costs.held_file_s
    own_s = costs.seen * moved_s + fresh * costs.touch_s
    return one.unlimited_s + max(own_s, waits_s - computing_s)


def unlimited_elsewhere_s(
    one: Round, read_bytes: float, loading_s: float, here: StorageCosts, there: StorageCosts
) -> float:
    """Return the seconds of the round without a limit on another storage.

    What computing, and what a held disk saved up, hides of the reading is hidden there too if both
    disks are held, or neither is.

    Args:
        one: the round here.
        read_bytes: what it reads without a limit.
        loading_s: how long it reads them here.
        here: the storage where it ran.
        there: the other one.
    """
    here_s, there_s = (read_bytes * costs.file_s for costs in (here, there))
    hidden_s = here_s - loading_s if here.held == there.held else 0.0
    return max(one.unlimited_s - loading_s, 0.0) + max(there_s - hidden_s, 0.0)


class Source(str, Enum):
    """How what happens at a limit is known, the surest first."""

    #: Trials ran at the limit.
    MEASURED = "measured"
    #: Trials ran at tighter and wider limits.
    BETWEEN = "between measured limits"
    #: The bytes that its rounds read again were counted; on any storage.
    COUNTED = "counted bytes"
    #: The pages that its steady rounds use were counted.
    WORKING_SET = "working set"
    #: It follows from the sizes in its layer table.
    LAYER_TABLE = "layer table"


@dataclass(frozen=True)
class MissCurve:
    """Bytes and faults at some limits, ascending, and where they are from.

    Args:
        source: counted, working set, or layer table.
        limit_bytes: the limits.
        again_bytes: what a steady round reads again there.
        faults: its major faults there; all 0 where they were not counted.
        unlimited_bytes: what a round reads without a limit.
    """

    source: Source
    limit_bytes: FloatArray
    again_bytes: FloatArray
    faults: FloatArray
    unlimited_bytes: float

    def bytes_at(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the bytes at limits: between two of the curve's in proportion to ln M."""
        ln_limit, ln_known = np.log(limit_bytes), np.log(self.limit_bytes)
        return np.asarray(np.interp(ln_limit, ln_known, self.again_bytes))

    def faults_at(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the faults in the same way."""
        return np.asarray(np.interp(np.log(limit_bytes), np.log(self.limit_bytes), self.faults))

    @property
    def tightest_bytes(self) -> float:
        """The least limit at which bytes were counted; 0 for other sources, which hold at any."""
        return float(self.limit_bytes[0]) if self.source is Source.COUNTED else 0.0


def cyclic_curve(
    workload: Workload,
    needs_bytes: float,
    idle_bytes: float,
    working_set_bytes: float | None = None,
) -> MissCurve:
    """Return the curve of weights that each pass reads in the same order.

    Args:
        workload: what is executed.
        needs_bytes: what it needs for no limit to matter.
        idle_bytes: of the runtime, what no round uses and is written out; 0 beside mapped weights
            in a fresh process, where the kernel takes clean file pages first.
        working_set_bytes: what steady rounds were counted to use; None: not known.
    """
    used = working_set_bytes or needs_bytes - idle_bytes
    # Mapped weights are read once in any round; linear loads each layer anew.
    again = workload.weight_bytes * (workload.passes - workload.mapped)
    free = workload.weight_bytes if workload.at_once or workload.mapped else 0
    source = Source.WORKING_SET if working_set_bytes else Source.LAYER_TABLE
    limits = np.array([_RAMP, 1.0]) * used
    return MissCurve(source, limits, np.array([float(again), 0.0]), np.zeros(2), float(free))


@dataclass(frozen=True)
class StorageCosts:
    """Seconds that storage takes, for so many threads as execute a layer.

    Args:
        in_s, out_s: a byte that comes back from swap, or goes there, beside faults; 0: no swap.
        mapped_in_s: a byte that is read again from a mapped file, beside faults.
        fault_s: a fault, beside the bytes that it brings back.
        fault_bytes, mapped_fault_bytes: what a fault brings back, from swap and from a mapped file.
        touch_s: a byte of memory that is used for the first time.
        file_s: a byte of a file that is read in order.
        held_swap_s, held_file_s: what a byte takes at least, where a declared speed holds the disk;
            0: nothing holds it.
        in_ram: whether swap is in RAM (zram), where nothing is read while the network computes.
        seen: what a slowed network added here ÷ what these costs say; 1 if that was not measured.
    """

    in_s: float
    out_s: float
    mapped_in_s: float
    fault_s: float
    fault_bytes: float
    mapped_fault_bytes: float
    touch_s: float
    file_s: float
    held_swap_s: float = 0.0
    held_file_s: float = 0.0
    in_ram: bool = False
    seen: float = 1.0

    @property
    def held(self) -> bool:
        """Whether a declared speed holds the disk; it then reads on while the network computes."""
        return max(self.held_swap_s, self.held_file_s) > 0

    def again_s(self, mapped: bool) -> float:
        """Return the seconds of a byte that a steady round reads again, faults and all."""
        if mapped:
            own = self.mapped_in_s + self.fault_s / self.mapped_fault_bytes
            return max(self.held_file_s, self.seen * own)
        own = self.in_s + self.fault_s / self.fault_bytes
        # What comes back from zram takes the place of what is written there.
        own += self.out_s + self.touch_s if self.in_ram else 0.0
        return max(self.held_swap_s, self.seen * own)


def storage_costs(calibration: Calibration, threads: int | None = None) -> StorageCosts:
    """Return the costs of a device, as it is or held to a speed.

    Args:
        calibration: its constants.
        threads: how many execute a layer; None: as many as there are cores.
    """
    held = calibration.held
    swap_in, swap_out = calibration.swap_in_bytes_per_s, calibration.swap_out_bytes_per_s
    fault_bytes = calibration.pages_per_fault.value * mmap.PAGESIZE
    if (threads or calibration.environment.get("cpu_cores_usable")) != 1:
        # Threads scan a tensor each in its part: the kernel reads around a fault, not ahead of it
        # (``swap_vma_readahead`` in mm/swap_state.c), and half of that is behind it.
        fault_bytes = max(mmap.PAGESIZE, fault_bytes / 2)
    held_swap_s = 1 / held.swap_bytes_per_s if held and held.swap_bytes_per_s else 0.0
    held_file_s = 1 / held.file_bytes_per_s if held and held.file_bytes_per_s else 0.0
    return StorageCosts(
        in_s=1 / swap_in.value if swap_in else 0.0,
        out_s=1 / swap_out.value if swap_out else 0.0,
        mapped_in_s=1 / calibration.file_fault_bytes_per_s.value,
        fault_s=calibration.fault_s.value,
        fault_bytes=fault_bytes,
        mapped_fault_bytes=calibration.file_pages_per_fault.value * mmap.PAGESIZE,
        touch_s=calibration.minor_fault_s.value / mmap.PAGESIZE,
        file_s=max(held_file_s, 1 / calibration.file_read_bytes_per_s.value),
        held_swap_s=held_swap_s,
        held_file_s=held_file_s,
        in_ram=calibration.swap_kind == "zram",
        seen=calibration.seen_share.value if calibration.seen_share else 1.0,
    )
