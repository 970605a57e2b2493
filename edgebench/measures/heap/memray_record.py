"""memray's record of every allocation, replayed from one boundary of a span to the next.

memray's own summaries know the whole record, or slices of its time. The marks that the worker
left in the order of allocation tell a layer's bytes exactly, in two passes: the first finds each
stretch's peak, the second who held it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

#: A mapping of this size and as many pages as a boundary's number marks the boundary. It is address
#: space alone: none of its pages is ever touched.
MARK_BYTES = 32 << 30
_HOLDERS = 8
#: More boundaries than a trial has: a mapping beyond it is no mark.
_MARKS = 1 << 20
Caller = TypeVar("Caller", bound=Hashable)


class LiveSet(Generic[Caller]):
    """Live bytes, and who holds them. What was got before the record began is not in it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._blocks: dict[int, tuple[int, Caller]] = {}
        self._mappings: dict[int, tuple[int, Caller]] = {}
        self._held: dict[Caller, int] = {}

    def allocate(self, address: int, size: int, caller: Caller) -> None:
        """A block of malloc and its kin; one at the same address was freed unseen."""
        self.free(address)
        self._blocks[address] = (size, caller)
        self._hold(caller, size)

    def free(self, address: int) -> None:
        """A block is given back; nothing happens if its allocation was not seen."""
        block = self._blocks.pop(address, None)
        if block:
            self._hold(block[1], -block[0])

    def map(self, start: int, size: int, caller: Caller) -> None:
        """A mapping: it takes the place of what was mapped there."""
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
        """Who holds most, and how many bytes, largest first."""
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
    """The record's stretches, in order."""
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
    """At each of these places: who held most then, by an allocation of theirs, and its bytes."""
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
        """The boundary that this mapping marks; None if it is no mark."""
        number, rest = divmod(record.size - MARK_BYTES, PAGESIZE)
        marks = record.allocator == self._map and rest == 0 and 0 < number < _MARKS
        return number if marks else None

    def take(self, record: AllocationRecord, caller: Caller) -> None:
        """One step of the record."""
        if record.allocator == self._map:
            self._heap.map(record.address, record.size, caller)
        elif record.allocator == self._unmap:
            self._heap.unmap(record.address, record.size)
        elif record.allocator == self._free:
            self._heap.free(record.address)
        else:
            self._heap.allocate(record.address, record.size, caller)
