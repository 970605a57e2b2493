"""One cgroup on version 1: its limits, counters and files, in a folder of each hierarchy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cgroupspy.controllers import CpuController, CpuSetController, MemoryController

from edgebench.cgroups.files import (
    CPU_PERIOD_US,
    PAGE,
    UNLIMITED,
    PidsController,
    check_cores,
    controller_files,
    has,
    is_busy,
    missing_controller,
    put,
)
from edgebench.cgroups.interface import Cgroup, Counters, CounterSource, HotFiles, Limits, Sources
from edgebench.errors import CgroupError

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: Where there is to be no swap, the limit of memory + swap is this much above memory's: of
#: two equal limits, the kernel (seen on 6.18) counts a hit in neither. Swappiness 0 keeps the
#: headroom unused. It is larger than the kernel's largest single charge, a huge page.
_HEADROOM = max(2 << 20, 64 * PAGE)
#: How often a limit is tried that the kernel could not reclaim down to at once, and how long apart.
_TRIES, _PAUSE_S = 20, 0.05
_STAT = "memory.stat"
_IO = "blkio.throttle.io_service_bytes_recursive"

#: memory.stat's ``total_`` keys count the cgroups below too. Kernel documentation:
#: admin-guide/cgroup-v1/memory.rst, cpuacct.rst, blkio-controller.rst.
SOURCES: Sources = {
    "usage_bytes": CounterSource("memory", "memory.usage_in_bytes"),
    "peak_bytes": CounterSource("memory", "memory.max_usage_in_bytes"),
    "swap_bytes": CounterSource("memory", _STAT, "total_swap"),
    "anon_bytes": CounterSource("memory", _STAT, "total_rss"),
    "file_bytes": CounterSource("memory", _STAT, "total_cache"),
    "mapped_file_bytes": CounterSource("memory", _STAT, "total_mapped_file"),
    "shmem_bytes": CounterSource("memory", _STAT, "total_shmem"),
    "kernel_bytes": CounterSource("memory", "memory.kmem.usage_in_bytes"),
    "minor_faults": CounterSource("memory", _STAT, "total_pgfault", minus="total_pgmajfault"),
    "major_faults": CounterSource("memory", _STAT, "total_pgmajfault"),
    "swapped_in_bytes": CounterSource("memory", _STAT, "total_pswpin", PAGE),
    "swapped_out_bytes": CounterSource("memory", _STAT, "total_pswpout", PAGE),
    "refault_anon": CounterSource("memory", _STAT, "total_workingset_refault_anon"),
    "refault_file": CounterSource("memory", _STAT, "total_workingset_refault_file"),
    "cpu_ns": CounterSource("cpuacct", "cpuacct.usage"),
    "user_ns": CounterSource("cpuacct", "cpuacct.stat", "user", _TICK_NS),
    "system_ns": CounterSource("cpuacct", "cpuacct.stat", "system", _TICK_NS),
    "throttled_ns": CounterSource("cpu", "cpu.stat", "throttled_time"),
    # No device line at all means that the kernel counts only throttled devices, not a real 0.
    "io_read_bytes": CounterSource("blkio", _IO, "Read"),
    "io_write_bytes": CounterSource("blkio", _IO, "Write"),
    "oom_kills": CounterSource("memory", "memory.oom_control", "oom_kill"),
    "limit_hits": CounterSource("memory", "memory.failcnt"),
}
UNAVAILABLE: Mapping[str, str] = {
    "swap_peak_bytes": "cgroup v1 keeps a mark of memory and swap together only",
    "page_tables_bytes": "cgroup v1's memory.stat has no page tables",
    "slab_bytes": "cgroup v1's memory.stat has no slab",
    "pressure_some_us": "cgroup v1 has no pressure of its own",
    "pressure_full_us": "cgroup v1 has no pressure of its own",
}


class V1Cgroup(Cgroup):
    """A cgroup on version 1: a folder in each controller's hierarchy."""

    version = 1
    settable = frozenset(("memory_bytes", "swap_bytes", "cores", "cpu_quota", "pids", "disks"))
    sources = SOURCES
    unavailable = UNAVAILABLE

    def __init__(self, folders: Mapping[str, Path], removed: Callable[[], None]) -> None:
        super().__init__(folders, removed)
        self._memory = controller_files(MemoryController, self.path)
        self._swappiness = self._memory.swappiness
        if has(self._memory, "oom_control") and self._memory.oom_control["oom_kill_disable"]:
            # Inherited; a trial out of memory would hang for ever.
            put(self._memory, "oom_control", False)
        if "cpuset" in folders:
            self._fill_cpuset(None)

    def _fill_cpuset(self, cores: tuple[int, ...] | None) -> None:
        """Fill the cpuset: a new one is empty, and an empty one can't be joined."""
        folder = self._folders["cpuset"]
        above = controller_files(CpuSetController, folder.parent)
        files = controller_files(CpuSetController, folder)
        put(files, "mems", above.mems)
        put(files, "cpus", set(cores) if cores else above.cpus)

    @property
    def size_files(self) -> dict[str, Path]:
        """The file of the memory limit."""
        return {"memory_bytes": self.path / "memory.limit_in_bytes"}

    def _write_limits(self, limits: Limits) -> None:
        # Swappiness 0 keeps a cgroup of version 1 out of swap (Documentation/cgroup-v1/memory).
        put(self._memory, "swappiness", 0 if limits.swap_bytes == 0 else self._swappiness)
        self._set_memory(limits)
        if "cpuset" in self._folders:
            self._fill_cpuset(limits.cores)
        else:
            check_cores(limits.cores)
        if "cpu" in self._folders:
            files = controller_files(CpuController, self._folders["cpu"])
            quota = limits.cpu_quota
            put(files, "cfs_period_us", CPU_PERIOD_US)
            put(files, "cfs_quota_us", None if quota is None else round(quota * CPU_PERIOD_US))
        elif limits.cpu_quota is not None:
            raise missing_controller("cpu", "a CPU quota")
        if "pids" in self._folders:
            put(controller_files(PidsController, self._folders["pids"]), "max", limits.pids)
        elif limits.pids is not None:
            raise missing_controller("pids", "a limit of processes")

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

    def _write_memory(self, limits: Limits, *, waits: bool) -> None:
        # The kernel may need several tries to reclaim enough.
        for left in reversed(range(_TRIES if waits else 1)):
            try:
                self._set_memory(limits)
                return
            except CgroupError as error:
                if not left or not is_busy(error):
                    raise
                time.sleep(_PAUSE_S)

    def read_limits(self, asked: Limits) -> Limits:
        """Read the limits but those of disks, as the kernel has them now.

        Version 1 limits memory + swap, so ``swap_bytes`` is None where memory is unlimited.
        """
        memory, both = self._memory.limit_in_bytes, None
        if has(self._memory, "memsw_limit_in_bytes"):
            both = self._memory.memsw_limit_in_bytes
        # cgroupspy reads -1 as None.
        memory, both = (None if n is None or n >= UNLIMITED else n for n in (memory, both))
        swap = None if memory is None or both is None else both - memory
        if self._memory.swappiness == 0:
            swap = 0
        cores, quota, pids = asked.cores, None, None
        if cores is not None and "cpuset" in self._folders:
            files = controller_files(CpuSetController, self._folders["cpuset"])
            cores = tuple(sorted(files.cpus))
        if "cpu" in self._folders:
            files = controller_files(CpuController, self._folders["cpu"])
            used_us = files.cfs_quota_us
            quota = None if used_us is None else used_us / files.cfs_period_us
        if "pids" in self._folders:
            pids = controller_files(PidsController, self._folders["pids"]).max
        return Limits(memory, swap, cores, quota, pids)

    def read(self) -> Counters:
        """Read all counters that the kernel has, now."""
        # A kill in a child cgroup is counted in that one only.
        counters = replace(super().read(), oom_kills=self.sum_of_tree(SOURCES["oom_kills"]))
        if counters.limit_hits is None or not has(self._memory, "memsw_failcnt"):
            return counters
        # Where swap is full or not allowed, it is the limit of memory + swap that is hit.
        return replace(counters, limit_hits=counters.limit_hits + self._memory.memsw_failcnt)

    def hot_files(self) -> HotFiles:
        """Find the files to keep open for sampling."""
        peak = self.file("memory", "memory.max_usage_in_bytes")
        both = self.file("memory", "memory.memsw.usage_in_bytes")
        cpu, io = self.file("cpuacct", "cpuacct.usage"), self.file("blkio", _IO)
        # Controllers may be mounted together: what lies beside memory's files counts as memory's.
        beside = {"cpu": cpu, "io": io}
        shared = (name for name, file in beside.items() if file and file.parent == self.path)
        return HotFiles(
            sources=SOURCES,
            usage=self.path / "memory.usage_in_bytes",
            peak=peak,
            peak_resets=peak is not None and os.access(peak, os.W_OK),
            swap=both,
            swap_is_memsw=both is not None,
            stat=self.file("memory", _STAT),
            kernel=self.file("memory", "memory.kmem.usage_in_bytes"),
            cpu=cpu,
            io=io,
            flushing=("stat", *shared),
        )
