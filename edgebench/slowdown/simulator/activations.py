"""What a network holds beside its weights while it is executed, in the memory of the heap.

Tables tell how many bytes of tensors are alive before, at most during and after each layer, and
what convolutions copy. Which tensors are freed follows from the sizes.
"""

from __future__ import annotations

from edgebench.slowdown.simulator.allocator import HeapBlock
from edgebench.slowdown.simulator.heap_pages import HeapPages
from edgebench.slowdown.simulator.workload import Layer


class Activations:
    """The tensors of one execution of a network, as far as its layers have come.

    Args:
        heap: where they are allocated.
        input_bytes: alive all the time, and not allocated here.
    """

    def __init__(self, heap: HeapPages, input_bytes: int) -> None:
        self._heap, self._input_bytes = heap, input_bytes
        #: From the oldest on, with their sizes.
        self._alive: list[tuple[HeapBlock, int]] = []

    def begin(self, layer: Layer, number: int) -> None:
        """What was done between the last layer and this one, and what this one reads."""
        if layer.live is not None:
            self._settle(layer.live.before_bytes, number)
        if self._alive:
            self._heap.touch(self._alive[-1][0], number)

    def end(self, layer: Layer, number: int) -> None:
        """What the layer makes, and what is freed after it."""
        if layer.live is None:
            if layer.output_bytes:
                self._make(layer.output_bytes, number)
                self._settle(self._input_bytes + layer.output_bytes, number)
            return
        made = layer.live.peak_bytes - layer.live.before_bytes
        working = self._work(layer.live.workspace_bytes, number)
        self._make(min(made, layer.output_bytes), number)
        passing = [*working, *self._work((max(0, made - layer.output_bytes),), number)]
        for block in passing:
            self._heap.free(block)
        if not made and self._alive:
            # It writes where it reads.
            self._heap.touch(self._alive[-1][0], number, write=True)
        self._settle(layer.live.after_bytes, number)

    def free(self) -> None:
        """The execution is over."""
        for block, _ in self._alive:
            self._heap.free(block)
        self._alive.clear()

    def _make(self, size: int, number: int) -> None:
        if size > 0:
            block = self._heap.allocate(size)
            self._heap.touch(block, number, write=True)
            self._alive.append((block, size))

    def _work(self, sizes: tuple[int, ...], number: int) -> list[HeapBlock]:
        blocks = [self._heap.allocate(size) for size in sizes if size > 0]
        for block in blocks:
            self._heap.touch(block, number, write=True)
        return blocks

    def _settle(self, live_bytes: int, number: int) -> None:
        """Free or make so that so much is alive; the newest is what comes next's input."""
        excess = self._input_bytes + sum(size for _, size in self._alive) - live_bytes
        if excess < 0:
            self._make(-excess, number)
        while excess > 0 and len(self._alive) > 1:
            sizes = [size for _, size in self._alive[:-1]]
            # Of tensors of a size the last one made goes, the others are for later layers.
            size = max((one for one in sizes if one <= excess), default=min(sizes))
            place = len(sizes) - 1 - sizes[::-1].index(size)
            block, _ = self._alive.pop(place)
            self._heap.touch(block, number)
            # What is larger became something smaller.
            self._make(size - excess, number)
            self._heap.free(block)
            excess -= size
