"""The training workload: steps of data, forward, backward and update, in any framework."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError
from edgebench.training.registry import backend_of
from edgebench.workloads.recorder import Phases, Recorder

if TYPE_CHECKING:
    from edgebench.training.backend import Problem, Trainee
    from edgebench.training.batches import Rows
    from edgebench.training.data.dataset import DataSet, Examples


def run_training(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the network, and train it step by step; a step is a round.

    Settings: those of :class:`edgebench.workloads.training_settings.TrainingWorkload`.

    Raises:
        WorkloadError: a network or data set that can't be had, images the network can't take, a
            batch larger than the data, a loss that is no longer a number.
        MachineError: a package is missing.
    """
    training = prepared(settings, recorder)
    for number, (rows, last) in enumerate(_with_last(training.orders)):
        training.step(number, rows, last)
    recorder.note(held_bytes=training.held)
    if settings["evaluate"]:
        recorder.note(test_accuracy=training.accuracy())


def prepared(settings: dict[str, Any], recorder: Recorder) -> Training:
    """The training, before its first step: runtime imported, data set and network there.

    Raises:
        WorkloadError, MachineError: as :func:`run_training`.
    """
    backend = backend_of(settings["framework"])
    with recorder.span("import"):
        backend.import_runtime(settings, recorder)
        # All it needs, so that its code counts as base.
        from edgebench.training.batches import steps_of
        from edgebench.training.data.registry import load_data
    with recorder.span("init"):
        data = load_data(_request(settings))
        recorder.holds_itself("data", data.nbytes)
        trainee = backend.build(settings, _problem(settings, data), recorder)
    orders = steps_of(
        len(data.train),
        settings["batch"],
        steps=settings["steps"],
        epochs=settings["epochs"],
        seed=settings["seed"],
    )
    return Training(settings, recorder, data, trainee, orders)


def _with_last(orders: Iterable[Rows]) -> Iterator[tuple[Rows, bool]]:
    """Each step's rows, and whether it is the last step."""
    waiting: Rows | None = None
    for rows in orders:
        if waiting is not None:
            yield waiting, False
        waiting = rows
    if waiting is not None:
        yield waiting, True


def _request(settings: dict[str, Any]) -> Any:
    from edgebench.training.data.registry import DataRequest

    folder = settings["data_folder"]
    return DataRequest(
        name=settings["data"],
        folder=Path(folder) if folder else None,
        shape=_sides(settings["shape"]),
        classes=settings["classes"],
        examples=settings["examples"],
        seed=settings["seed"],
    )


def _sides(shape: str) -> tuple[int, int, int]:
    channels, height, width = map(int, shape.split("x"))
    return channels, height, width


def _problem(settings: dict[str, Any], data: DataSet) -> Problem:
    from edgebench.training.backend import Problem

    channels, height, width = data.shape
    edge = settings["image"]
    return Problem((channels, edge or height, edge or width), data.classes, data.brightest)


@dataclass
class Training:
    """One training under way.

    Args:
        orders: which examples each step trains on.
        held: what was held before the last update, bytes.
    """

    settings: dict[str, Any]
    recorder: Recorder
    data: DataSet
    trainee: Trainee
    orders: Iterable[Rows]
    held: dict[str, int] = field(default_factory=dict)

    def step(self, number: int, rows: Rows, last: bool) -> None:
        """Train on these rows, and record what that came to."""
        with self.recorder.phases(number, self.settings["network"]) as phases:
            self.trainee.begin(number)
            loss, right = self._gradients(rows, phases)
            if last:
                phases.pause()
                self.held = self.trainee.held_bytes()
            phases.begin("step")
            self.trainee.step()
        finite = math.isfinite(loss)
        accuracy = right / self.settings["batch"]
        self.recorder.note(step=number, loss=loss if finite else None, accuracy=accuracy)
        if not finite:
            raise WorkloadError(
                f"the loss became {loss} in step {number}: training diverged",
                remedy="lower learning_rate, or take another optimizer",
            )

    def _gradients(self, rows: Rows, phases: Phases) -> tuple[float, int]:
        """The gradients of all parts of the batch; its loss, and how many labels were right."""
        parts = self.settings["accumulation"]
        size, loss, right = len(rows) // parts, 0.0, 0
        for part in range(parts):
            phases.begin("data")
            batch = self._batch(self.data.train, rows[part * size : (part + 1) * size])
            phases.begin("forward")
            result = self.trainee.forward(batch, 1 / parts)
            phases.begin("backward")
            self.trainee.backward(result)
            of_part, right_in_part = self.trainee.told(result)
            loss, right = loss + of_part, right + right_in_part
            # Or the next part's forward would still hold them.
            del batch, result
        return loss, right

    def _batch(self, examples: Examples, rows: Rows) -> Any:
        from edgebench.training.batches import widened

        images = widened(examples.images[rows], self.settings["image"])
        return self.trainee.batch(images, examples.labels[rows])

    def accuracy(self) -> float:
        """The share of the test part's labels that it gets right."""
        import numpy as np

        test, size = self.data.test, self.settings["batch"] // self.settings["accumulation"]
        parts = [np.arange(at, min(at + size, len(test))) for at in range(0, len(test), size)]
        with self.recorder.span("test", network=self.settings["network"]):
            return sum(self.trainee.right(self._batch(test, rows)) for rows in parts) / len(test)
