"""memray around the worker: every allocation, Python's and native, with who called.

Its record is replayed from one boundary of a span to the next: memray's own summaries know the
whole record, or slices of its time. The marks that the worker left in the order of allocation
tell a layer's bytes exactly, in two passes: the first finds each stretch's peak, the second who
held it.
"""

from __future__ import annotations

import heapq
import importlib.util
import mmap
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from edgebench.errors import ResultsError
from edgebench.extras import install
from edgebench.measures.heap import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    Stack,
    boundary_times,
    largest,
)
from edgebench.measures.strategy import registered_strategy
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import open_to_read

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

#: A mapping of this size and as many pages as a boundary's number marks the boundary. It is address
#: space alone: none of its pages is ever touched.
MARK_BYTES = 32 << 30
_HOLDERS = 8
#: More boundaries than a trial has: a mapping beyond it is no mark.
_MARKS = 1 << 20
_FRAMES = 20
_SNAPSHOTS = 10_000_000
_ERROR = "every allocation is recorded, with its size, in order"
_FILE = "memray.bin"
#: How often memray records its time and the heap's size.
_INTERVAL_MS = 5
Caller = TypeVar("Caller", bound=Hashable)


class LiveSet(Generic[Caller]):
    """Live bytes, and who holds them. What was got before the record began is not in it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._blocks: dict[int, tuple[int, Caller]] = {}
        self._mappings: dict[int, tuple[int, Caller]] = {}
        self._held: dict[Caller, int] = {}

    def allocate(self, address: int, size: int, caller: Caller) -> None:
        """Add a block of malloc and its kin; one at the same address was freed unseen."""
        self.free(address)
        self._blocks[address] = (size, caller)
        self._hold(caller, size)

    def free(self, address: int) -> None:
        """Give a block back; do nothing if its allocation was not seen."""
        block = self._blocks.pop(address, None)
        if block:
            self._hold(block[1], -block[0])

    def map(self, start: int, size: int, caller: Caller) -> None:
        """Add a mapping: it takes the place of what was mapped there."""
        self.unmap(start, size)
        self._mappings[start] = (size, caller)
        self._hold(caller, size)

    def unmap(self, start: int, size: int) -> None:
        """Give this range back: a mapping, part of one, or parts of several."""
        end = start + size
        for at, (length, caller) in list(self._mappings.items()):
            if at >= end or at + length <= start:
                continue
            del self._mappings[at]
            for piece, until in ((at, start), (end, at + length)):
                if piece < until:
                    self._mappings[piece] = (until - piece, caller)
            self._hold(caller, max(start, at) - min(end, at + length))

    def largest(self, most: int) -> list[tuple[Caller, int]]:
        """List who holds most, and how many bytes, largest first."""
        return heapq.nlargest(most, self._held.items(), key=lambda item: item[1])

    def _hold(self, caller: Caller, size: int) -> None:
        self.live_bytes += size
        self._held[caller] = self._held.get(caller, 0) + size


@dataclass(frozen=True)
class Stretch:
    """What lies between two boundaries.

    Attributes:
        boundary: number of the boundary it ends at; None of what follows the last.
        live_bytes: at its end.
        peak_bytes: within it.
        peak_at: the peak's place in the record.
    """

    boundary: int | None
    live_bytes: int
    peak_bytes: int
    peak_at: int


def stretches(reader: FileReader) -> Iterator[Stretch]:
    """Yield the record's stretches, in order."""
    heap: LiveSet[None] = LiveSet()
    apply = _Steps(heap)
    peak, peak_at = 0, 0
    for place, record in enumerate(reader.get_allocation_records()):
        boundary = apply.mark_of(record)
        if boundary is not None:
            yield Stretch(boundary, heap.live_bytes, peak, peak_at)
            peak, peak_at = heap.live_bytes, place
            continue
        apply.take(record, None)
        if heap.live_bytes > peak:
            peak, peak_at = heap.live_bytes, place
    yield Stretch(None, heap.live_bytes, peak, peak_at)


def holders(
    reader: FileReader, places: set[int]
) -> Iterator[tuple[int, list[tuple[AllocationRecord, int]]]]:
    """Yield, at each of these places, who held most: an allocation of each, and its bytes."""
    heap: LiveSet[tuple[int, int, int]] = LiveSet()
    apply = _Steps(heap)
    known: dict[tuple[int, int, int], AllocationRecord] = {}
    for place, record in enumerate(reader.get_allocation_records()):
        if apply.mark_of(record) is None:
            caller = (record.stack_id, record.native_stack_id, record.native_segment_generation)
            known.setdefault(caller, record)
            apply.take(record, caller)
        if place in places:
            yield place, [(known[who], size) for who, size in heap.largest(_HOLDERS)]


class _Steps(Generic[Caller]):
    """Takes memray's records into a live set."""

    def __init__(self, heap: LiveSet[Caller]) -> None:
        from memray import AllocatorType

        self._heap = heap
        self._map, self._unmap = int(AllocatorType.MMAP), int(AllocatorType.MUNMAP)
        self._free = int(AllocatorType.FREE)

    def mark_of(self, record: AllocationRecord) -> int | None:
        number, rest = divmod(record.size - MARK_BYTES, PAGESIZE)
        marks = record.allocator == self._map and rest == 0 and 0 < number < _MARKS
        return number if marks else None

    def take(self, record: AllocationRecord, caller: Caller) -> None:
        if record.allocator == self._map:
            self._heap.map(record.address, record.size, caller)
        elif record.allocator == self._unmap:
            self._heap.unmap(record.address, record.size)
        elif record.allocator == self._free:
            self._heap.free(record.address)
        else:
            self._heap.allocate(record.address, record.size, caller)


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
        """Mark this boundary among the allocations; return its number."""
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
        """Say why it can't be used on this machine; None if it can."""
        if importlib.util.find_spec("memray"):
            return None
        return f"memray is not installed: {install('memray')}"

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Replay the record.

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
    from memray import FileReader

    with FileReader(path, max_memory_records=_SNAPSHOTS) as reader:
        line = tuple(
            (snapshot.time * 1_000_000 - offset_ns, snapshot.heap)
            for snapshot in reader.get_memory_snapshots()
            # One that fell between a mark and its end holds the mark.
            if snapshot.heap < MARK_BYTES
        )
        in_order = list(stretches(reader))
        held = dict(holders(reader, {stretch.peak_at for stretch in in_order}))
        end_ns = max([*moments.values(), *(t_ns for t_ns, _ in line[-1:])], default=0)
        names: dict[tuple[int, int], tuple[str, ...]] = {}
        points = []
        for stretch in in_order:
            stacks = [Stack(size, _frames(r, names)) for r, size in held.get(stretch.peak_at, ())]
            boundary = stretch.boundary if stretch.boundary in moments else None
            t_ns = end_ns if boundary is None else moments[boundary]
            peak = stretch.peak_bytes
            points.append(HeapPoint(t_ns, stretch.live_bytes, peak, boundary, largest(stacks)))
    return tuple(points), line


def _frames(
    record: AllocationRecord, names: dict[tuple[int, int], tuple[str, ...]]
) -> tuple[str, ...]:
    place = (record.stack_id, record.native_stack_id)
    if place not in names:
        calls = record.hybrid_stack_trace(max_stacks=_FRAMES)
        names[place] = tuple(f"{name} ({Path(file).name}:{line})" for name, file, line in calls)
    return names[place]
