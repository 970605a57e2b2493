"""From a layer table, a schedule, a loader and a limit to time: the physical model.

The chain: the workload's references, what the kernel does with them at a limit, the bytes that each
task misses, the seconds that these take at the device's rates, and the longest path through the
schedule's tasks.
docs/explanation/slowdown-model.md derives it and states its errors link by link.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from edgebench.slowdown.calibration.device import Calibration
from edgebench.slowdown.simulated_counts import kept_counts
from edgebench.slowdown.simulator.cpu_time import typical_tasks
from edgebench.slowdown.simulator.memory_group import Memory
from edgebench.slowdown.simulator.misses import Missed, missed
from edgebench.slowdown.simulator.movement_costs import MovementCosts
from edgebench.slowdown.simulator.references import BoolArray, FloatArray, References
from edgebench.slowdown.simulator.tasks import Task, path_s
from edgebench.slowdown.simulator.trace import RuntimeBase, references_of
from edgebench.slowdown.simulator.workload import Workload

#: So many rounds are simulated of a fresh process, and at each limit of a walk, which goes on
#: until they repeat: the runtime's idle part goes little by little beside mapped weights.
_ROUNDS, _WALKED_ROUNDS = 3, 9
#: What it takes to reclaim memory, against touching it for the first time. Chosen on the seconds
#: of training networks (docs/decisions.md).
_RECLAIM_TOUCHES = 0.8
#: Of what stays of the runtime while memory is scanned, the share that rounds use too, the kernel's
#: own memory included. It is what walks leave of the runtime in memory, whatever the network
#: (docs/decisions.md). On a disk in memory nothing else stays: writing takes no time.
_USED_BY_ROUNDS, _USED_ON_RAM = 0.43, 1.0


@dataclass(frozen=True)
class Device:
    """A device's constants as the simulator needs them.

    Attributes:
        costs: seconds of what a limit makes necessary.
        fault_bytes, file_fault_bytes: what a fault brings back from swap, or from a mapped file.
        base: the runtime's footprint.
        cores: how many there are, None if unknown.
        memory: what its kind of swap decides.
        held_in_s, held_file_s: seconds a byte takes at least, from swap and from a mapped file,
            where a declared speed holds the storage; 0: nothing holds it.
    """

    costs: MovementCosts
    fault_bytes: float
    file_fault_bytes: float
    base: RuntimeBase
    cores: int | None
    memory: Memory
    held_in_s: float = 0.0
    held_file_s: float = 0.0

    @property
    def mapped_s(self) -> float:
        """Seconds a byte takes that is read again from a mapped file, faults and all."""
        free = self.costs.file_s + self.costs.fault_s / self.file_fault_bytes
        return max(self.held_file_s, free)

    def seconds(self, moved: FloatArray, computing_s: float = 0.0) -> FloatArray:
        """The seconds that what moved adds, of shape (5, …).

        What waits for a held disk does the rest meanwhile: writing to swap, too. While the workload
        computes (for ``computing_s``) the disk may already give what it reads next.
        """
        return np.asarray(np.maximum(self.costs.seconds(moved), self.held_s(moved, computing_s)))

    def held_s(self, moved: FloatArray, computing_s: float = 0.0) -> FloatArray:
        """The seconds for which a held disk is waited for."""
        held = moved[1] * self.held_in_s + moved[3] * self.held_file_s
        return np.asarray(np.maximum(held - computing_s, 0.0))

    def swap_fault_bytes(self, threads: int | None) -> float:
        """What a fault brings back from swap when so many threads execute a layer.

        A scan in order reads ahead of its fault. Where threads scan one tensor, each its part, the
        last fault was elsewhere, and the kernel reads around the fault instead: half of that is
        behind it (``swap_vma_readahead`` in the kernel's ``mm/swap_state.c``).
        """
        alone = (threads or self.cores) == 1
        return self.fault_bytes if alone else max(mmap.PAGESIZE, self.fault_bytes / 2)


def device_of(calibration: Calibration) -> Device:
    """The constants of a calibration."""
    swap_in, swap_out = calibration.swap_in_bytes_per_s, calibration.swap_out_bytes_per_s
    cores = calibration.environment.get("cpu_cores_usable")
    held = calibration.held
    held_in, held_file = (held.swap_bytes_per_s, held.file_bytes_per_s) if held else (None, None)
    used = _USED_ON_RAM if calibration.ram else _USED_BY_ROUNDS
    return Device(
        costs=MovementCosts(
            fault_s=calibration.fault_s.value,
            in_s=1 / swap_in.value if swap_in else 0.0,
            out_s=1 / swap_out.value if swap_out else 0.0,
            file_s=1 / calibration.file_fault_bytes_per_s.value,
            reclaim_s=_RECLAIM_TOUCHES * calibration.minor_fault_s.value / mmap.PAGESIZE,
        ),
        fault_bytes=calibration.pages_per_fault.value * mmap.PAGESIZE,
        file_fault_bytes=calibration.file_pages_per_fault.value * mmap.PAGESIZE,
        base=RuntimeBase(
            calibration.base_bytes.value,
            # What stayed under the heaviest pressure is nearest to what is needed.
            min(used * calibration.hot_base_bytes.low, calibration.base_bytes.value),
        ),
        cores=cores if isinstance(cores, int) else None,
        memory=Memory(
            swaps=swap_in is not None,
            # A disk keeps what it gave back until it is written anew; zram gives it up.
            rewrites=calibration.swap_kind == "zram",
            # A fault in order begins to read the next window too.
            ahead_bytes=calibration.file_pages_per_fault.value * mmap.PAGESIZE / 2,
        ),
        held_in_s=1 / held_in.value if held_in else 0.0,
        held_file_s=1 / held_file.value if held_file else 0.0,
    )


@dataclass(frozen=True)
class Simulation:
    """What a workload does at each limit.

    Attributes:
        workload: what was simulated.
        tasks: one round's tasks; all are simulated for the first round and, if there are more,
            for a later one.
        limit_bytes: the limits.
        missed: bytes of each simulated task at each limit, round after round.
        moved: faults, bytes in, out and read from files, and bytes reclaimed for new pages (as
            :class:`MovementCosts` has them), of shape (5, rounds, tasks, limits).
        io_s: the seconds that all this takes, of shape (rounds, tasks, limits).
    """

    workload: Workload
    tasks: tuple[Task, ...]
    limit_bytes: FloatArray
    missed: Missed
    moved: FloatArray
    io_s: FloatArray

    @property
    def faults(self) -> FloatArray:
        """The faults that bring bytes back, of shape (rounds, tasks, limits)."""
        return np.asarray(self.moved[0])

    def where(
        self,
        phase: str | None = None,
        networks: Collection[int] | None = None,
    ) -> BoolArray:
        """Which tasks are of a phase, and of some of the pipeline's networks."""
        return np.array(
            [
                phase in (None, task.phase) and (networks is None or task.network in networks)
                for task in self.tasks
            ],
            dtype=bool,
        )

    def a_round(self, values: FloatArray, tasks: BoolArray, start: bool = False) -> FloatArray:
        """The sum over some tasks of ``io_s`` or of missed bytes: of a steady round, or the start.

        Where only one round is run, that is both.
        """
        return self._of(values.reshape(self.io_s.shape)[:, tasks].sum(axis=1), start)

    def layers_s(self) -> dict[tuple[int, int], float]:
        """By network and layer the seconds that the first limit adds to a steady round."""
        keys = [(task.network, task.layer.order) for task in self.tasks]
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        each, own = self.io_s[:, :, 0], [places[key] for key in keys]
        sums = np.array([np.bincount(own, weights=row, minlength=len(places)) for row in each])
        return dict(zip(places, self._of(sums, start=False).tolist(), strict=True))

    def round_s(self, cpu_s: FloatArray, start: bool = False) -> FloatArray:
        """A steady round's seconds on the clock at each limit, or those of the start.

        Args:
            cpu_s: what each task takes unlimited.
            start: whether the first round is wanted.
        """
        each = np.array([path_s(self.tasks, cpu_s[:, None] + io) for io in self.io_s])
        return self._of(each, start)

    def unlimited_s(self, cpu_s: FloatArray) -> float:
        """A round's seconds on the clock with no limit."""
        return float(path_s(self.tasks, cpu_s[:, None])[0])

    def _of(self, each: FloatArray, start: bool) -> FloatArray:
        """The first round's values, or the median of the later ones; of a walk, the last one's.

        Rounds after the simulated ones are like the last of these.
        """
        if start or len(each) == 1:
            return np.asarray(each[0])
        if self.workload.walked:
            return np.asarray(each[-1])
        later = max(0, self.workload.rounds - len(each))
        return np.asarray(np.median([*each[1:], *[each[-1]] * later], axis=0))


def simulate(workload: Workload, device: Device, limit_bytes: FloatArray) -> Simulation:
    """Simulate a workload at each limit."""
    limits = np.asarray(limit_bytes, dtype=np.float64)
    tasks, _ = _string(workload, device.base, device.memory.ahead_bytes)
    found = _missed(workload, device.base, device.memory, tuple(limits.tolist()))
    in_order = found.in_bytes - found.scattered_bytes
    faults = in_order / device.swap_fault_bytes(workload.threads)
    faults += found.scattered_bytes / mmap.PAGESIZE
    faults += found.file_bytes / device.file_fault_bytes
    # What makes room for bytes that come back is a part of their rates, measured under a limit.
    for_new = np.maximum(found.reclaimed_bytes - found.in_bytes - found.file_bytes, 0.0)
    moved = np.array([faults, found.in_bytes, found.out_bytes, found.file_bytes, for_new])
    moved = moved.reshape(len(moved), -1, len(tasks), len(limits))
    return Simulation(workload, tasks, limits, found, moved, device.seconds(moved))


@lru_cache(maxsize=64)
def _missed(
    workload: Workload, base: RuntimeBase, memory: Memory, limit_bytes: tuple[float, ...]
) -> Missed:
    """What does not depend on what anything costs."""
    tasks, references = _string(workload, base, memory.ahead_bytes)
    count = _rounds(workload) * len(tasks)

    def simulated() -> FloatArray:
        found = missed(references, count, np.array(limit_bytes), memory)
        return np.array([getattr(found, field.name) for field in fields(found)])

    if len(limit_bytes) > 1 and not workload.overlaps:
        # Of these only sums are kept (profile.py): there are too many tasks.
        return Missed(*simulated())
    question = ("missed", workload, base, memory, limit_bytes)
    shape = (len(fields(Missed)), count, len(limit_bytes))
    return Missed(*kept_counts(question, shape, simulated))


def anonymous_peak_bytes(workload: Workload, device: Device) -> float:
    """The most anonymous memory alive at once: what must fit into RAM and swap together."""
    return _peak_bytes(workload, device.base, device.memory.ahead_bytes)


@lru_cache(maxsize=1024)
def _peak_bytes(workload: Workload, base: RuntimeBase, ahead_bytes: float) -> float:
    def simulated() -> FloatArray:
        _, references = _string(workload, base, ahead_bytes)
        return np.array([references.alive.max(initial=0.0)])

    return float(kept_counts(("peak", workload, base, ahead_bytes), (1,), simulated)[0])


@lru_cache(maxsize=256)
def _string(
    workload: Workload, base: RuntimeBase, ahead_bytes: float
) -> tuple[tuple[Task, ...], References]:
    """What does not depend on the limit."""
    tasks = typical_tasks(workload)
    return tasks, references_of(workload, tasks, _rounds(workload), base, ahead_bytes)


def _rounds(workload: Workload) -> int:
    """How many are simulated."""
    return _WALKED_ROUNDS if workload.walked else min(workload.rounds, _ROUNDS)
