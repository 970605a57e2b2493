"""The worker's process as the kernel counts it: resident, and resident + swapped.

All come from one trial, in which the worker reads its own ``/proc``, its cgroup and the C library's
counters at each boundary (:class:`ProcessView`), and resets ``VmHWM`` there. Figures are bytes;
unknown ones are left out. Sources: Documentation/filesystems/proc.rst,
admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from edgebench.measures.strategies import (
    ErrorBar,
    LookStrategy,
    TrialData,
    registered_strategy,
    sum_of,
)
from edgebench.measures.view import Descriptors, View

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
#: Name of a mapping → the figure of its anonymous memory; of a file's mapping ``/``.
_KINDS = {b"/": "in_files_bytes", b"[heap]": "in_heap_bytes", b"[stack]": "in_stack_bytes"}
_ARENAS = re.compile(r"arenas \* [\d,]+ bytes/arena\s+=\s+([\d,]+)")
#: The text is some 10 KB; a pipe holds 64 KiB.
_PIPE_BYTES = 1 << 16
#: The kernel counts a process's pages per CPU and sums them up in batches of this many; it counts
#: anonymous, file and shared pages apart (mm/memory.c, lib/percpu_counter.c).
_COUNTER_PAGES, _COUNTERS = 32, 3
NOTHING = "the worker's process was never read: it ended before its first span did"
Look = Mapping[str, int]
_RESIDENT = ("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")


def of_process(folder: Path = SELF) -> dict[str, int]:
    """Read what of a process is resident and in swap, and its page tables."""
    lines = kib_lines(folder / "status")
    return {figure: lines[line] for figure, line in STATUS.items() if line in lines}


def charged(stat: int | None, kernel: int | None) -> dict[str, int]:
    """Read what the cgroup is charged for.

    Args:
        stat: descriptor of the cgroup's ``memory.stat``.
        kernel: descriptor of the kernel's memory on version 1.
    """
    figures: dict[str, int] = {}
    if stat is not None:
        pairs = (line.split() for line in os.pread(stat, 16384, 0).splitlines())
        lines = {key.decode(): int(value) for key, value in pairs}
        if "kernel" not in lines and "pagetables" in lines:
            lines["kernel"] = sum(lines.get(part, 0) for part in _KERNEL_PARTS)
        version = 0 if "total_rss" in lines else 1
        for name, keys in _CHARGED.items():
            if keys[version] and all(key in lines for key in keys[version]):
                figures[name] = sum(lines[key] for key in keys[version])
    if kernel is not None:
        figures["charged_kernel_bytes"] = int(os.pread(kernel, 32, 0))
    return figures


def kib_lines(path: Path) -> dict[str, int]:
    """Read ``Name:  123 kB`` lines, in bytes; empty where the kernel has no such file."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    words = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words}


def glibc_heap() -> dict[str, int]:
    """Read the C library's own count over all its arenas (mallinfo(3)); empty without glibc.

    ``heap_used_bytes`` is allocated and not freed, its chunks' headers included;
    ``heap_free_bytes`` is freed, and kept for later.
    """
    read = _mallinfo()
    if read is None:
        return {}
    info = read()
    return {
        "heap_used_bytes": info.uordblks + info.hblkhd,
        "heap_free_bytes": info.fordblks,
    }


@cache
def _mallinfo() -> Any:
    """Find ``mallinfo2`` (glibc 2.33), else ``mallinfo``, whose 32-bit counts wrap at 4 GiB."""
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    library = ctypes.CDLL(None)
    for function_name, number in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_uint)):
        if hasattr(library, function_name):
            fields = {"_fields_": [(name, number) for name in names.split()]}
            function = getattr(library, function_name)
            function.restype = type("MallInfo", (ctypes.Structure,), fields)
            return function
    return None


def python_arenas() -> dict[str, int]:
    """Read the bytes of the arenas that Python keeps its small objects in; empty if unknown.

    The interpreter writes them to its standard error and takes no other place.
    """
    write = getattr(sys, "_debugmallocstats", None)
    if write is None:
        return {}
    sys.stderr.flush()
    kept, (reader, writer) = os.dup(2), os.pipe()
    try:
        os.dup2(writer, 2)
        os.close(writer)
        write()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    with os.fdopen(reader, "rb") as pipe:
        arenas = _ARENAS.search(pipe.read(_PIPE_BYTES).decode(errors="replace"))
    return {"python_arenas_bytes": int(arenas[1].replace(",", ""))} if arenas else {}


def code_areas() -> dict[str, int]:
    """Sum the mappings made for code compiled at run time, touched or not (maps)."""
    size = 0
    for line in (SELF / "maps").read_bytes().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 5 and b"x" in words[1]:
            start, end = words[0].split(b"-")
            size += int(end, 16) - int(start, 16)
    return {"code_areas_bytes": size}


