"""gperftools' tcmalloc, preloaded, which dumps the heap as it grows.

A dump is written each time ``every_bytes`` more were allocated, each time as many were freed, and
at each boundary of a span. So between two dumps ``malloc`` can't have given more than that. Mapped
memory, such as weights, is not counted: once torch is imported a dump of 1 MiB has no room for
every mapping, and gperftools 2.17 can't count them at all.

A dump's first line has its totals (gperftools, ``heap-profile-table.cc``): counts and bytes live,
in brackets counts and bytes since the start::

    heap profile:   1234:  5678 [  2345:   9876] @ heapprofile

Only these are read here. ``pprof`` shows who allocated, by looking into each library for minutes.
"""

from __future__ import annotations

import ctypes.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    StrategyOptions,
    boundary_times,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import read_file
from edgebench.text import format_size

_HEADER = re.compile(rb"heap profile:\s*\d+:\s*(\d{1,19}) \[\s*\d+:\s*(\d{1,19})\] @ heapprofile\n")
#: The dumps' names, numbered; of a process that another started, with its id.
DUMP_NAME = re.compile(r"heap(?:_(\d+))?\.(\d{4,9})\.heap")
#: Many times what gperftools writes at most.
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Dump:
    """A dump's totals, its number (in the order of allocation), and its file's wall time."""

    number: int
    wall_ns: int
    live_bytes: int
    allocated_bytes: int


def find_dumps(folder: Path) -> tuple[list[Dump], list[str]]:
    """Find the dumps of the process that allocated most, in order; note each left out."""
    processes: dict[str, list[Dump]] = {}
    notes = []
    for path in sorted(folder.iterdir()):
        name = DUMP_NAME.fullmatch(path.name)
        if not name:
            continue
        try:
            header = _HEADER.match(read_file(path, _MOST_BYTES))
        except OSError as error:
            what = f"a heap dump can't be read: {error.strerror}"
            notes.append(f"{what} and left out ({path.name})")
            continue
        if header:
            dump = Dump(int(name[2]), path.lstat().st_mtime_ns, int(header[1]), int(header[2]))
            processes.setdefault(name[1] or "", []).append(dump)
        else:
            notes.append(f"a heap dump is cut short and left out ({path.name})")
    most = max(
        processes.values(),
        key=lambda dumps: max(dump.allocated_bytes for dump in dumps),
        default=[],
    )
    return sorted(most, key=lambda dump: dump.number), notes


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
            names = (DUMP_NAME.fullmatch(path.name) for path in self._folder.iterdir())
            mine = (name for name in names if name and name[1] in (None, str(os.getpid())))
            self._number = max((int(name[2]) for name in mine), default=None)
            self._live = live
        return {} if self._number is None else {"boundary": self._number}


def _allocated() -> int:
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
    method = "the largest of its dumps"

    def __init__(self, every_bytes: int = StrategyOptions.dump_every_bytes) -> None:
        self.every_bytes = every_bytes

    def configured(self, asked: StrategyOptions) -> Tcmalloc:
        """Return it with the dumps that the scenario asks for."""
        return Tcmalloc(asked.dump_every_bytes)

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine; None if it can."""
        if ctypes.util.find_library("tcmalloc"):
            return None
        return "gperftools is not on this machine: apt-get install libgoogle-perftools4"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Start the same command with tcmalloc preloaded, which dumps into the folder."""
        command, env = super().wrap(command, env, folder)
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
        """Read the dumps of the process that allocated most; leave out one that is cut short.

        Raises:
            ResultsError: no dump can be read; says why, as far as that shows.
        """
        dumps, notes = find_dumps(folder)
        if not dumps:
            why = (
                f"the program ended before it allocated {format_size(self.every_bytes)}, is linked "
                "statically, or has an allocator of its own"
            )
            raise ResultsError(f"tcmalloc left no heap: {notes[0] if notes else why}")
        moments = boundary_times(numbered)
        # A file's time is coarse: it may lie before an earlier dump's.
        times = accumulate((moments.get(d.number, d.wall_ns - offset_ns) for d in dumps), max)
        points = tuple(
            HeapPoint(t_ns, d.live_bytes, boundary=d.number if d.number in moments else None)
            for d, t_ns in zip(dumps, times, strict=True)
        )
        return HeapProfile(points, self.every_bytes, _ERROR, tuple(notes))
