"""Why a preloaded allocator may have no effect on a program: read from the program's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgebench.processes import find_program

#: Strings by which the replacing allocators are known, in a program that has one built in.
_ALLOCATORS = {b"jemalloc": "jemalloc", b"mimalloc": "mimalloc", b"tcmalloc": "tcmalloc"}


def executable_of(command: Sequence[str]) -> Path | None:
    """The file that runs when the command does, behind links and a script's first line."""
    words = list(command)
    for _ in range(4):  # as deep as the kernel follows scripts
        found = find_program(words[0]) if words else None
        if found is None:
            return None
        path = found.resolve()
        with path.open("rb") as file:
            line = file.readline(256)
        if not line.startswith(b"#!"):
            return path
        words = line[2:].decode(errors="replace").split()
        if words and Path(words[0]).name == "env":
            words = words[1:]
    return None


def why_not_preloaded(path: Path) -> str | None:
    """Why ``LD_PRELOAD`` can't put another allocator into this program; None if it may.

    Reads the ELF file's segments and dynamic symbols (elf(5)), where pyelftools is installed.
    """
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return None
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if not any(part["p_type"] == "PT_INTERP" for part in elf.iter_segments()):
                return f"{path} is linked statically: nothing can be preloaded into it"
            own = _defines_malloc(elf)
    except (ELFError, OSError) as error:
        return f"{path} can't be read as a program: {error}"
    named = _allocator_in(path)
    if own or named:
        return f"{path} brings its own allocator ({named or 'it defines malloc itself'})"
    return None


def _defines_malloc(elf: Any) -> bool:
    table = elf.get_section_by_name(".dynsym")
    found = table.get_symbol_by_name("malloc") if table else None
    return any(symbol["st_shndx"] != "SHN_UNDEF" for symbol in found or [])


def _allocator_in(path: Path) -> str | None:
    data = path.read_bytes()
    return next((name for mark, name in _ALLOCATORS.items() if mark in data), None)
