"""The training workload: steps of data, forward, backward and update, in any framework.

The loop knows nothing of any framework. It passes NumPy arrays to a :class:`Backend`, and a
framework's tensors are opaque to it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from edgebench.errors import WorkloadError
from edgebench.layers.disk import digest
from edgebench.layers.references import own_files, refuse_changed_files
from edgebench.workloads.recorder import Phases, Recorder, collected_rounds, heap_trimmer
from edgebench.workloads.training.names import (
    BACKENDS,
    GRAPH,
    NETWORK,
    own_data,
    own_loss,
    own_reference,
)

if TYPE_CHECKING:
    # NumPy belongs to the import phase.
    import numpy.typing as npt

    from edgebench.workloads.training.data_sources import DataSet, Examples, Rows

#: Counts how many labels were right; None: there are no labels.
CountOfRight = Callable[[], int | None]
#: Larger scores are counted within the step: kept until it has ended, they would add to its peak.
_MOST_KEPT_BYTES = 64 * 1024


def counted_later(count: CountOfRight, kept_bytes: int) -> CountOfRight:
    """Count now if counting later would keep more than a few pages.

    Args:
        count: reads the scores.
        kept_bytes: of the scores.
    """
    if kept_bytes <= _MOST_KEPT_BYTES:
        return count
    right = count()
    return lambda: right


Settings = Mapping[str, Any]
#: Of edgebench's data sets ``uint8``; of the user's own any numbers.
Images: TypeAlias = "npt.NDArray[Any]"
#: Of edgebench's data sets ``int64``.
Labels: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class Problem:
    """What is to be learnt.

    Args:
        shape: channels, height and width of an image; of the user's own data that of one input.
        classes: labels are 0 up to this, which is none; 0 where targets are no labels.
        brightest: the pixel value that becomes 1.0.
    """

    shape: tuple[int, ...]
    classes: int
    brightest: int


class TrainedNetwork(Protocol):
    """A network with its optimizer. Only it knows the form of its batches and results."""

    def batch(self, images: Images, labels: Labels) -> Any:
        """Convert images (examples x channels x height x width) and labels for the network."""

    def begin(self, step: int) -> None:
        """Begin a step: what it trains may be drawn again."""

    def forward(self, batch: Any, share: float) -> Any:
        """Return the batch's mean loss, times the share of the step that the batch is.

        Raises:
            WorkloadError: the network can't take such images.
        """

    def backward(self, result: Any) -> None:
        """Add the result's gradients to those already there."""

    def loss_and_count(self, result: Any) -> tuple[float, CountOfRight]:
        """Return the loss of :meth:`forward`, and what counts how many labels were right.

        It is called after the step, off its clock, and must not hold activations until then.
        """

    def step(self) -> None:
        """Update the parameters and free the gradients."""

    def correct(self, batch: Any) -> int | None:
        """Count the labels it gets right, as when it is used; None: no labels."""

    def held_bytes(self) -> dict[str, int]:
        """Add up the tensors it holds now: ``parameters``, ``gradients``, ``optimizer``; bytes."""


class CompiledNetwork(TrainedNetwork, Protocol):
    """One whose whole step is compiled into one graph, whose parts can't be told apart."""

    def train(self, batch: Any) -> tuple[float, int]:
        """Go forward, backward and update: the mean loss, and how many labels were right."""


#: Builds the network with its first parameters, drawn from the seed, and raises WorkloadError where
#: it can't be had for such a problem.
BuildNetwork: TypeAlias = Callable[[Settings, Problem, Recorder], TrainedNetwork]


class Backend(Protocol):
    """One framework: a module, listed in ``BACKENDS`` of the names."""

    def import_runtime(self, settings: Settings, recorder: Recorder) -> BuildNetwork:
        """Import all the code that training needs, so that it counts as base."""


