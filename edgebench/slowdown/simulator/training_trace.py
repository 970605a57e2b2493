"""The references of training: forward keeps activations, backward uses them in reverse.

What goes backward needs of each layer its weights, what went into it and what was kept of it; it
makes the gradients of its weights and of its input. The optimizer's update then touches weights,
gradients and its own state, part by part, and gives the gradients back.
"""

from __future__ import annotations

from edgebench.slowdown.simulator.references import BEFORE, ReferenceRecorder
from edgebench.slowdown.simulator.tasks import Task
from edgebench.slowdown.simulator.workload import Layer, Workload


class TrainingTrace:
    """Writes one step after another. Weights and the optimizer's state outlive a step."""

    def __init__(self, script: ReferenceRecorder, workload: Workload) -> None:
        assert workload.training is not None
        self._script, self._workload = script, workload
        self._copies = workload.training.state_copies
        self._layers = workload.tables[0]
        self._weights: dict[str, list[int]] = {}
        self._state: dict[str, list[int]] = {}
        self._gradients: dict[str, list[int]] = {}
        self._clear([])
        for layer in self._layers:
            if layer.file_bytes and layer.part not in self._weights:
                self._weights[layer.part] = self._made(layer.file_bytes, BEFORE)

    def write(self, tasks: tuple[Task, ...], first: int) -> None:
        """One step, whose tasks are numbered from ``first`` on."""
        by_phase = {
            "data": self._data,
            "forward": self._forward,
            "backward": self._backward,
            "step": self._update,
        }
        for place, task in enumerate(tasks):
            by_phase[task.phase](task.layer, first + place)
        for pieces in self._gradients.values():
            self._script.free(pieces)
        self._gradients.clear()

    def _data(self, layer: Layer, number: int) -> None:
        """A part of the batch is made; what the part before left goes."""
        passing = self._output if self._passing else []
        self._script.free([*self._input, *self._gradient, *passing])
        self._clear(self._made(self._workload.input_bytes, number))

    def _clear(self, images: list[int]) -> None:
        #: Of each layer gone forward what it was given, and what is kept of it until it goes back.
        self._given: dict[int, list[int]] = {}
        self._kept: dict[int, list[int]] = {}
        self._input = images
        #: The last output, and whether nobody keeps it; the gradient that is on its way.
        self._output, self._passing = images, False
        self._gradient: list[int] = []

    def _forward(self, layer: Layer, number: int) -> None:
        self._weigh(layer, number)
        self._script.touch(self._output, number)
        self._given[layer.order] = [] if self._passing else self._output
        kept = self._made(layer.saved_bytes, number)
        if layer.output_bytes:
            output = self._made(layer.output_bytes, number)
            if self._passing:
                self._script.free(self._output)
            self._output, self._passing = output, not layer.kept_bytes
            kept = [*kept, *([] if self._passing else output)]
        self._kept[layer.order] = kept

    def _backward(self, layer: Layer, number: int) -> None:
        self._weigh(layer, number)
        before, given = self._gradient, self._given[layer.order]
        for pieces in (before, self._kept[layer.order], given):
            self._script.touch(reversed(pieces), number)
        if layer.output_bytes:
            # As large as what the layer was given, which has its own output's size if in place.
            self._gradient = self._made(self._size(given) or layer.output_bytes, number)
            self._script.free(before)
        if layer.trained_bytes:
            self._add_gradients(layer, number)
        self._script.free(self._kept[layer.order])

    def _add_gradients(self, layer: Layer, number: int) -> None:
        if layer.part in self._gradients:
            self._script.touch(self._gradients[layer.part], number, write=True)
        else:
            self._gradients[layer.part] = self._made(layer.trained_bytes, number)

    def _update(self, layer: Layer, number: int) -> None:
        self._script.touch(self._gradients[layer.part], number)
        self._script.touch(self._weights[layer.part], number, write=True)
        size = self._copies * layer.trained_bytes
        if layer.part in self._state:
            self._script.touch(self._state[layer.part], number, write=True)
        elif size:
            self._state[layer.part] = self._made(size, number)

    def _weigh(self, layer: Layer, number: int) -> None:
        if layer.file_bytes:
            self._script.touch(self._weights[layer.part], number)

    def _made(self, size: int, number: int) -> list[int]:
        pieces = self._script.new(size)
        self._script.touch(pieces, number, write=True)
        return pieces

    def _size(self, pieces: list[int]) -> int:
        return sum(self._script.bytes[piece] for piece in pieces)
