"""memray around the worker: every allocation, Python's and native.

Its record is replayed from one boundary of a span to the next: memray's own summaries know the
whole record, or slices of its time. The marks that the worker left in the order of allocation
tell a layer's bytes exactly.
"""

from __future__ import annotations

import importlib.util
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.extras import install
from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    boundary_times,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import open_to_read

if TYPE_CHECKING:
    from memray import FileReader

#: A mapping of this size and as many pages as a boundary's number marks the boundary. It is address
#: space alone: none of its pages is ever touched.
MARK_BYTES = 32 << 30
#: More boundaries than a trial has: a mapping beyond it is no mark.
_MARKS = 1 << 20
_SNAPSHOTS = 10_000_000
_ERROR = "every allocation is recorded, with its size, in order"
_FILE = "memray.bin"
#: How often memray records its time and the heap's size.
_INTERVAL_MS = 5


class LiveSet:
    """Live bytes. What was allocated before the record began is not in it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._blocks: dict[int, int] = {}
        self._mappings: dict[int, int] = {}

    def allocate(self, address: int, size: int) -> None:
        """Add a block of malloc and its kin; one at the same address was freed unseen."""
        self.free(address)
        self._blocks[address] = size
        self.live_bytes += size

    def free(self, address: int) -> None:
        """Give a block back; do nothing if its allocation was not seen."""
        self.live_bytes -= self._blocks.pop(address, 0)

    def map(self, start: int, size: int) -> None:
        """Add a mapping: it takes the place of what was mapped there."""
        self.unmap(start, size)
        self._mappings[start] = size
        self.live_bytes += size

    def unmap(self, start: int, size: int) -> None:
        """Give this range back: a mapping, part of one, or parts of several."""
        end = start + size
        for at, length in list(self._mappings.items()):
            if at >= end or at + length <= start:
                continue
            del self._mappings[at]
            for piece, until in ((at, start), (end, at + length)):
                if piece < until:
                    self._mappings[piece] = until - piece
            self.live_bytes -= min(end, at + length) - max(start, at)


def stretches(reader: FileReader) -> Iterator[tuple[int | None, int, int]]:
    """Yield what lies between two boundaries, in order.

    Each is the number of the boundary it ends at (None of what follows the last), the live bytes
    there, and the most within it.
    """
    from memray import AllocatorType

    map_, unmap = int(AllocatorType.MMAP), int(AllocatorType.MUNMAP)
    free = int(AllocatorType.FREE)
    heap, peak = LiveSet(), 0
    for record in reader.get_allocation_records():
        if record.allocator == map_:
            number, rest = divmod(record.size - MARK_BYTES, mmap.PAGESIZE)
            if rest == 0 and 0 < number < _MARKS:
                yield number, heap.live_bytes, peak
                peak = heap.live_bytes
                continue
            heap.map(record.address, record.size)
        elif record.allocator == unmap:
            heap.unmap(record.address, record.size)
        elif record.allocator == free:
            heap.free(record.address)
        else:
            heap.allocate(record.address, record.size)
        peak = max(peak, heap.live_bytes)
    yield None, heap.live_bytes, peak


class MemrayView(View):
    """Tracks the worker with memray from before the runtime's import to the workload's end."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        import memray

        super().__init__(folder, descriptors)
        self._boundaries = 0
        self._tracker = memray.Tracker(folder / _FILE, memory_interval_ms=_INTERVAL_MS)
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
    """The heap by memray: each allocation of the worker."""

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
        path, moments = folder / _FILE, boundary_times(numbered)
        if not path.exists():
            raise ResultsError("memray left no record: the worker ended before it began")
        from memray import FileReader

        points = []
        try:
            # It reads the file as it replays it: of any size, but no FIFO.
            open_to_read(path).close()
            with FileReader(path, max_memory_records=_SNAPSHOTS) as reader:
                line = tuple(
                    (snapshot.time * 1_000_000 - offset_ns, snapshot.heap)
                    for snapshot in reader.get_memory_snapshots()
                    # One that fell between a mark and its end holds the mark.
                    if snapshot.heap < MARK_BYTES
                )
                end_ns = max([*moments.values(), *(t_ns for t_ns, _ in line[-1:])], default=0)
                for number, live_bytes, peak_bytes in stretches(reader):
                    boundary = number if number in moments else None
                    t_ns = end_ns if boundary is None else moments[boundary]
                    points.append(HeapPoint(t_ns, live_bytes, peak_bytes, boundary))
        except (OSError, ValueError, RuntimeError) as error:
            raise ResultsError(f"memray's record can't be read: {error}", where=_FILE) from None
        return HeapProfile(tuple(points), 0, _ERROR, line=line)
