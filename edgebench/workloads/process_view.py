"""The worker's own process, and what its cgroup is charged for, at each boundary.

All of one look is read within milliseconds while the workload waits, so its figures may be
subtracted from each other. They are the kernel's own (Documentation/filesystems/proc.rst,
admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst) in bytes; what it doesn't tell is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from edgebench.workloads.private_memory import (
    code_areas,
    glibc_heap,
    python_arenas,
    split_by_mapping,
)

_SELF = Path("/proc/self")
#: Figure → its line in ``/proc/PID/status``.
_STATUS = {
    "rss_anon_bytes": "RssAnon",
    "rss_file_bytes": "RssFile",
    "rss_shmem_bytes": "RssShmem",
    "swap_bytes": "VmSwap",
    "page_tables_bytes": "VmPTE",
}
#: Figure → its line in ``smaps_rollup``.
_ROLLUP = {
    "pss_bytes": "Pss",
    "private_clean_bytes": "Private_Clean",
    "private_dirty_bytes": "Private_Dirty",
}
#: The lists that hold every page charged to a cgroup, the kernel's own pages aside.
_ANON_LISTS = ("inactive_anon", "active_anon", "unevictable")
_FILE_LISTS = ("inactive_file", "active_file")
#: What version 2 tells of the kernel's memory where it has no sum of it (before Linux 5.18).
_KERNEL_PARTS = ("kernel_stack", "pagetables", "percpu", "sock", "slab")
#: Figure → its keys in ``memory.stat`` of version 1, of version 2; several are added up.
_CHARGED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "charged_anon_bytes": (("total_rss",), ("anon",)),
    "charged_shmem_bytes": (("total_shmem",), ("shmem",)),
    "charged_mapped_file_bytes": (("total_mapped_file",), ("file_mapped",)),
    "charged_swap_bytes": (("total_swap",), ()),
    "charged_anon_lists_bytes": (tuple(f"total_{name}" for name in _ANON_LISTS), _ANON_LISTS),
    "charged_file_lists_bytes": (tuple(f"total_{name}" for name in _FILE_LISTS), _FILE_LISTS),
    "charged_kernel_bytes": ((), ("kernel",)),
    "charged_page_tables_bytes": ((), ("pagetables",)),
    "charged_slab_bytes": ((), ("slab",)),
}


class ProcessView:
    """Reads VmHWM, RSS and swap, PSS, ``memory.stat`` and the C library's own heap counters.

    Args:
        stat: descriptor of the cgroup's ``memory.stat``.
        kernel: descriptor of the kernel's memory on version 1.
    """

    def __init__(self, stat: int | None, kernel: int | None) -> None:
        self.gauges: dict[str, Callable[[], int]] = {}
        self._stat, self._kernel = stat, kernel
        self._others = Path(f"/proc/{os.getppid()}/status")
        self._clear = _opened(_SELF / "clear_refs")

    def mark(self) -> int | None:
        """VmHWM: the most that was resident since the last reset; None if it can't be reset."""
        return None if self._clear is None else _lines(_SELF / "status").get("VmHWM")

    def reset(self) -> None:
        """Set VmHWM back to what is resident (``clear_refs`` ← 5, Linux 4.0)."""
        if self._clear is not None:
            os.pwrite(self._clear, b"5", 0)

    def look(self, whole: bool) -> dict[str, int]:
        """Everything it tells; the split by mapping, which takes longest, only of a phase."""
        figures = _named(_lines(_SELF / "status"), _STATUS)
        figures |= self._charged()
        figures |= _named(_lines(_SELF / "smaps_rollup"), _ROLLUP)
        # GNU time waits in the same cgroup.
        others = _named(_lines(self._others), _STATUS)
        figures |= {f"other_{name}": size for name, size in others.items()}
        figures |= glibc_heap() | code_areas()
        figures |= {name: read() for name, read in self.gauges.items()}
        if whole:
            figures |= split_by_mapping() | python_arenas()
        return figures

    def _charged(self) -> dict[str, int]:
        figures: dict[str, int] = {}
        if self._stat is not None:
            pairs = (line.split() for line in os.pread(self._stat, 16384, 0).splitlines())
            stat = {key.decode(): int(value) for key, value in pairs}
            if "kernel" not in stat and "pagetables" in stat:
                stat["kernel"] = sum(stat.get(part, 0) for part in _KERNEL_PARTS)
            version = 0 if "total_rss" in stat else 1
            for name, keys in _CHARGED.items():
                if keys[version] and all(key in stat for key in keys[version]):
                    figures[name] = sum(stat[key] for key in keys[version])
        if self._kernel is not None:
            figures["charged_kernel_bytes"] = int(os.pread(self._kernel, 32, 0))
        return figures

    def close(self) -> None:
        """Nothing more is read."""
        if self._clear is not None:
            os.close(self._clear)


def _opened(path: Path) -> int | None:
    """A descriptor to write to; None where the kernel was built without such a file."""
    try:
        return os.open(path, os.O_WRONLY)
    except OSError:
        return None


def _named(lines: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    return {figure: lines[line] for figure, line in names.items() if line in lines}


def _lines(path: Path) -> dict[str, int]:
    """``Name:  123 kB`` lines in bytes; empty where the kernel has no such file."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    words = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words}
