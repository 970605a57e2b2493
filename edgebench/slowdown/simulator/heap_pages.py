"""A process's heap as pieces of a string of references: what is freed may stay, and is used again.

A mapping is a piece or several of its own, and gone when it is freed. The heap is cut into cells at
fixed addresses: memory that is freed and allocated again is the same cells, which are gone once the
heap ends before them.
"""

from __future__ import annotations

from edgebench.slowdown.simulator.allocator import Heap, HeapBlock, MallocSettings
from edgebench.slowdown.simulator.references import ReferenceRecorder

#: Cells to a piece: small against blocks, since a block touches whole cells.
_CELLS = 4


class HeapPages:
    """The heap of one process, written into a string.

    Args:
        script: the string.
        settings: the allocator's parameters.
    """

    def __init__(self, script: ReferenceRecorder, settings: MallocSettings) -> None:
        self._script = script
        self._heap = Heap(settings)
        self._cell_bytes = script.piece_bytes // _CELLS
        self._mappings: dict[HeapBlock, list[int]] = {}
        #: Number of a cell → its piece, once it was touched.
        self._cells: dict[int, int] = {}

    def allocate(self, size: int) -> HeapBlock:
        """Memory that nothing has touched yet."""
        block = self._heap.allocate(size)
        if block.start is None:
            self._mappings[block] = self._script.new(block.size)
        return block

    def touch(self, block: HeapBlock, task: int, *, write: bool = False) -> None:
        """All of a block, from its first page to its last."""
        pieces = self._mappings.get(block) or self._cells_of(block)
        self._script.touch(pieces, task, write=write)

    def free(self, block: HeapBlock) -> None:
        """Give a block back to the allocator, which may give memory back to the kernel."""
        before = self._heap.end
        self._heap.free(block)
        if pieces := self._mappings.pop(block, None):
            self._script.free(pieces)
        if self._heap.end < before:
            first = -(-self._heap.end // self._cell_bytes)
            for cell in [cell for cell in self._cells if cell >= first]:
                self._script.free([self._cells.pop(cell)])

    def _cells_of(self, block: HeapBlock) -> list[int]:
        assert block.start is not None
        last = (block.start + block.size - 1) // self._cell_bytes
        cells = range(block.start // self._cell_bytes, last + 1)
        for cell in cells:
            if cell not in self._cells:
                (self._cells[cell],) = self._script.new(self._cell_bytes)
        return [self._cells[cell] for cell in cells]
