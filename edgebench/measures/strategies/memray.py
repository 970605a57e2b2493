"""memray around the worker: every allocation, Python's and native, with who called."""

from __future__ import annotations

import importlib.util
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.extras import install
from edgebench.measures.heap.heap_strategy import HeapStrategy
from edgebench.measures.heap.memray_record import MARK_BYTES, holders, stretches
from edgebench.measures.heap.profile import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    Stack,
    boundary_times,
    largest,
)
from edgebench.measures.strategy import registered_strategy
from edgebench.measures.view import Descriptors, View
from edgebench.safe_reading import open_to_read

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

_FRAMES = 20
_SNAPSHOTS = 10_000_000
_ERROR = "every allocation is recorded, with its size, in order"


_FILE = "memray.bin"
#: How often memray records its time and the heap's size.
_INTERVAL_MS = 5


class MemrayView(View):
    """Tracks the worker with memray from before the runtime's import to the workload's end."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        import memray

        super().__init__(folder, descriptors)
        self._boundaries = 0
        self._tracker = memray.Tracker(
            folder / _FILE, native_traces=True, memory_interval_ms=_INTERVAL_MS
        )
        self._tracker.__enter__()

    def look(self, whole: bool) -> dict[str, int]:
        """Mark this boundary among the allocations; its number."""
        self._boundaries += 1
        size = MARK_BYTES + self._boundaries * mmap.PAGESIZE
        # Private and read-only: the kernel reserves nothing for it.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ).close()
        return {"boundary": self._boundaries}

    def close(self) -> None:
        """Write out what is recorded."""
        self._tracker.__exit__(None, None, None)


@registered_strategy
class Memray(HeapStrategy):
    """The heap by memray: each allocation of the worker, by its Python and native calls."""

    name = "memray"
    view = MemrayView
    title = "heap (memray)"
    counts = (
        "bytes requested from malloc and functions like it, and from mmap, and not yet freed, "
        "counted from before the runtime's import: tensors, mapped weights, Python's arenas"
    )
    blind_to = (
        "whether a byte was ever touched or is in swap; code, thread stacks and what the C "
        "library maps; unused space inside the allocator; what was allocated before memray started"
    )
    cost = "AlexNet took 2.6 times as long"
    method = "the largest sum over every allocation"
    inside_worker = True
    counts_mapped = True

    def unavailable(self) -> str | None:
        """Why it can't be used on this machine; None if it can."""
        if importlib.util.find_spec("memray"):
            return None
        return f"memray is not installed: {install('memray')}"

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """From the record, replayed.

        Raises:
            ResultsError: there is none, or it can't be read.
        """
        path = folder / _FILE
        if not path.exists():
            raise ResultsError("memray left no record: the worker ended before it began")
        try:
            # It reads the file as it replays it: of any size, but no FIFO.
            open_to_read(path).close()
            points, line = _replay(path, boundary_times(numbered), offset_ns)
        except (OSError, ValueError, RuntimeError) as error:
            raise ResultsError(f"memray's record can't be read: {error}", where=_FILE) from None
        return HeapProfile(points, 0, _ERROR, line=line)


def _replay(
    path: Path, moments: Mapping[int, int], offset_ns: int
) -> tuple[tuple[HeapPoint, ...], tuple[tuple[int, int], ...]]:
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
            points.append(HeapPoint(t_ns, stretch.live_bytes, peak, boundary, largest(stacks)))
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
