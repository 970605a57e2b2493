"""gperftools' tcmalloc, preloaded, which dumps the heap as it grows.

A dump is written each time ``every_bytes`` more were allocated, each time as many were freed, and
at each boundary of a span. So between two dumps ``malloc`` can't have given more than that. Mapped
memory, such as weights, is not counted: once torch is imported a dump of 1 MiB has no room for
every mapping, and gperftools 2.17 can't count them at all.
"""

from __future__ import annotations

import ctypes.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.measures.heap.dump_files import DUMP_NAME, find_dumps, to_points
from edgebench.measures.heap.heap_strategy import HeapStrategy
from edgebench.measures.heap.profile import Boundaries, HeapProfile, boundary_times
from edgebench.measures.heap.program import executable_of, why_not_preloaded
from edgebench.measures.strategy import StrategyOptions, registered_strategy
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import write
from edgebench.safe_reading import read_file
from edgebench.units import format_size

_COMMAND = "command.json"
_ERROR = "what malloc may give between two dumps; a dump's time is its file's, within 10 ms"


#: A dump takes a good part of a second: where less than this has changed, the last one serves.
_CHANGE_BYTES = 64 << 10


class TcmallocView(View):
    """Has the preloaded profiler dump the heap at each boundary, whose number is the dump's."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._folder = folder
        # Not there if the preload had no effect: then nothing is dumped, and the reader says why.
        self._dump: Any = getattr(ctypes.CDLL(None), "HeapProfilerDump", None)
        self._number: int | None = None
        self._live = (0, 0)

    def look(self, whole: bool) -> dict[str, int]:
        """Dump the heap, unless it is as it was; dumps are numbered in the order of allocation."""
        if self._dump is None:
            return {}
        live = (_allocated(), sum(read() for read in self.gauges.values()))
        changed = abs(live[0] - self._live[0]) >= _CHANGE_BYTES or live[1] != self._live[1]
        if changed or self._number is None:
            self._dump(b"boundary")
            self._number, self._live = self._latest(), live
        return {} if self._number is None else {"boundary": self._number}

    def _latest(self) -> int | None:
        names = (DUMP_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        mine = (name for name in names if name and name[1] in (None, str(os.getpid())))
        return max((int(name[2]) for name in mine), default=None)


def _allocated() -> int:
    """Bytes that tcmalloc has given out and not got back, its rounding included."""
    size = ctypes.c_size_t()
    ctypes.CDLL(None).MallocExtension_GetNumericProperty(
        b"generic.current_allocated_bytes", ctypes.byref(size)
    )
    return size.value


@registered_strategy
class Tcmalloc(HeapStrategy):
    """The heap by gperftools: who called malloc, and what they hold."""

    name = "tcmalloc"
    view = TcmallocView
    title = "heap (gperftools' tcmalloc)"
    counts = (
        "bytes requested from malloc, new and posix_memalign and not yet freed: tensors that "
        "torch allocates, and what libraries allocate"
    )
    blind_to = (
        "everything mapped: weights (the loaders map them), Python's arenas, code, thread stacks; "
        "whether a byte was ever touched or is in swap; which Python code called; unused space "
        "inside the allocator, which it replaces"
    )
    cost = "AlexNet took 23 times as long, when it counted mappings too"
    method = "the largest of its dumps"

    def __init__(self, every_bytes: int = StrategyOptions.dump_every_bytes) -> None:
        self.every_bytes = every_bytes

    def configured(self, asked: StrategyOptions) -> Tcmalloc:
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
        """The same command, with tcmalloc preloaded, which dumps into the folder."""
        command, env = super().wrap(command, env, folder)
        write(folder / _COMMAND, json.dumps(command).encode())
        library = ctypes.util.find_library("tcmalloc") or "libtcmalloc.so.4"
        every = str(self.every_bytes)
        return command, {
            **env,
            "LD_PRELOAD": " ".join(filter(None, [library, env.get("LD_PRELOAD")])),
            "HEAPPROFILE": str(folder / "heap"),
            "HEAP_PROFILE_ALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_DEALLOCATION_INTERVAL": every,
            "HEAP_PROFILE_INUSE_INTERVAL": every,
        }

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """From the dumps of the process that allocated most; one cut short is left out.

        Raises:
            ResultsError: no dump can be read; says why, as far as that shows.
        """
        command = json.loads(read_file(folder / _COMMAND))
        program = executable_of(command)
        dumps, notes = find_dumps(folder)
        if not dumps:
            why = notes[0] if notes else self._why_none(program)
            raise ResultsError(f"tcmalloc left no heap: {why}", where=" ".join(command[:3]))
        points, unnamed = to_points(dumps, boundary_times(numbered), offset_ns, program)
        notes += [unnamed] if unnamed else []
        return HeapProfile(points, self.every_bytes, _ERROR, tuple(notes))

    def _why_none(self, program: Path | None) -> str:
        reason = why_not_preloaded(program) if program else "its program is gone"
        every = format_size(self.every_bytes)
        return (
            reason or f"it ended before it allocated {every}, or was killed before its first dump"
        )
