"""The references of training: what the operators of its steps touch, in the memory of one heap.

What is freed stays in the heap as the allocator keeps it, so that later operators write over pages
that were there before: pages which a limit may have swapped out.
"""

from __future__ import annotations

from edgebench.slowdown.simulator.allocator import HeapBlock
from edgebench.slowdown.simulator.heap_pages import HeapPages
from edgebench.slowdown.simulator.references import BEFORE, PIECE_BYTES, ReferenceRecorder
from edgebench.slowdown.simulator.tasks import Task
from edgebench.slowdown.simulator.workload import Workload
from edgebench.workloads.training.step_operations import INIT, StepOperation

#: Smaller memory is passed over: the allocator keeps it apart, and there is little of it.
_LEAST_BYTES = 4096
#: Into so many pieces what is held at once is cut, or into more where these would be small.
_PIECES = 500


class TrainingTrace:
    """Writes one step after another. Weights and the optimizer's state outlive a step."""

    def __init__(self, script: ReferenceRecorder, workload: Workload, own: list[int]) -> None:
        assert workload.training is not None
        operations = workload.training.operations
        script.piece_bytes = max(PIECE_BYTES, _most_alive(operations) // _PIECES)
        self._pages = HeapPages(script, workload.malloc)
        self._script, self._own = script, own
        self._blocks: dict[int, HeapBlock] = {}
        self._step = 0
        self._operations = [
            [one for one in operations if one.phase != INIT and one.step == step] for step in (0, 1)
        ]
        for operation in operations:
            if operation.phase == INIT:
                self._operate(operation, BEFORE)

    def write(self, tasks: tuple[Task, ...], first: int) -> None:
        """One step, whose tasks are numbered from ``first`` on."""
        places = {(t.phase, t.number, t.layer.order): first + n for n, t in enumerate(tasks)}
        task = first
        forward = next((n for n, one in enumerate(tasks) if one.phase == "forward"), 0)
        self._script.touch(self._own, first + forward, write=True)
        for operation in self._operations[min(self._step, 1)]:
            # What is no layer's own belongs to what came before it.
            task = places.get((operation.phase, operation.number, operation.layer), task)
            self._operate(operation, task)
        self._step += 1

    def _operate(self, operation: StepOperation, task: int) -> None:
        for number in operation.freed:
            if number in self._blocks:
                self._pages.free(self._blocks.pop(number))
        for number, size in operation.made:
            if size >= _LEAST_BYTES:
                self._blocks[number] = self._pages.allocate(size)
        self._touch(operation.read, task)
        for stage in operation.workspace:
            self._use(stage, task)
        self._touch(operation.written, task, write=True)

    def _touch(self, numbers: tuple[int, ...], task: int, *, write: bool = False) -> None:
        for number in numbers:
            if number in self._blocks:
                self._pages.touch(self._blocks[number], task, write=write)

    def _use(self, sizes: tuple[int, ...], task: int) -> None:
        """Memory that an operator takes for itself."""
        blocks = [self._pages.allocate(size) for size in sizes if size >= _LEAST_BYTES]
        for block in blocks:
            self._pages.touch(block, task, write=True)
        for block in blocks:
            self._pages.free(block)


def _most_alive(operations: tuple[StepOperation, ...]) -> int:
    """The most bytes that operators hold at once, beside workspaces."""
    sizes: dict[int, int] = {}
    alive = most = 0
    for operation in operations:
        for number in operation.freed:
            alive -= sizes.get(number, 0)
        for number, size in operation.made:
            sizes[number] = size
            alive += size
        most = max(most, alive)
    return most
