"""From a layer table, a schedule, a loader and a limit to time: the physical model.

The chain: the workload's references, their reuse distances, the bytes that each task misses, the
seconds that these take at the device's rates, and the longest path through the schedule's tasks.
docs/slowdown-model.md derives it and states its errors link by link.
"""

from __future__ import annotations

import math
import mmap
import statistics
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from edgebench.slowdown.calibration.device import Calibration
from edgebench.slowdown.calibration.scans import Scan
from edgebench.slowdown.cpu import TYPICAL
from edgebench.slowdown.misses import Memory, Missed, missed
from edgebench.slowdown.references import Base, BoolArray, FloatArray, References
from edgebench.slowdown.reuse import Reuse, reuse_of
from edgebench.slowdown.rounds import references_of
from edgebench.slowdown.tables import Workload
from edgebench.slowdown.tasks import Task, path_s, tasks_of

#: The first round pushes the runtime's idle part out; from the third on all are alike.
_ROUNDS = 3
#: Scans that miss less than this, or leave less, are too near to nothing or all to tell a knee.
_PART = 0.05
#: From this share of memory on a scan is beyond any knee.
_WIDE = 1.4


@dataclass(frozen=True)
class Device:
    """A device's constants as the simulator needs them.

    Attributes:
        in_s, out_s, file_s: seconds a byte takes that comes back from swap, goes there, or is
            read again from a mapped file, beyond what faults cost.
        touch_s: seconds a byte takes when anonymous memory is first touched.
        fault_s: seconds of a fault.
        fault_bytes, file_fault_bytes: what a fault brings back from swap, or from a mapped file.
        base: the runtime's footprint.
        cores: how many there are, None if unknown.
        memory: how it replaces what does not fit.
    """

    in_s: float
    out_s: float
    file_s: float
    touch_s: float
    fault_s: float
    fault_bytes: float
    file_fault_bytes: float
    base: Base
    cores: int | None
    memory: Memory

    @property
    def mapped_s(self) -> float:
        """Seconds a byte takes that is read again from a mapped file, faults and all."""
        return self.file_s + self.fault_s / self.file_fault_bytes

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
    return Device(
        in_s=1 / swap_in.value if swap_in else 0.0,
        out_s=1 / swap_out.value if swap_out else 0.0,
        file_s=1 / calibration.file_fault_bytes_per_s.value,
        touch_s=calibration.minor_fault_s.value / mmap.PAGESIZE,
        fault_s=calibration.fault_s.value,
        fault_bytes=calibration.pages_per_fault.value * mmap.PAGESIZE,
        file_fault_bytes=calibration.file_pages_per_fault.value * mmap.PAGESIZE,
        base=Base(
            calibration.base_bytes.value,
            # What stayed under the heaviest pressure is nearest to what is needed.
            min(calibration.hot_base_bytes.low, calibration.base_bytes.value),
        ),
        cores=cores if isinstance(cores, int) else None,
        memory=_memory(calibration),
    )


def _memory(calibration: Calibration) -> Memory:
    """θ as scans of far more than fits show it, and κ from those of which a part was missed."""
    scans = [s for s in calibration.scans if (s.of, s.what) == ("anon", "read") and s.share > 1]
    parts = [s for s in scans if _PART <= s.miss_share <= 1 - _PART]
    knees = [(s.resident_bytes - s.size_bytes) / math.log(1 - s.miss_share) for s in parts]
    wide = [_lru_share(s) for s in scans if s.share >= _WIDE]
    return Memory(
        lru_share=statistics.median(wide) if wide else calibration.lru_share.value,
        knee=statistics.median(knees) if knees else 0.0,
        swaps=calibration.swap_in_bytes_per_s is not None,
        # A disk keeps what it gave back until it is written anew; zram gives it up.
        rewrites=calibration.swap_kind == "zram",
    )


def _lru_share(scan: Scan) -> float:
    least = 1 - 1 / scan.share
    return min(1.0, max(0.0, (scan.miss_share - least) / (1 - least)))


@dataclass(frozen=True)
class Simulation:
    """What a workload does at each limit.

    Attributes:
        workload: what was simulated.
        tasks: one round's tasks; all are simulated for the first round and, if there are more,
            for a later one.
        limit_bytes: the limits.
        missed: bytes of each simulated task at each limit, round after round.
        faults: the faults that bring them back, of shape (rounds, tasks, limits).
        io_s: the seconds that all this takes, in the same shape.
    """

    workload: Workload
    tasks: tuple[Task, ...]
    limit_bytes: FloatArray
    missed: Missed
    faults: FloatArray
    io_s: FloatArray

    def where(
        self,
        phase: str | None = None,
        networks: Collection[int] | None = None,
        layer: int | None = None,
    ) -> BoolArray:
        """Which tasks are of a phase, of some of the pipeline's networks, and of a layer."""
        return np.array(
            [
                phase in (None, task.phase)
                and (networks is None or task.network in networks)
                and layer in (None, task.layer.order)
                for task in self.tasks
            ],
            dtype=bool,
        )

    def a_round(self, values: FloatArray, tasks: BoolArray) -> FloatArray:
        """The sum over some tasks of ``io_s`` or of missed bytes, median over rounds."""
        return self._median(values.reshape(self.io_s.shape)[:, tasks].sum(axis=1))

    def round_s(self, cpu_s: FloatArray) -> FloatArray:
        """A round's seconds on the clock at each limit, median over rounds.

        Args:
            cpu_s: what each task takes unlimited.
        """
        return self._median(np.array([path_s(self.tasks, cpu_s[:, None] + io) for io in self.io_s]))

    def unlimited_s(self, cpu_s: FloatArray) -> float:
        """A round's seconds on the clock with no limit."""
        return float(path_s(self.tasks, cpu_s[:, None])[0])

    def _median(self, each: FloatArray) -> FloatArray:
        """Over the trial's rounds; those after the simulated ones are like the last of these."""
        later = max(0, self.workload.rounds - len(each))
        return np.asarray(np.median([*each, *[each[-1]] * later], axis=0))


def simulate(workload: Workload, device: Device, limit_bytes: FloatArray) -> Simulation:
    """Simulate a workload at each limit."""
    limits = np.asarray(limit_bytes, dtype=np.float64)
    tasks, references, reuse = _string(workload, device.base)
    rounds = min(workload.rounds, _ROUNDS)
    found = missed(references, reuse, rounds * len(tasks), limits, device.memory)
    in_order = found.in_bytes - found.scattered_bytes
    faults = in_order / device.swap_fault_bytes(workload.threads)
    faults += found.scattered_bytes / mmap.PAGESIZE
    faults += found.file_bytes / device.file_fault_bytes
    io_s = faults * device.fault_s
    io_s += found.in_bytes * device.in_s
    io_s += found.out_bytes * device.out_s
    io_s += found.file_bytes * device.file_s
    shape = rounds, len(tasks), len(limits)
    return Simulation(workload, tasks, limits, found, faults.reshape(shape), io_s.reshape(shape))


def anonymous_peak_bytes(workload: Workload, device: Device) -> float:
    """The most anonymous memory alive at once: what must fit into RAM and swap together."""
    _, references, _ = _string(workload, device.base)
    return float(references.alive.max(initial=0.0))


@lru_cache(maxsize=256)
def _string(workload: Workload, base: Base) -> tuple[tuple[Task, ...], References, Reuse]:
    """What does not depend on the limit."""
    tasks = tasks_of(workload, TYPICAL.seconds)
    references = references_of(workload, tasks, min(workload.rounds, _ROUNDS), base)
    return tasks, references, reuse_of(references)
