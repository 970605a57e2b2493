"""What the worker can read of its own process and cgroup, bytes; unknown figures are left out.

Sources: Documentation/filesystems/proc.rst, admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

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
_ARENAS = re.compile(r"arenas \* [\d,]+ bytes/arena\s+=\s+([\d,]+)")
#: The text is some 10 KB; a pipe holds 64 KiB.
_PIPE_BYTES = 1 << 16


def of_process(folder: Path = SELF) -> dict[str, int]:
    """What of a process is resident and in swap, and its page tables."""
    return renamed(kib_lines(folder / "status"), STATUS)


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


def renamed(told: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Figures by our names, as far as their lines are there."""
    return {figure: told[line] for figure, line in names.items() if line in told}


def kib_lines(path: Path) -> dict[str, int]:
    """``Name:  123 kB`` lines in bytes; empty where the kernel has no such file."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    words = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words}


def glibc_heap() -> dict[str, int]:
    """The C library's own count over all its arenas (mallinfo(3)); empty without glibc.

    ``heap_used_bytes`` is allocated and not freed, its chunks' headers included;
    ``heap_free_bytes`` is freed, and kept for later.
    """
    read = _mallinfo()
    if read is None:
        return {}
    found = read()
    return {
        "heap_used_bytes": found.uordblks + found.hblkhd,
        "heap_free_bytes": found.fordblks,
    }


@cache
def _mallinfo() -> Any:
    """``mallinfo2`` (glibc 2.33), else ``mallinfo``, whose 32-bit counts wrap at 4 GiB."""
    library = ctypes.CDLL(None)
    for name, number in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_uint)):
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype = _mallinfo_type(number)
            return function
    return None


def _mallinfo_type(number: type[Any]) -> type[ctypes.Structure]:
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

    class MallInfo(ctypes.Structure):
        _fields_ = [(name, number) for name in names.split()]

    return MallInfo


def python_arenas() -> dict[str, int]:
    """Bytes of the arenas that Python keeps its small objects in; empty where it is unknown."""
    tell = getattr(sys, "_debugmallocstats", None)
    if tell is None:
        return {}
    found = _ARENAS.search(_said_on_stderr(tell))
    return {"python_arenas_bytes": int(found[1].replace(",", ""))} if found else {}


def _said_on_stderr(tell: Any) -> str:
    """What a function of the interpreter writes to its standard error: it takes no other place."""
    sys.stderr.flush()
    kept, (reader, writer) = os.dup(2), os.pipe()
    try:
        os.dup2(writer, 2)
        os.close(writer)
        tell()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read(_PIPE_BYTES).decode(errors="replace")


def code_areas() -> dict[str, int]:
    """Sizes of mappings made for code compiled at run time, touched or not (maps)."""
    size = 0
    for line in (SELF / "maps").read_bytes().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 5 and b"x" in words[1]:
            start, end = words[0].split(b"-")
            size += int(end, 16) - int(start, 16)
    return {"code_areas_bytes": size}


def split_by_mapping() -> dict[str, int]:
    """Anonymous memory, resident or in swap, by the kind of mapping it lies in (smaps, if there).

    ``in_files_bytes`` are private copies of a file's pages: a library's data and relocations.
    """
    sizes = {"in_heap_bytes": 0, "in_stack_bytes": 0, "in_files_bytes": 0, "in_unnamed_bytes": 0}
    kind = "in_unnamed_bytes"
    try:
        text = (SELF / "smaps").read_bytes()
    except OSError:
        # A kernel built without it.
        return {}
    for line in text.splitlines():
        if line.endswith(b" kB"):
            if line.startswith((b"Anonymous:", b"Swap:")):
                sizes[kind] += int(line.split()[1]) * 1024
        elif not line.startswith((b"VmFlags:", b"THPeligible:", b"ProtectionKey:")):
            kind = _kind(line)
    return sizes


def _kind(mapping: bytes) -> str:
    """The kind of ``start-end rwxp offset device inode name``."""
    words = mapping.split(maxsplit=5)
    name = words[5] if len(words) > 5 else b""
    if name.startswith(b"/"):
        return "in_files_bytes"
    return {b"[heap]": "in_heap_bytes", b"[stack]": "in_stack_bytes"}.get(name, "in_unnamed_bytes")
