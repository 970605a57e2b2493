"""From the dumps in a trial's folder to points of the heap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.measures.heap.dump import Addresses, Dump, DumpStack, Libraries, parse_dump
from edgebench.measures.heap.profile import Point, Stack, largest
from edgebench.measures.heap.symbols import Names
from edgebench.measures.inside import DUMP

#: Stacks kept of a dump, and frames kept of a stack.
_STACKS, _FRAMES = 8, 20


@dataclass(frozen=True)
class DumpFile:
    """One dump, its number (they follow the order of allocation), and its file's wall time."""

    number: int
    wall_ns: int
    dump: Dump


def find_dumps(folder: Path) -> tuple[list[DumpFile], list[str]]:
    """The dumps of the process that allocated most, in order, and a note for each left out."""
    processes: dict[str, list[DumpFile]] = {}
    notes = []
    known: dict[str, Addresses] = {}
    for path in sorted(folder.iterdir()):
        name = DUMP.fullmatch(path.name)
        if not name:
            continue
        try:
            dump = parse_dump(path.read_text(errors="replace"), path.name, known)
        except ResultsError as error:
            notes.append(f"{error.what} and left out ({error.where})")
            continue
        found = DumpFile(int(name[2]), path.stat().st_mtime_ns, dump)
        processes.setdefault(name[1] or "", []).append(found)
    most = max(processes.values(), key=_allocated, default=[])
    return sorted(most, key=lambda file: file.number), notes


def _allocated(files: Sequence[DumpFile]) -> int:
    return max(file.dump.total.allocated_bytes for file in files)


def to_points(
    files: Sequence[DumpFile], moments: Mapping[int, int], offset_ns: int, program: Path | None
) -> tuple[tuple[Point, ...], str | None]:
    """A point for each dump.

    Args:
        files: in order; at least one.
        moments: number of a dump at a boundary → the boundary's ``t_ns``.
        offset_ns: wall clock − ``CLOCK_MONOTONIC``.
        program: whose heap it is, for naming functions.

    Returns:
        The points, and a note if functions could not be named.
    """
    mappings = max((file.dump.mappings for file in files), key=len)
    mapped = _mapping_callers([file.dump for file in files], Libraries(mappings))
    kept = [sorted(_held(file.dump, mapped), key=_live, reverse=True)[:_STACKS] for file in files]
    paths = {stack.addresses[:_FRAMES] for stacks in kept for stack in stacks}
    names = Names(sorted(paths), mappings, program)
    points: list[Point] = []
    for file, stacks in zip(files, kept, strict=True):
        t_ns = moments.get(file.number, file.wall_ns - offset_ns)
        mapped_bytes = sum(map(_live, _mapped(file.dump, mapped)))
        points.append(
            Point(
                # A file's time is coarse: it may lie before an earlier dump's.
                t_ns=max([t_ns, *(point.t_ns for point in points[-1:])]),
                live_bytes=file.dump.total.live_bytes + mapped_bytes,
                boundary=file.number if file.number in moments else None,
                stacks=largest(
                    Stack(_live(stack), names.frames(stack.addresses[:_FRAMES])) for stack in stacks
                ),
            )
        )
    return tuple(points), names.note


def _mapping_callers(dumps: Sequence[Dump], libraries: Libraries) -> dict[Addresses, bool]:
    """Callers of mmap → whether they are the program's: else the allocator's or the profiler's.

    In one dump a line of mmap may pass for one of malloc, which follow; in most it does not.
    """
    callers: dict[Addresses, bool] = {}
    for dump in dumps:
        own = [_is_own(stack, libraries) for stack in dump.stacks]
        border = max([dump.malloc_from, *(at + 1 for at, is_own in enumerate(own) if is_own)])
        for stack, is_own in zip(dump.stacks[:border], own, strict=False):
            callers[stack.addresses] = not is_own
    return callers


def _is_own(stack: DumpStack, libraries: Libraries) -> bool:
    """Mapped to serve malloc, or by the profiler for itself (some of it without a stack)."""
    return not stack.addresses or libraries.name(stack.addresses[0]).startswith("libtcmalloc")


def _mapped(dump: Dump, callers: Mapping[Addresses, bool]) -> list[DumpStack]:
    return [stack for stack in dump.stacks if callers.get(stack.addresses, False)]


def _held(dump: Dump, callers: Mapping[Addresses, bool]) -> list[DumpStack]:
    return [stack for stack in dump.stacks if callers.get(stack.addresses, True)]


def _live(stack: DumpStack) -> int:
    return stack.counters.live_bytes
