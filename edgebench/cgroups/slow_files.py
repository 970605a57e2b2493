"""What the sampler reads beside usage, swap and CPU time: keys of ``memory.stat``, small files."""

from __future__ import annotations

from pathlib import Path

from edgebench.cgroups.interface import HotFiles

#: Column → its key in v1's and in v2's ``memory.stat``; None: it has a file of its own.
_STAT_KEYS: dict[str, tuple[str | None, str | None]] = {
    "anon_bytes": ("total_rss", "anon"),
    "file_bytes": ("total_cache", "file"),
    "mapped_file_bytes": ("total_mapped_file", "file_mapped"),
    "shmem_bytes": ("total_shmem", "shmem"),
    "swap_bytes": ("total_swap", None),
    "swapcached_bytes": ("total_swapcached", "swapcached"),
    "page_tables_bytes": (None, "pagetables"),
    "slab_bytes": (None, "slab"),
    "major_faults": ("total_pgmajfault", "pgmajfault"),
    "refault_anon": ("total_workingset_refault_anon", "workingset_refault_anon"),
    "refault_file": ("total_workingset_refault_file", "workingset_refault_file"),
    "kernel_bytes": (None, "kernel"),
}
#: Small files: path, column → shape (see the sampler's ``numbers``).
SmallFiles = list[tuple[Path, dict[str, str]]]


def stat_keys(stat: Path | None) -> dict[str, str]:
    """Column → its key in this ``memory.stat``; only version 1 sums up with ``total_`` keys."""
    if stat is None:
        return {}
    version = 0 if "\ntotal_rss " in stat.read_text() else 1
    return {name: key for name, keys in _STAT_KEYS.items() if (key := keys[version])}


def small_files(hot: HotFiles) -> SmallFiles:
    """Each small file with its columns and their shapes."""
    small: SmallFiles = []
    if hot.swap and not hot.swap_is_memsw:
        small.append((hot.swap, {"swap_bytes": "bare"}))
    if hot.kernel:
        small.append((hot.kernel, {"kernel_bytes": "bare"}))
    if hot.pressure:
        small.append((hot.pressure, {"pressure_full_us": "full"}))
    if hot.io:
        words = ("rbytes=", "wbytes=") if hot.io.name == "io.stat" else ("Read", "Write")
        columns = ("io_read_bytes", "io_write_bytes")
        small.append((hot.io, dict(zip(columns, words, strict=True))))
    return small
