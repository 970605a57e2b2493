"""What a framework must do so that networks are trained in it: two small protocols.

The loop (:mod:`edgebench.workloads.training.loop`) knows nothing of any framework. It passes
NumPy arrays, and a framework's tensors are opaque to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from edgebench.workloads.recorder import Recorder

#: Counts how many labels were right; None: there are no labels.
CountOfRight = Callable[[], int | None]
#: Larger scores are counted within the step: kept until it has ended, they would add to its peak.
_MOST_KEPT_BYTES = 64 * 1024


def counted(count: CountOfRight) -> CountOfRight:
    """Count now, and return the count."""
    right = count()
    return lambda: right


def counted_later(count: CountOfRight, kept_bytes: int) -> CountOfRight:
    """Count now if counting later would keep more than a few pages.

    Args:
        count: reads the scores.
        kept_bytes: of the scores.
    """
    return count if kept_bytes <= _MOST_KEPT_BYTES else counted(count)


Settings = Mapping[str, Any]
#: Of edgebench's data sets ``uint8``; of the user's own any numbers.
Images = npt.NDArray[Any]
#: Of edgebench's data sets ``int64``.
Labels = npt.NDArray[Any]


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


class Backend(Protocol):
    """One framework: usually a module, listed in ``BACKENDS`` of the names."""

    def import_runtime(self, settings: Settings, recorder: Recorder) -> None:
        """Import all the code that training needs, so that it counts as base."""

    def build(self, settings: Settings, problem: Problem, recorder: Recorder) -> TrainedNetwork:
        """Build the network with its first parameters, drawn from the seed.

        Raises:
            WorkloadError: the network can't be had for such a problem.
        """
