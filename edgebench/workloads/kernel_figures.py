"""What the kernel tells of a process and of its cgroup in microseconds, in bytes.

Documentation/filesystems/proc.rst, admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst. What it
doesn't tell is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SELF = Path("/proc/self")
#: Figure → its line in ``/proc/PID/status``.
STATUS = {
    "rss_anon_bytes": "RssAnon",
    "rss_file_bytes": "RssFile",
    "rss_shmem_bytes": "RssShmem",
    "swap_bytes": "VmSwap",
    "page_tables_bytes": "VmPTE",
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


def of_process(folder: Path = SELF) -> dict[str, int]:
    """What of a process is resident and in swap, and its page tables."""
    return named(lines(folder / "status"), STATUS)


def charged(stat: int | None, kernel: int | None) -> dict[str, int]:
    """What the cgroup is charged for.

    Args:
        stat: descriptor of the cgroup's ``memory.stat``.
        kernel: descriptor of the kernel's memory on version 1.
    """
    figures: dict[str, int] = {}
    if stat is not None:
        pairs = (line.split() for line in os.pread(stat, 16384, 0).splitlines())
        told = {key.decode(): int(value) for key, value in pairs}
        if "kernel" not in told and "pagetables" in told:
            told["kernel"] = sum(told.get(part, 0) for part in _KERNEL_PARTS)
        version = 0 if "total_rss" in told else 1
        for name, keys in _CHARGED.items():
            if keys[version] and all(key in told for key in keys[version]):
                figures[name] = sum(told[key] for key in keys[version])
    if kernel is not None:
        figures["charged_kernel_bytes"] = int(os.pread(kernel, 32, 0))
    return figures


def named(told: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Figures by our names, as far as their lines are there."""
    return {figure: told[line] for figure, line in names.items() if line in told}


def lines(path: Path) -> dict[str, int]:
    """``Name:  123 kB`` lines in bytes; empty where the kernel has no such file."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    words = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words}
