"""One cgroup on version 2: one folder with everything in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgebench.cgroups.accounting import Source, Sources, read_counters
from edgebench.cgroups.files import has, put, unified_files
from edgebench.cgroups.folders import kill_all, pids_in, remove_all
from edgebench.cgroups.interface import Cgroup, Counters, HotFiles, Limits, Missing
from edgebench.cgroups.taken import PAGE, no_controller, require_cores, require_taken

_STAT = "memory.stat"

#: Kernel documentation: admin-guide/cgroup-v2.rst.
SOURCES: Sources = {
    "usage_bytes": Source("memory", "memory.current"),
    "peak_bytes": Source("memory", "memory.peak"),
    "swap_bytes": Source("memory", "memory.swap.current"),
    "swap_peak_bytes": Source("memory", "memory.swap.peak"),
    "anon_bytes": Source("memory", _STAT, "anon"),
    "file_bytes": Source("memory", _STAT, "file"),
    "mapped_file_bytes": Source("memory", _STAT, "file_mapped"),
    "shmem_bytes": Source("memory", _STAT, "shmem"),
    "kernel_bytes": Source("memory", _STAT, "kernel"),
    "page_tables_bytes": Source("memory", _STAT, "pagetables"),
    "slab_bytes": Source("memory", _STAT, "slab"),
    "minor_faults": Source("memory", _STAT, "pgfault", minus="pgmajfault"),
    "major_faults": Source("memory", _STAT, "pgmajfault"),
    "swapped_in_bytes": Source("memory", _STAT, "pswpin", PAGE),
    "swapped_out_bytes": Source("memory", _STAT, "pswpout", PAGE),
    "refault_anon": Source("memory", _STAT, "workingset_refault_anon"),
    "refault_file": Source("memory", _STAT, "workingset_refault_file"),
    "cpu_ns": Source("memory", "cpu.stat", "usage_usec", 1000),
    "user_ns": Source("memory", "cpu.stat", "user_usec", 1000),
    "system_ns": Source("memory", "cpu.stat", "system_usec", 1000),
    "throttled_ns": Source("memory", "cpu.stat", "throttled_usec", 1000),
    "io_read_bytes": Source("memory", "io.stat", "rbytes", per_device=True),
    "io_write_bytes": Source("memory", "io.stat", "wbytes", per_device=True),
    "pressure_some_us": Source("memory", "memory.pressure", "some.total"),
    "pressure_full_us": Source("memory", "memory.pressure", "full.total"),
    "oom_kills": Source("memory", "memory.events", "oom_kill"),
    "limit_hits": Source("memory", "memory.events", "max"),
}
#: Marks that are reset for the writing descriptor alone, and the counter each of them is.
_MARKS = {"memory.peak": "peak_bytes", "memory.swap.peak": "swap_peak_bytes"}


class V2Cgroup(Cgroup):
    """A cgroup of ours on version 2.

    Args:
        path: its folder.
        removed: called once the folder is gone.
    """

    version = 2

    def __init__(self, path: Path, removed: Callable[[], None]) -> None:
        self.path = path
        self._removed = removed
        self._files = unified_files(path)
        self._marks: dict[str, int] = {}
        if has(self._files, "oom_group"):
            # Else the kernel kills one process of the workload and leaves the others hanging.
            put(self._files, "oom_group", True)

    def apply(self, limits: Limits) -> Limits:
        """Set the limits and read them back.

        ``cores`` without the cpuset controller hold by the affinity that the join helper sets.
        """
        put(self._files, "memory_max", limits.memory_bytes)
        self._put_if("swap_max", limits.swap_bytes, "swap", "a limit of swap")
        self._put_if("cpu_max", limits.cpu_quota, "cpu", "a CPU quota")
        self._put_if("pids_max", limits.pids, "pids", "a limit of processes")
        if has(self._files, "cpus"):
            put(self._files, "cpus", limits.cores or ())
        else:
            require_cores(limits.cores)
        applied = self._applied(limits)
        require_taken(limits.memory_bytes, applied.memory_bytes, self.path / "memory.max")
        return applied

    def _put_if(self, name: str, value: float | None, controller: str, what: str) -> None:
        if has(self._files, name):
            put(self._files, name, value)
        elif value:
            raise no_controller(controller, what)

    def _applied(self, asked: Limits) -> Limits:
        files = self._files
        return Limits(
            memory_bytes=files.memory_max,
            swap_bytes=files.swap_max if has(files, "swap_max") else None,
            cores=self._cores(asked),
            cpu_quota=files.cpu_max if has(files, "cpu_max") else None,
            pids=files.pids_max if has(files, "pids_max") else None,
        )

    def _cores(self, asked: Limits) -> tuple[int, ...] | None:
        if asked.cores is None or not has(self._files, "effective_cpus"):
            return asked.cores
        return tuple(sorted(self._files.effective_cpus))

    def _folders(self) -> dict[str, Path]:
        return {"memory": self.path}

    def read(self) -> Counters:
        """Everything the kernel tells at this moment; marks count from our own last reset."""
        counters = read_counters(self._folders(), SOURCES, {})[0]
        for file, descriptor in self._marks.items():
            mark = int(os.pread(descriptor, 64, 0))
            counters = replace(counters, **{_MARKS[file]: mark})
        return counters

    def missing(self) -> Missing:
        """Which counters this kernel lacks, and why."""
        return Missing(read_counters(self._folders(), SOURCES, {})[1])

    def reset_peak(self) -> bool:
        """Set our own view of the kernel's marks back; others' descriptors are not touched."""
        for file in _MARKS:
            descriptor = self._marks.get(file, resettable(self.path / file))
            if descriptor is None:
                continue
            os.write(descriptor, b"reset")
            self._marks[file] = descriptor
        return "memory.peak" in self._marks

    def hot_files(self) -> HotFiles:
        """The files to keep open for sampling."""
        probe = resettable(self.path / "memory.peak")
        if probe is not None:
            os.close(probe)
        return HotFiles(
            usage=self.path / "memory.current",
            peak=self._file("memory.peak"),
            peak_resets=probe is not None,
            swap=self._file("memory.swap.current"),
            swap_peak=self._file("memory.swap.peak"),
            stat=self._file(_STAT),
            cpu=self._file("cpu.stat"),
            cpu_unit_ns=1000,
            pressure=self._readable("memory.pressure"),
            io=self._file("io.stat"),
        )

    def _file(self, name: str) -> Path | None:
        return self.path / name if (self.path / name).exists() else None

    def _readable(self, name: str) -> Path | None:
        """Pressure's files may be there and yet refuse to be read (``psi=0``)."""
        try:
            (self.path / name).read_text()
        except OSError:
            return None
        return self.path / name

    def join_files(self) -> tuple[Path, ...]:
        """The one ``cgroup.procs``."""
        return (self.path / "cgroup.procs",)

    def pids(self) -> tuple[int, ...]:
        """Processes in it now."""
        return pids_in(self.path)

    def kill(self) -> None:
        """Kill all that runs in it and wait until nothing does. Safe to call twice."""
        kill_all([self.path])

    def remove(self) -> None:
        """Kill, then take the cgroup away. Safe to call twice."""
        for descriptor in self._marks.values():
            os.close(descriptor)
        self._marks.clear()
        remove_all([self.path])
        self._removed()


def resettable(mark: Path) -> int | None:
    """A descriptor on which the kernel lets a write reset the mark (6.12), else None."""
    try:
        descriptor = os.open(mark, os.O_RDWR)
    except OSError:
        return None
    try:
        os.write(descriptor, b"reset")
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
