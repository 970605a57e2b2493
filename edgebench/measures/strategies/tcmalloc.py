"""gperftools' tcmalloc, preloaded, which dumps the heap as it grows.

A dump is written each time ``every_bytes`` more were allocated, each time as many were freed, and
at each boundary of a span. So between two dumps ``malloc`` can't have given more than that. Mapped
memory, such as weights, is not counted: once torch is imported a dump of 1 MiB has no room for
every mapping, and gperftools 2.17 can't count them at all.

A dump is in the legacy heap profile's format (gperftools, docs/pprof-fileformats and
``heap-profile-table.cc``)::

    heap profile:   1234:  5678 [  2345:   9876] @ heapprofile
         1: 65536 [     1:    65536] @ 0x7f11 0x7f02
       123:  4567 [   234:     5678] @ 0x7f01 0x7f02

    MAPPED_LIBRARIES:
    7f00-7fff r-xp 00000000 fe:00 123 /usr/lib/libtorch.so

Counts and bytes live, in brackets counts and bytes since the start, then the return addresses,
innermost first, largest first. A dump holds at most 1 MiB: the smallest stacks are left out then,
but never the header or the libraries. No maintained library reads it. Functions are not named: for
that, pprof (Go) and google-pprof (Perl) look into each library for minutes, and memray names them.
"""

from __future__ import annotations

import ctypes.util
import heapq
import json
import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from edgebench.errors import ResultsError
from edgebench.measures.heap import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    Stack,
    boundary_times,
    largest,
)
from edgebench.measures.strategy import StrategyOptions, registered_strategy
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import read_file, write
from edgebench.units import format_size

_COUNTS = r"\s*(\d{1,19}):\s*(\d{1,19}) \[\s*(\d{1,19}):\s*(\d{1,19})\] @"
_HEADER = re.compile(rf"heap profile:{_COUNTS} (\S+)")
_STACK = re.compile(rf"{_COUNTS}((?: 0x[0-9a-fA-F]{{1,16}})*)\s*")
_MAPPING = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\S{4}) ([0-9a-f]{1,16}) \S+ +\d+(?:\s+(.*))?"
)
_LIBRARIES = "MAPPED_LIBRARIES:"

#: Stacks kept of a dump.
_STACKS = 8


@dataclass(frozen=True)
class DumpStack:
    """Live bytes of one path of calls; the return addresses are innermost first."""

    live_bytes: int
    addresses: tuple[int, ...]


@dataclass(frozen=True)
class CodeMapping:
    """Part of a file, mapped as code at ``start`` ≤ address < ``end``."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True)
class Dump:
    """One whole dump: exact totals, and the stacks that hold most, largest first.

    ``allocated_bytes`` are since the start.
    """

    live_bytes: int
    allocated_bytes: int
    stacks: tuple[DumpStack, ...]
    mappings: tuple[CodeMapping, ...]


def parse_dump(text: str, where: str) -> Dump:
    """Parse the dump in the text; ``where`` names its file in messages.

    Raises:
        ResultsError: it is cut short, or no dump of this kind.
    """
    lines = text.split("\n")
    header = _HEADER.fullmatch(lines[0])
    if not header:
        raise ResultsError("not a heap dump of gperftools, or cut short", where=where)
    if header[5] != "heapprofile":
        what = f"a heap dump of kind {header[5]!r}: it is sampled, not exact"
        raise ResultsError(what, where=where)
    if _LIBRARIES not in lines or lines[-1]:
        raise ResultsError("the heap dump is cut short", where=where)
    border = lines.index(_LIBRARIES)
    stacks: list[DumpStack] = []
    for line in filter(None, lines[1:border]):
        stack = _STACK.fullmatch(line)
        if not stack:
            raise ResultsError("a line of the heap dump is no stack", where=where)
        addresses = tuple(int(word, 16) for word in stack[5].split())
        stacks.append(DumpStack(int(stack[2]), addresses))
    code: list[CodeMapping] = []
    for line in filter(None, lines[border + 1 :]):
        mapping = _MAPPING.fullmatch(line.strip())
        if not mapping:
            raise ResultsError("a line of the heap dump is no mapping", where=where)
        path = (mapping[5] or "").strip()
        if "x" in mapping[3] and path:
            start, end, offset = (int(mapping[n], 16) for n in (1, 2, 4))
            code.append(CodeMapping(start, end, offset, path))
    most = heapq.nlargest(_STACKS, stacks, key=lambda stack: stack.live_bytes)
    return Dump(int(header[2]), int(header[4]), tuple(most), tuple(code))


class Libraries:
    """The libraries of a process, by address."""

    def __init__(self, mappings: Sequence[CodeMapping]) -> None:
        self._mappings = sorted(mappings, key=lambda mapping: mapping.start)
        self._starts = [mapping.start for mapping in self._mappings]

    def name(self, address: int) -> str:
        """Name an address as ``libtorch_cpu.so+0x1f2e``, by its file's offset, or as it is."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._mappings[at].end:
            return f"{address:#x}"
        mapping = self._mappings[at]
        return f"{PurePosixPath(mapping.path).name}+{address - mapping.start + mapping.offset:#x}"