def split_by_mapping() -> dict[str, int]:
    """Split anonymous memory, resident or in swap, by the kind of mapping (smaps, if there).

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
            # `start-end rwxp offset device inode name`
            words = line.split(maxsplit=5)
            name = words[5] if len(words) > 5 else b""
            kind = _KINDS.get(b"/" if name.startswith(b"/") else name, "in_unnamed_bytes")
    return sizes


class ProcessView(View):
    """Reads VmHWM, RSS and swap, ``memory.stat`` and the C library's own heap counters.

    All of one look is read within milliseconds while the workload waits, so its figures may be
    subtracted from each other. They are the kernel's own, in bytes; unknown ones are left out.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._stat, self._kernel = descriptors["stat"], descriptors["kernel"]
        self._others = Path(f"/proc/{os.getppid()}")
        self._clear: int | None = None
        # Not there where the kernel was built without it.
        with suppress(OSError):
            self._clear = os.open(SELF / "clear_refs", os.O_WRONLY)

    def mark(self) -> int | None:
        """Read VmHWM, the most resident since the last reset; None if it can't be reset."""
        return None if self._clear is None else kib_lines(SELF / "status").get("VmHWM")

    def reset(self) -> None:
        """Set VmHWM back to what is resident (``clear_refs`` ← 5, Linux 4.0)."""
        if self._clear is not None:
            os.pwrite(self._clear, b"5", 0)

    def look(self, whole: bool) -> dict[str, int]:
        """Read all its figures; the split by mapping, which takes longest, only of a phase."""
        figures = of_process() | charged(self._stat, self._kernel)
        # GNU time waits in the same cgroup.
        others = of_process(self._others)
        figures |= {f"other_{name}": size for name, size in others.items()}
        figures |= glibc_heap() | code_areas()
        figures |= {name: read() for name, read in self.gauges.items()}
        if whole:
            figures |= split_by_mapping() | python_arenas()
        return figures

    def close(self) -> None:
        """Read nothing more."""
        if self._clear is not None:
            os.close(self._clear)


def resident(look: Look) -> int | None:
    """Sum the resident set, bytes."""
    return sum_of(look, *_RESIDENT)


@registered_strategy
class Process(LookStrategy):
    """``VmHWM``, reset at each boundary through ``clear_refs`` (Linux 4.0)."""

    name = "process"
    title = "process's high-water mark"
    counts = (
        "pages resident in the worker's process: its own memory, and file pages that it has "
        "mapped, whichever cgroup is charged for them"
    )
    blind_to = (
        "pages in swap; page cache that is not mapped; page tables and the kernel's memory; other "
        "processes. Resetting its mark makes GNU time's figure unusable in this trial"
    )
    own_trial = True
    view = ProcessView
    inside_worker = True
    figures, marked = _RESIDENT, True
    span_method = "VmHWM, reset at the span's start"
    nothing = NOTHING

    def error(self, trial: TrialData) -> ErrorBar:
        """Return what the kernel has not counted yet."""
        if trial.cpus is None:
            return ErrorBar(None, "pages counted in batches on each CPU, which are not known")
        slack = _COUNTERS * _COUNTER_PAGES * trial.page_bytes * trial.cpus
        kinds = f"{_COUNTERS} kinds of pages, {_COUNTER_PAGES} of each"
        return ErrorBar(slack, f"{kinds} not yet counted on each of {trial.cpus} CPUs")


@registered_strategy
class ResidentAndSwapped(LookStrategy):
    """``VmRSS + VmSwap``: what a limit can't hide."""

    name = "process-swap"
    beside = Process.name
    title = "process's resident and swapped memory"
    counts = "the process's resident pages, and its pages in swap"
    blind_to = (
        "memory allocated and freed between two boundaries; and what the process's high-water "
        "mark is blind to, except swap"
    )
    figures = (*_RESIDENT, "swap_bytes")
    span_method = "the larger of the span's ends: swap has no mark"
    nothing = NOTHING


@registered_strategy
class Malloc(LookStrategy):
    """What the C library's allocator has handed out and not been given back (mallinfo)."""

    name = "malloc"
    beside = Process.name
    title = "C library's heap in use"
    counts = "blocks that malloc handed out, their headers included, in all its arenas"
    blind_to = (
        "memory mapped without malloc: weights, Python's arenas, libraries' data, stacks; whether "
        "a byte was ever touched; memory allocated and freed between two boundaries; a preloaded "
        "allocator"
    )
    figures = ("heap_used_bytes",)
    span_method = "the larger of the span's ends: it keeps no mark"
    nothing = NOTHING
