"""What a framework must do so that networks are trained in it: two small protocols.

The loop (:mod:`edgebench.training.loop`) knows nothing of any framework. It hands over NumPy
arrays, and a framework's tensors are opaque to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgebench.workloads.recorder import Recorder

Settings = Mapping[str, Any]
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """What is to be learnt.

    Args:
        shape: channels, height and width of an image.
        classes: labels are 0 up to this, which is none.
        brightest: the pixel value that becomes 1.0.
    """

    shape: tuple[int, int, int]
    classes: int
    brightest: int


class Trainee(Protocol):
    """A network with its optimizer. Its batches and results are its own affair."""

    def batch(self, images: Images, labels: Labels) -> Any:
        """Images (examples x channels x height x width) and labels as the network wants them."""

    def begin(self, step: int) -> None:
        """A step begins: what it trains may be drawn anew."""

    def forward(self, batch: Any, share: float) -> Any:
        """The batch's mean loss, times the share of the step that the batch is.

        Raises:
            WorkloadError: the network can't take such images.
        """

    def backward(self, result: Any) -> None:
        """Add the result's gradients to those already there."""

    def told(self, result: Any) -> tuple[float, int]:
        """The loss as :meth:`forward` made it, and how many labels were right."""

    def step(self) -> None:
        """Update the parameters and let go of the gradients."""

    def right(self, batch: Any) -> int:
        """How many labels it gets right, as when it is used: nothing is trained."""

    def held_bytes(self) -> dict[str, int]:
        """Bytes of the tensors it holds now: ``parameters``, ``gradients``, ``optimizer``."""


class Backend(Protocol):
    """One framework, by name in :mod:`edgebench.training.registry`; usually a module."""

    def import_runtime(self, settings: Settings, recorder: Recorder) -> None:
        """Import all the code that training needs, so that it counts as base."""

    def build(self, settings: Settings, problem: Problem, recorder: Recorder) -> Trainee:
        """The network with its first parameters, drawn from the seed.

        Raises:
            WorkloadError: the network can't be had for such a problem.
        """
