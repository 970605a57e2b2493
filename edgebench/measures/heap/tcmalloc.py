"""gperftools' tcmalloc, preloaded, which dumps the heap as it grows.

A dump is written each time ``every_bytes`` more were allocated, each time as many were freed, and
at each boundary of a span. So between two dumps ``malloc`` can't have given more than that.
``HEAP_PROFILE_MMAP`` makes it count what the program maps, as the loaders do with weights;
gperftools dropped that in 2.17, where weights are not seen.
"""

from __future__ import annotations

import ctypes.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.heap.base import HeapStrategy
from edgebench.measures.heap.clock import keep_offset, kept_offset
from edgebench.measures.heap.dump_files import find_dumps, to_points
from edgebench.measures.heap.linking import Boundaries, moments
from edgebench.measures.heap.profile import HeapProfile
from edgebench.measures.heap.program import executable_of, why_not_preloaded
from edgebench.measures.inside import FOLDER_VARIABLE, TCMALLOC, VIEW_VARIABLE
from edgebench.measures.strategy import Asked
from edgebench.units import format_size

_COMMAND = "command.json"
_NO_MAPS = "this gperftools counts no mappings: weights are in none of its figures"
_ERROR = "what malloc may give between two dumps; a dump's time is its file's, within 10 ms"


class Tcmalloc(HeapStrategy):
    """The heap by gperftools: who called malloc or mmap, and what they hold."""

    name = TCMALLOC
    title = "heap (gperftools' tcmalloc)"
    counts = (
        "bytes asked of malloc, new and posix_memalign and, by the program itself, of mmap, that "
        "were not given back: tensors, mapped weights, Python's arenas"
    )
    blind_to = (
        "whether a byte was ever touched or lies in swap; code, thread stacks and what the C "
        "library maps; who called malloc (mappings fill its dumps), and which Python code called "
        "mmap; allocator slack: it replaces the allocator"
    )
    cost = "AlexNet took 23 times as long"
    method = "the largest of its dumps"

    def __init__(self, every_bytes: int = Asked.dump_every_bytes) -> None:
        self.every_bytes = every_bytes

    def configured(self, asked: Asked) -> Tcmalloc:
        """With the dumps that the scenario asks for."""
        return Tcmalloc(asked.dump_every_bytes)

    def unavailable(self) -> str | None:
        """Why it can't be used on this machine; None if it can."""
        if ctypes.util.find_library("tcmalloc"):
            return None
        return "gperftools is not on this machine: apt-get install libgoogle-perftools4"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The same words, with tcmalloc preloaded and told to dump into the folder."""
        keep_offset(folder)
        (folder / _COMMAND).write_text(json.dumps(list(command)))
        library = ctypes.util.find_library("tcmalloc") or "libtcmalloc.so.4"
        every = str(self.every_bytes)
        return list(command), {
            **env,
            "LD_PRELOAD": " ".join(filter(None, [library, env.get("LD_PRELOAD")])),
            "HEAPPROFILE": str(folder / "heap"),
            "HEAP_PROFILE_ALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_DEALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_INUSE_INTERVAL": every,
            "HEAP_PROFILE_MMAP": "true",
            VIEW_VARIABLE: self.name,
            FOLDER_VARIABLE: str(folder),
        }

    def profile(self, folder: Path, told: Boundaries) -> HeapProfile:
        """From the dumps of the process that allocated most; one cut short is left out.

        Raises:
            ResultsError: no dump can be read; says why, as far as that shows.
        """
        command = json.loads((folder / _COMMAND).read_text())
        program = executable_of(command)
        dumps, notes = find_dumps(folder)
        if not dumps:
            why = notes[0] if notes else self._why_none(program)
            raise ResultsError(f"tcmalloc left no heap: {why}", where=" ".join(command[:3]))
        offset_ns, stepped = kept_offset(folder)
        points, unnamed = to_points(dumps, moments(told), offset_ns, program)
        mapped = any(file.dump.malloc_from for file in dumps)
        notes += [note for note in (stepped, unnamed, None if mapped else _NO_MAPS) if note]
        return HeapProfile(points, self.every_bytes, mapped, _ERROR, tuple(notes))

    def _why_none(self, program: Path | None) -> str:
        reason = why_not_preloaded(program) if program else "its program is gone"
        every = format_size(self.every_bytes)
        return (
            reason or f"it ended before it allocated {every}, or was killed before its first dump"
        )
