"""One dump of gperftools' heap profiler: the text that ``HEAPPROFILE`` makes it write.

The format is the legacy heap profile (gperftools, docs/pprof-fileformats and
``heap-profile-table.cc``)::

    heap profile:   1234:  5678 [  2345:   9876] @ heapprofile
         1: 65536 [     1:    65536] @ 0x7f11 0x7f02
       123:  4567 [   234:     5678] @ 0x7f01 0x7f02

    MAPPED_LIBRARIES:
    7f00-7fff r-xp 00000000 fe:00 123 /usr/lib/libtorch.so

Counts and bytes live, in brackets counts and bytes since the start, then the return addresses,
innermost first, largest first. A dump holds at most 1 MiB: the smallest stacks are left out then,
but never the header or the libraries.

No maintained library reads it: pprof (Go) and google-pprof (Perl) are programs that print reports;
google-pprof names the functions here (:mod:`edgebench.measures.heap.dump_files`).
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from edgebench.errors import ResultsError

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
class HeapCounters:
    """Blocks and bytes, live and since the start."""

    live_count: int
    live_bytes: int
    allocated_count: int
    allocated_bytes: int


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
    """One whole dump: the exact total, and the stacks that hold most, largest first."""

    total: HeapCounters
    stacks: tuple[DumpStack, ...]
    mappings: tuple[CodeMapping, ...]


def parse_dump(text: str, where: str) -> Dump:
    """The dump in the text; ``where`` names its file in messages.

    Raises:
        ResultsError: it is cut short, or no dump of this kind.
    """
    lines = text.split("\n")
    total = _header(lines[0], where)
    if _LIBRARIES not in lines or lines[-1]:
        raise ResultsError("the heap dump is cut short", where=where)
    border = lines.index(_LIBRARIES)
    stacks = (_stack(line, where) for line in lines[1:border] if line)
    largest = heapq.nlargest(_STACKS, stacks, key=lambda stack: stack.live_bytes)
    code = (_mapping(line, where) for line in lines[border + 1 :] if line)
    return Dump(total, tuple(largest), tuple(found for found in code if found))


def _header(line: str, where: str) -> HeapCounters:
    match = _HEADER.fullmatch(line)
    if not match:
        raise ResultsError("not a heap dump of gperftools, or cut short", where=where)
    if match[5] != "heapprofile":
        what = f"a heap dump of kind {match[5]!r}: it is sampled, not exact"
        raise ResultsError(what, where=where)
    return HeapCounters(*map(int, match.groups()[:4]))


def _stack(line: str, where: str) -> DumpStack:
    match = _STACK.fullmatch(line)
    if not match:
        raise ResultsError("a line of the heap dump is no stack", where=where)
    return DumpStack(int(match[2]), tuple(int(word, 16) for word in match[5].split()))


def _mapping(line: str, where: str) -> CodeMapping | None:
    match = _MAPPING.fullmatch(line.strip())
    if not match:
        raise ResultsError("a line of the heap dump is no mapping", where=where)
    path = (match[5] or "").strip()
    if "x" not in match[3] or not path:
        return None
    return CodeMapping(int(match[1], 16), int(match[2], 16), int(match[4], 16), path)


class Libraries:
    """The libraries of a process, by address."""

    def __init__(self, mappings: Sequence[CodeMapping]) -> None:
        self._mappings = sorted(mappings, key=lambda mapping: mapping.start)
        self._starts = [mapping.start for mapping in self._mappings]

    def name(self, address: int) -> str:
        """``libtorch_cpu.so+0x1f2e``: library and offset in its file, or the bare address."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._mappings[at].end:
            return f"{address:#x}"
        mapping = self._mappings[at]
        return f"{PurePosixPath(mapping.path).name}+{address - mapping.start + mapping.offset:#x}"
