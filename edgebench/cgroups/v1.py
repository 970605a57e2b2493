"""One cgroup on version 1: a folder in each hierarchy that could be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgebench.cgroups.accounting import Source, Sources, read_counters
from edgebench.cgroups.files import (
    CPU_PERIOD_US,
    cpu_files,
    cpuset_files,
    has,
    memory_files,
    pids_files,
    put,
)
from edgebench.cgroups.folders import kill_all, pids_in, remove_all
from edgebench.cgroups.interface import Cgroup, Counters, HotFiles, Limits, Missing
from edgebench.cgroups.taken import PAGE, no_controller, require_cores, require_taken

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: What the kernel shows where there is no limit, whatever its page size.
UNLIMITED = sys.maxsize // PAGE * PAGE
#: Where there is to be no swap, memory + swap is let this much above memory: two equal limits
#: are both hit, and the kernel (seen on 6.18) then counts the hit in neither. Swappiness 0
#: keeps the headroom unused. It is larger than the kernel's largest single charge, a huge page.
_HEADROOM = max(2 << 20, 64 * PAGE)
_STAT = "memory.stat"
_IO = "blkio.throttle.io_service_bytes_recursive"

#: memory.stat's ``total_`` keys count the cgroups below too. Kernel documentation:
#: admin-guide/cgroup-v1/memory.rst, cpuacct.rst, blkio-controller.rst.
SOURCES: Sources = {
    "usage_bytes": Source("memory", "memory.usage_in_bytes"),
    "peak_bytes": Source("memory", "memory.max_usage_in_bytes"),
    "swap_bytes": Source("memory", _STAT, "total_swap"),
    "anon_bytes": Source("memory", _STAT, "total_rss"),
    "file_bytes": Source("memory", _STAT, "total_cache"),
    "mapped_file_bytes": Source("memory", _STAT, "total_mapped_file"),
    "shmem_bytes": Source("memory", _STAT, "total_shmem"),
    "kernel_bytes": Source("memory", "memory.kmem.usage_in_bytes"),
    "minor_faults": Source("memory", _STAT, "total_pgfault", minus="total_pgmajfault"),
    "major_faults": Source("memory", _STAT, "total_pgmajfault"),
    "swapped_in_bytes": Source("memory", _STAT, "total_pswpin", PAGE),
    "swapped_out_bytes": Source("memory", _STAT, "total_pswpout", PAGE),
    "refault_anon": Source("memory", _STAT, "total_workingset_refault_anon"),
    "refault_file": Source("memory", _STAT, "total_workingset_refault_file"),
    "cpu_ns": Source("cpuacct", "cpuacct.usage"),
    "user_ns": Source("cpuacct", "cpuacct.stat", "user", _TICK_NS),
    "system_ns": Source("cpuacct", "cpuacct.stat", "system", _TICK_NS),
    "throttled_ns": Source("cpu", "cpu.stat", "throttled_time"),
    # No device line at all means that the kernel counts only throttled devices, not a real 0.
    "io_read_bytes": Source("blkio", _IO, "Read"),
    "io_write_bytes": Source("blkio", _IO, "Write"),
    "oom_kills": Source("memory", "memory.oom_control", "oom_kill"),
    "limit_hits": Source("memory", "memory.failcnt"),
}
UNTOLD: Mapping[str, str] = {
    "swap_peak_bytes": "cgroup v1 keeps a mark of memory and swap together only",
    "page_tables_bytes": "cgroup v1's memory.stat has no page tables",
    "slab_bytes": "cgroup v1's memory.stat has no slab",
    "pressure_some_us": "cgroup v1 has no pressure of its own",
    "pressure_full_us": "cgroup v1 has no pressure of its own",
}


class V1Cgroup(Cgroup):
    """A cgroup of ours on version 1.

    Args:
        folders: controller → folder; ``memory`` is always there.
        removed: called once the folders are gone.
    """

    version = 1

    def __init__(self, folders: Mapping[str, Path], removed: Callable[[], None]) -> None:
        self.path = folders["memory"]
        self._folders = dict(folders)
        self._removed = removed
        self._memory = memory_files(self.path)
        self._swappiness = self._memory.swappiness
        if has(self._memory, "oom_control") and self._memory.oom_control["oom_kill_disable"]:
            # Inherited; a trial out of memory would hang for ever.
            put(self._memory, "oom_control", False)
        if "cpuset" in folders:
            self._fill_cpuset(None)

    def _fill_cpuset(self, cores: tuple[int, ...] | None) -> None:
        """A new cpuset is empty, and an empty one can't be joined."""
        folder = self._folders["cpuset"]
        above, files = cpuset_files(folder.parent), cpuset_files(folder)
        put(files, "mems", above.mems)
        put(files, "cpus", set(cores) if cores else above.cpus)

    def apply(self, limits: Limits) -> Limits:
        """Set the limits and read them back. Swap alone can't be limited on version 1.

        ``swap_bytes`` comes back as None where memory is unlimited: only the sum has a limit.
        ``cores`` without a cpuset hold by the affinity that the join helper sets.
        """
        self._set_swap_use(limits.swap_bytes)
        self._set_memory(limits)
        self._set_cpu(limits)
        applied = self._applied(limits)
        require_taken(
            limits.memory_bytes, applied.memory_bytes, self.path / "memory.limit_in_bytes"
        )
        return applied

    def _set_swap_use(self, swap_bytes: int | None) -> None:
        """Swappiness 0 keeps a cgroup of version 1 out of swap (Documentation/cgroup-v1/memory)."""
        put(self._memory, "swappiness", 0 if swap_bytes == 0 else self._swappiness)

    def _set_memory(self, limits: Limits) -> None:
        memory, both = limits.memory_bytes, None
        if memory is not None and limits.swap_bytes is not None:
            both = memory + (limits.swap_bytes or _HEADROOM)
        writes = [("limit_in_bytes", memory)]
        if has(self._memory, "memsw_limit_in_bytes"):
            # Memory alone may at no moment be allowed more than memory and swap together.
            grows = both is None or both >= self._memory.memsw_limit_in_bytes
            writes.insert(0 if grows else 1, ("memsw_limit_in_bytes", both))
        for name, value in writes:
            put(self._memory, name, value)

    def _set_cpu(self, limits: Limits) -> None:
        if "cpuset" in self._folders:
            self._fill_cpuset(limits.cores)
        else:
            require_cores(limits.cores)
        if "cpu" in self._folders:
            files = cpu_files(self._folders["cpu"])
            quota = limits.cpu_quota
            put(files, "cfs_period_us", CPU_PERIOD_US)
            put(files, "cfs_quota_us", None if quota is None else round(quota * CPU_PERIOD_US))
        elif limits.cpu_quota is not None:
            raise no_controller("cpu", "a CPU quota")
        if "pids" in self._folders:
            put(pids_files(self._folders["pids"]), "max", limits.pids)
        elif limits.pids is not None:
            raise no_controller("pids", "a limit of processes")

    def _applied(self, asked: Limits) -> Limits:
        memory = _limit(self._memory.limit_in_bytes)
        swap = None
        if memory is not None and has(self._memory, "memsw_limit_in_bytes"):
            both = _limit(self._memory.memsw_limit_in_bytes)
            swap = None if both is None else both - memory
        if self._memory.swappiness == 0:
            swap = 0
        return Limits(memory, swap, self._cores(asked), self._quota(), self._pids())

    def _cores(self, asked: Limits) -> tuple[int, ...] | None:
        if asked.cores is None or "cpuset" not in self._folders:
            return asked.cores
        return tuple(sorted(cpuset_files(self._folders["cpuset"]).cpus))

    def _quota(self) -> float | None:
        if "cpu" not in self._folders:
            return None
        files = cpu_files(self._folders["cpu"])
        quota = files.cfs_quota_us
        return None if quota is None else quota / files.cfs_period_us

    def _pids(self) -> int | None:
        if "pids" not in self._folders:
            return None
        limit: int | None = pids_files(self._folders["pids"]).max
        return limit

    def read(self) -> Counters:
        """Everything the kernel tells at this moment."""
        counters = read_counters(self._folders, SOURCES, UNTOLD)[0]
        if counters.limit_hits is None or not has(self._memory, "memsw_failcnt"):
            return counters
        # Where swap is used up or not allowed, it is the sum's limit that is hit.
        return replace(counters, limit_hits=counters.limit_hits + self._memory.memsw_failcnt)

    def missing(self) -> Missing:
        """Which counters this kernel lacks, and why."""
        return Missing(read_counters(self._folders, SOURCES, UNTOLD)[1])

    def reset_peak(self) -> bool:
        """Set the kernel's mark back to current usage: here one for all its readers."""
        try:
            (self.path / "memory.max_usage_in_bytes").write_text("0")
        except OSError:
            return False
        return True

    def hot_files(self) -> HotFiles:
        """The files to keep open for sampling."""
        peak = self._file("memory", "memory.max_usage_in_bytes")
        both = self._file("memory", "memory.memsw.usage_in_bytes")
        return HotFiles(
            usage=self.path / "memory.usage_in_bytes",
            peak=peak,
            peak_resets=peak is not None and os.access(peak, os.W_OK),
            swap=both,
            swap_is_memsw=both is not None,
            stat=self._file("memory", _STAT),
            kernel=self._file("memory", "memory.kmem.usage_in_bytes"),
            cpu=self._file("cpuacct", "cpuacct.usage"),
            io=self._file("blkio", _IO),
        )

    def _file(self, controller: str, name: str) -> Path | None:
        folder = self._folders.get(controller)
        return folder / name if folder and (folder / name).exists() else None

    def join_files(self) -> tuple[Path, ...]:
        """Memory's ``cgroup.procs`` last: what is charged starts with it."""
        folders = dict.fromkeys([*self._folders.values(), self.path])
        others = [folder for folder in folders if folder != self.path]
        return tuple(folder / "cgroup.procs" for folder in (*others, self.path))

    def pids(self) -> tuple[int, ...]:
        """Processes in it now."""
        return pids_in(self.path)

    def kill(self) -> None:
        """Kill all that runs in it and wait until nothing does. Safe to call twice."""
        kill_all(self._folders.values())

    def remove(self) -> None:
        """Kill, then take the cgroup away. Safe to call twice."""
        remove_all(self._folders.values())
        self._removed()


def _limit(value: int | None) -> int | None:
    return None if value is None or value >= UNLIMITED else value
