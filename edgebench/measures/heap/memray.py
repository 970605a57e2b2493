"""memray around the worker: every allocation, Python's and native, with who called."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.measures.heap.base import HeapStrategy
from edgebench.measures.heap.clock import keep_offset, kept_offset
from edgebench.measures.heap.linking import Boundaries, moments
from edgebench.measures.heap.memray_record import holders, stretches
from edgebench.measures.heap.profile import HeapProfile, Point, Stack, largest
from edgebench.measures.inside import (
    FOLDER_VARIABLE,
    MARK_BYTES,
    MEMRAY,
    RECORD,
    VIEW_VARIABLE,
)

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

_FRAMES = 20
_SNAPSHOTS = 10_000_000
_ERROR = "every allocation is told, with its size, in order"


class Memray(HeapStrategy):
    """The heap by memray: each allocation of the worker, by its Python and native calls."""

    name = MEMRAY
    title = "heap (memray)"
    counts = (
        "bytes asked of malloc and its kin, and of mmap, that were not given back, since before "
        "the runtime's import: tensors, mapped weights, Python's arenas"
    )
    blind_to = (
        "whether a byte was ever touched or lies in swap; code, thread stacks and what the C "
        "library maps; allocator slack; what was allocated before memray itself began"
    )
    cost = "AlexNet took 2.6 times as long"
    method = "the largest sum over every allocation"
    inside_worker = True

    def unavailable(self) -> str | None:
        """Why it can't be used on this machine; None if it can."""
        if importlib.util.find_spec("memray"):
            return None
        return "memray is not installed: python3 -m pip install 'edgebench[heap]'"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The worker runs memray in itself."""
        keep_offset(folder)
        view = {VIEW_VARIABLE: self.name, FOLDER_VARIABLE: str(folder)}
        return list(command), {**env, **view}

    def profile(self, folder: Path, told: Boundaries) -> HeapProfile:
        """From the record, replayed.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        path = folder / RECORD
        if not path.is_file():
            raise ResultsError("memray left no record: the worker ended before it began")
        offset_ns, stepped = kept_offset(folder)
        try:
            points, line = _replay(path, moments(told), offset_ns)
        except (OSError, ValueError, RuntimeError) as error:
            raise ResultsError(f"memray's record can't be read: {error}", where=RECORD) from None
        notes = (stepped,) if stepped else ()
        return HeapProfile(points, 0, True, _ERROR, notes, line)


def _replay(
    path: Path, moments: Mapping[int, int], offset_ns: int
) -> tuple[tuple[Point, ...], tuple[tuple[int, int], ...]]:
    """The points at the boundaries, and the heap's line at memray's own interval."""
    from memray import FileReader

    with FileReader(path, max_memory_records=_SNAPSHOTS) as reader:
        line = tuple(_line(reader, offset_ns))
        found = list(stretches(reader))
        held = dict(holders(reader, {stretch.peak_at for stretch in found}))
        end_ns = max([*moments.values(), *(t_ns for t_ns, _ in line[-1:])], default=0)
        names: dict[tuple[int, int], tuple[str, ...]] = {}
        points = []
        for stretch in found:
            stacks = [Stack(size, _frames(r, names)) for r, size in held.get(stretch.peak_at, ())]
            boundary = stretch.boundary if stretch.boundary in moments else None
            t_ns = end_ns if boundary is None else moments[boundary]
            peak = stretch.peak_bytes
            points.append(Point(t_ns, stretch.live_bytes, peak, boundary, largest(stacks)))
    return tuple(points), line


def _line(reader: FileReader, offset_ns: int) -> Iterator[tuple[int, int]]:
    for snapshot in reader.get_memory_snapshots():
        # One that fell between a mark and its end holds the mark.
        if snapshot.heap < MARK_BYTES:
            yield snapshot.time * 1_000_000 - offset_ns, snapshot.heap


def _frames(
    record: AllocationRecord, names: dict[tuple[int, int], tuple[str, ...]]
) -> tuple[str, ...]:
    """The calls, innermost first, Python's among the native ones."""
    place = (record.stack_id, record.native_stack_id)
    if place not in names:
        calls = record.hybrid_stack_trace(max_stacks=_FRAMES)
        names[place] = tuple(f"{name} ({Path(file).name}:{line})" for name, file, line in calls)
    return names[place]