#: The dumps' names, numbered; of a process that another started, with its id.
DUMP_NAME = re.compile(r"heap(?:_(\d+))?\.(\d{4,9})\.heap")
#: Many times what gperftools writes at most.
_MOST_BYTES = 16 << 20
#: Frames kept of a stack.
_FRAMES = 20


@dataclass(frozen=True)
class DumpFile:
    """One dump, its number (they follow the order of allocation), and its file's wall time."""

    number: int
    wall_ns: int
    dump: Dump


def find_dumps(folder: Path) -> tuple[list[DumpFile], list[str]]:
    """Find the dumps of the process that allocated most, in order; note each left out."""
    processes: dict[str, list[DumpFile]] = {}
    notes = []
    for path in sorted(folder.iterdir()):
        name = DUMP_NAME.fullmatch(path.name)
        if not name:
            continue
        try:
            text = read_file(path, _MOST_BYTES).decode(errors="replace")
            file = DumpFile(int(name[2]), path.lstat().st_mtime_ns, parse_dump(text, path.name))
        except ResultsError as error:
            notes.append(f"{error.what} and left out ({path.name})")
        except OSError as error:
            what = f"a heap dump can't be read: {error.strerror}"
            notes.append(f"{what} and left out ({path.name})")
        else:
            processes.setdefault(name[1] or "", []).append(file)
    most = max(
        processes.values(),
        key=lambda files: max(file.dump.allocated_bytes for file in files),
        default=[],
    )
    return sorted(most, key=lambda file: file.number), notes


def to_points(
    files: Sequence[DumpFile],
    moments: Mapping[int, int],
    offset_ns: int,
) -> tuple[HeapPoint, ...]:
    """Make a point of each dump.

    Args:
        files: in order; at least one.
        moments: number of a dump at a boundary → the boundary's ``t_ns``.
        offset_ns: wall clock − ``CLOCK_MONOTONIC``.
    """
    libraries = Libraries(max((file.dump.mappings for file in files), key=len))
    # A file's time is coarse: it may lie before an earlier dump's.
    times = accumulate((moments.get(f.number, f.wall_ns - offset_ns) for f in files), max)
    return tuple(
        HeapPoint(
            t_ns=t_ns,
            live_bytes=file.dump.live_bytes,
            boundary=file.number if file.number in moments else None,
            stacks=largest(
                Stack(stack.live_bytes, tuple(map(libraries.name, stack.addresses[:_FRAMES])))
                for stack in file.dump.stacks
            ),
        )
        for file, t_ns in zip(files, times, strict=True)
    )


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
    cost = "AlexNet took 23 times as long, when it counted mappings too"
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
        """Read the dumps of the process that allocated most; leave out one that is cut short.

        Raises:
            ResultsError: no dump can be read; says why, as far as that shows.
        """
        dumps, notes = find_dumps(folder)
        if not dumps:
            command = json.loads(read_file(folder / _COMMAND))
            why = (
                f"the program ended before it allocated {format_size(self.every_bytes)}, is linked "
                "statically, or has an allocator of its own"
            )
            why = notes[0] if notes else why
            raise ResultsError(f"tcmalloc left no heap: {why}", where=" ".join(command[:3]))
        points = to_points(dumps, boundary_times(numbered), offset_ns)
        return HeapProfile(points, self.every_bytes, _ERROR, tuple(notes))