def run_training(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the network, and train it step by step; a step is a round.

    Settings: those of :class:`edgebench.scenario.training.TrainingWorkload`.

    Raises:
        WorkloadError: a network or data set that can't be had, images the network can't take, a
            batch larger than the data, a loss that is no longer a number.
        MachineError: a package is missing.
    """
    training = prepared(settings, recorder)
    with collected_rounds(settings) as before_step:
        numbers = recorder.round_numbers(sys.maxsize)
        orders = iter(training.orders)
        rows = next(orders, None)
        # Steps first: where they end, the harness isn't asked for another one.
        while rows is not None and (number := next(numbers, None)) is not None:
            following = next(orders, None)
            before_step()
            training.step(number, rows, last=following is None)
            rows = following
        recorder.note(held_bytes=training.held)
        if settings["evaluate"] and recorder.control is None:
            before_step()
            recorder.note(test_accuracy=training.accuracy())


def prepared(settings: dict[str, Any], recorder: Recorder) -> TrainingLoop:
    """Prepare a training up to its first step: import the runtime, make data set and network.

    Raises:
        WorkloadError, MachineError: as :func:`run_training`.
    """
    with recorder.span("import"):
        backend = cast("Backend", import_module(BACKENDS[settings["framework"]]))
        build = backend.import_runtime(settings, recorder)
        # All it needs, so that its code counts as base.
        from edgebench.workloads.training.data_sources import data_for, steps_of

        if function := own_data(settings):
            function.import_code()
    with recorder.span("init"):
        data = data_for(settings)
        edge = settings["image"]
        shape = data.shape if edge is None else (data.shape[0], edge, edge)
        problem = Problem(shape, data.classes, data.brightest)
        trained = build(settings, problem, recorder)
        refuse_changed_files(settings.get("code", {}), settings["network"])
    orders = steps_of(
        len(data.train),
        settings["batch"],
        # Of a walk nobody knows beforehand how many it takes.
        steps=settings["steps"] if recorder.control is None else sys.maxsize,
        epochs=settings["epochs"],
        seed=settings["seed"],
    )
    trim = heap_trimmer(settings)
    return TrainingLoop(settings, recorder, data, trained, orders, trim=trim)


@dataclass
class TrainingLoop:
    """One training under way.

    Args:
        orders: which examples each step trains on.
        held: what was held before the last update, bytes.
        trim: called at the end of each step, within its time.
    """

    settings: dict[str, Any]
    recorder: Recorder
    data: DataSet
    trained: TrainedNetwork
    orders: Iterable[Rows]
    held: dict[str, int] = field(default_factory=dict)
    trim: Callable[[], None] = lambda: None

    def step(self, number: int, rows: Rows, last: bool) -> None:
        """Train on these rows, and record what that came to."""
        with self.recorder.phases(number, self.settings["network"]) as phases:
            self.trained.begin(number)
            if self.settings["compiled"]:
                loss, counts = self._graph(rows, last, phases)
            else:
                loss, counts = self._gradients(rows, phases)
                if last:
                    self._hold(phases)
                phases.begin("step")
                self.trained.step()
            self.trim()
        finite = math.isfinite(loss)
        # Off the step's clock.
        right: int | None = 0
        for count in counts:
            right = _sum(right, count())
        accuracy = None if right is None else right / self.settings["batch"]
        self.recorder.note(step=number, loss=loss if finite else None, accuracy=accuracy)
        if not finite:
            raise WorkloadError(
                f"the loss became {loss} in step {number}: training diverged",
                remedy="lower learning_rate, or take another optimizer",
            )

    def _gradients(self, rows: Rows, phases: Phases) -> tuple[float, list[CountOfRight]]:
        parts = self.settings["accumulation"]
        size, loss = len(rows) // parts, 0.0
        counts: list[CountOfRight] = []
        for part in range(parts):
            phases.begin("data")
            batch = self._batch(self.data.train, rows[part * size : (part + 1) * size])
            phases.begin("forward")
            result = self.trained.forward(batch, 1 / parts)
            phases.begin("backward")
            self.trained.backward(result)
            of_part, count = self.trained.loss_and_count(result)
            loss += of_part
            # Or the scores of all parts would be kept.
            counts.append(counted_later(count, 0 if parts == 1 else sys.maxsize))
            # Or the next part's forward would still hold them.
            del batch, result
        return loss, counts

    def _graph(self, rows: Rows, last: bool, phases: Phases) -> tuple[float, list[CountOfRight]]:
        """Make a step whose forward, backward and update are one graph; as :meth:`_gradients`."""
        phases.begin("data")
        batch = self._batch(self.data.train, rows)
        phases.begin(GRAPH)
        loss, right = cast("CompiledNetwork", self.trained).train(batch)
        if last:
            self._hold(phases)
        return loss, [lambda: right]

    def _hold(self, phases: Phases) -> None:
        phases.pause()
        self.held = self.trained.held_bytes()

    def _batch(self, examples: Examples, rows: Rows) -> Any:
        return self.trained.batch(*examples.batch(rows, self.settings["image"]))

    def accuracy(self) -> float:
        """Measure the share of the test part's labels that it gets right."""
        import numpy as np

        test, size = self.data.test, self.settings["batch"] // self.settings["accumulation"]
        parts = [np.arange(at, min(at + size, len(test))) for at in range(0, len(test), size)]
        with self.recorder.span("test", network=self.settings["network"]):
            right: int | None = 0
            for rows in parts:
                right = _sum(right, self.trained.correct(self._batch(test, rows)))
        if right is None:
            raise WorkloadError(
                "accuracy counts right labels, which needs a score of each class and whole "
                "numbers as targets",
                where=self.settings["network"],
                remedy="leave evaluate out",
            )
        return right / len(test)


def _sum(right: int | None, more: int | None) -> int | None:
    return None if right is None or more is None else right + more


def describe_code(request: Mapping[str, Any]) -> dict[str, Any]:
    """Describe trainings' own code: ``code``, file → digest, and ``content``, a hash of it all.

    The request: ``workloads``, settings of trainings. Each network is built once, on ``meta`` if
    its constructor allows it; a loss or data is found, and not called.

    Raises:
        WorkloadError: something can't be imported, found or built.
    """
    # Lazy: the worker imports this module, and OpenSSL would count among its base.
    import hashlib

    about: set[str] = set()
    files: set[Path] = set()
    for settings in request["workloads"]:
        for reference in settings["references"].values():
            about.add(json.dumps([reference["kind"], reference["target"], reference["arguments"]]))
        for function in filter(None, (own_loss(settings), own_data(settings))):
            function.function()
        if reference := own_reference(settings, NETWORK):
            from edgebench.layers.sources import empty_network, network_source

            source = network_source(reference)
            empty_network(source, settings["seed"])
            files.update(source.files())
            about.add(source.version())
    files.update(own_files())
    code = {str(file): digest(file) for file in sorted(files)}
    everything = json.dumps([sorted(about), sorted(code.values())])
    return {"code": code, "content": hashlib.sha256(everything.encode()).hexdigest()}
