"""What a process's own (anonymous) memory consists of: heap, Python's arenas, copied pages."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

_ARENAS = re.compile(r"arenas \* [\d,]+ bytes/arena\s+=\s+([\d,]+)")
#: The text is some 10 KB; a pipe holds 64 KiB.
_PIPE_BYTES = 1 << 16


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
    """Bytes of the arenas that Python keeps its small objects in; empty where it doesn't tell."""
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
    for line in Path("/proc/self/maps").read_bytes().splitlines():
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
        text = Path("/proc/self/smaps").read_bytes()
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
