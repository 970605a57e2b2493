"""One cgroup on version 2: its limits, counters and files, in one folder."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.cgroups.files import (
    PAGE,
    check_cores,
    file_of,
    has,
    missing_controller,
    put,
    unified_files,
)
from edgebench.cgroups.interface import (
    MEMORY_SIZES,
    Cgroup,
    Counters,
    CounterSource,
    HotFiles,
    Limits,
    Sources,
)
from edgebench.errors import CgroupError

_STAT = "memory.stat"

#: Kernel documentation: admin-guide/cgroup-v2.rst.
SOURCES: Sources = {
    "usage_bytes": CounterSource("memory", "memory.current"),
    "peak_bytes": CounterSource("memory", "memory.peak"),
    "swap_bytes": CounterSource("memory", "memory.swap.current"),
    "swap_peak_bytes": CounterSource("memory", "memory.swap.peak"),
    "anon_bytes": CounterSource("memory", _STAT, "anon"),
    "file_bytes": CounterSource("memory", _STAT, "file"),
    "mapped_file_bytes": CounterSource("memory", _STAT, "file_mapped"),
    "shmem_bytes": CounterSource("memory", _STAT, "shmem"),
    "kernel_bytes": CounterSource("memory", _STAT, "kernel"),
    "page_tables_bytes": CounterSource("memory", _STAT, "pagetables"),
    "slab_bytes": CounterSource("memory", _STAT, "slab"),
    "minor_faults": CounterSource("memory", _STAT, "pgfault", minus="pgmajfault"),
    "major_faults": CounterSource("memory", _STAT, "pgmajfault"),
    "swapped_in_bytes": CounterSource("memory", _STAT, "pswpin", PAGE),
    "swapped_out_bytes": CounterSource("memory", _STAT, "pswpout", PAGE),
    "refault_anon": CounterSource("memory", _STAT, "workingset_refault_anon"),
    "refault_file": CounterSource("memory", _STAT, "workingset_refault_file"),
    "cpu_ns": CounterSource("memory", "cpu.stat", "usage_usec", 1000),
    "user_ns": CounterSource("memory", "cpu.stat", "user_usec", 1000),
    "system_ns": CounterSource("memory", "cpu.stat", "system_usec", 1000),
    "throttled_ns": CounterSource("memory", "cpu.stat", "throttled_usec", 1000),
    "io_read_bytes": CounterSource("memory", "io.stat", "rbytes", per_device=True),
    "io_write_bytes": CounterSource("memory", "io.stat", "wbytes", per_device=True),
    "pressure_some_us": CounterSource("memory", "memory.pressure", "some.total"),
    "pressure_full_us": CounterSource("memory", "memory.pressure", "full.total"),
    "oom_kills": CounterSource("memory", "memory.events", "oom_kill"),
    "limit_hits": CounterSource("memory", "memory.events", "max"),
}


@dataclass(frozen=True)
class LimitFile:
    """The typed attribute behind a limit, whose controller has it, and the limit in words."""

    attribute: str
    controller: str
    words: str


_MEMORY = "memory_bytes"
#: Each limit of :class:`Limits` that is one file.
LIMITS = {
    _MEMORY: LimitFile("memory_max", "memory", "a memory limit"),
    "memory_high_bytes": LimitFile("memory_high", "memory", "memory.high"),
    "swap_bytes": LimitFile("swap_max", "swap", "a limit of swap"),
    "cpu_quota": LimitFile("cpu_max", "cpu", "a CPU quota"),
    "pids": LimitFile("pids_max", "pids", "a limit of processes"),
}
_LOCAL_KILLS = CounterSource("memory", "memory.events.local", "oom_kill")


def reclaim(file: Path, size_bytes: int) -> bool:
    """Have the kernel reclaim this much of a cgroup; return False if it did less.

    A file that we may not write to counts as no file.
    """
    try:
        file.write_text(str(size_bytes))
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


class V2Cgroup(Cgroup):
    """A cgroup on version 2: one folder with all controllers' files."""

    version = 2
    settable = frozenset((*LIMITS, "cores", "disks"))
    sources = SOURCES

    def __init__(self, path: Path, removed: Callable[[], None]) -> None:
        super().__init__({"memory": path}, removed)
        self._files = unified_files(path)
        if has(self._files, "oom_group"):
            # Else the kernel kills one process of the workload and leaves the others hanging.
            put(self._files, "oom_group", True)

    @property
    def size_files(self) -> dict[str, Path]:
        """The files of memory's limits."""
        return {name: file_of(self._files, LIMITS[name].attribute) for name in MEMORY_SIZES}

    def _write_limits(self, limits: Limits) -> None:
        for name, limit in LIMITS.items():
            value = getattr(limits, name)
            if has(self._files, limit.attribute) or name == _MEMORY:
                put(self._files, limit.attribute, value)
            elif value:
                raise missing_controller(limit.controller, limit.words)
        if has(self._files, "cpus"):
            put(self._files, "cpus", limits.cores or ())
        else:
            check_cores(limits.cores)

    def _write_memory(self, limits: Limits, *, waits: bool) -> None:
        # A limit below what is used kills if the kernel can't reclaim at once. So without `waits`
        # the memory is reclaimed first, where this kernel can (Linux 5.19); if that isn't enough,
        # nothing is written, and the error is the same as on version 1.
        size, file = limits.memory_bytes, self.path / "memory.reclaim"
        if not waits and size is not None and file.exists():
            over = self._used() - size
            if over > 0 and not reclaim(file, over) and self._used() > size:
                cause = OSError(errno.EBUSY, "busy")
                raise CgroupError("the kernel could not reclaim enough", where=str(file)) from cause
        put(self._files, LIMITS[_MEMORY].attribute, size)

    def _used(self) -> int:
        return int((self.path / "memory.current").read_text(errors="replace"))

    def read_limits(self, asked: Limits) -> Limits:
        """Read the limits but those of disks, as the kernel has them now."""
        files = self._files
        applied: dict[str, Any] = {
            name: getattr(files, limit.attribute)
            for name, limit in LIMITS.items()
            if has(files, limit.attribute)
        }
        cores = asked.cores
        if cores is not None and has(files, "effective_cpus"):
            cores = tuple(sorted(files.effective_cpus))
        return Limits(cores=cores, **applied)

    def read(self) -> Counters:
        """Read all counters that the kernel has, now."""
        counters = super().read()
        # Mounted with memory_localevents, a cgroup's events exclude those of its child cgroups.
        below = self.sum_of_tree(_LOCAL_KILLS)
        known = [kills for kills in (counters.oom_kills, below) if kills is not None]
        return replace(counters, oom_kills=max(known, default=None))

    def hot_files(self) -> HotFiles:
        """Find the files to keep open for sampling."""
        try:
            # Since Linux 6.12 a write resets the mark, for this descriptor alone.
            with (self.path / "memory.peak").open("r+b", buffering=0) as mark:
                mark.write(b"reset")
            resets = True
        except OSError:
            resets = False
        pressure: Path | None = self.path / "memory.pressure"
        try:
            # With psi=0 the file exists, and can't be read.
            (self.path / "memory.pressure").read_bytes()
        except OSError:
            pressure = None
        return HotFiles(
            usage=self.path / "memory.current",
            peak=self.file("memory", "memory.peak"),
            peak_resets=resets,
            swap=self.file("memory", "memory.swap.current"),
            stat=self.file("memory", _STAT),
            cpu=self.file("memory", "cpu.stat"),
            cpu_unit_ns=1000,
            pressure=pressure,
            io=self.file("memory", "io.stat"),
            # Statistics of all controllers of a cgroup are flushed together (before Linux 6.16).
            flushing=("stat", "cpu", "io"),
        )
