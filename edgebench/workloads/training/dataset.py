"""A data set as NumPy arrays for any framework, and which of its examples each step trains on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgebench.errors import WorkloadError

#: ``uint8``; of the user's own data any numbers.
Images = npt.NDArray[Any]
#: Numbers of examples.
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """One part of a data set.

    Args:
        images: ``uint8``, examples x channels x height x width; of the user's own data any inputs.
        labels: ``int64``, one an example; of the user's own data any targets.
    """

    images: Images
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class DataSet:
    """Images to train on and images to test on; both stay bytes until a batch is made of them.

    Args:
        name: as a scenario names it.
        classes: labels are 0 up to this, which is none.
        brightest: the pixel value that becomes 1.0.
        train: what is trained on.
        test: what accuracy is measured on.
    """

    name: str
    classes: int
    brightest: int
    train: Examples
    test: Examples

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one image; of the user's own data that of one input."""
        return self.train.images.shape[1:]


def checked(data: DataSet, where: str) -> DataSet:
    """The data set itself.

    Raises:
        WorkloadError: a part is empty, images and labels differ in number, parts differ in shape,
            or a label is no class.
    """
    for part, examples in (("training", data.train), ("test", data.test)):
        images, labels = len(examples.images), len(examples.labels)
        if not images or images != labels:
            raise _corrupt(data, where, f"{images} {part} images with {labels} labels")
        low, high = int(examples.labels.min()), int(examples.labels.max())
        if low < 0 or high >= data.classes:
            wrong = low if low < 0 else high
            raise _corrupt(data, where, f"label {wrong} among {data.classes} classes ({part} part)")
    if data.train.images.shape[1:] != data.test.images.shape[1:]:
        raise _corrupt(data, where, "its training and test images differ in shape")
    return data


def _corrupt(data: DataSet, where: str, what: str) -> WorkloadError:
    remedy = "take that file away and get the data set again"
    return WorkloadError(f"data set {data.name!r} is corrupt: {what}", where=where, remedy=remedy)


def steps_of(
    examples: int, batch: int, *, steps: int | None, epochs: int | None, seed: int
) -> Iterator[Rows]:
    """The rows of each step's batch; what is left of an epoch short of a batch is left out.

    Args:
        examples: how many there are.
        batch: how many a step trains on.
        steps: how many steps; None: as many as the epochs have.
        epochs: how many times all examples are gone through.
        seed: of the order, drawn anew for each epoch.

    Raises:
        WorkloadError: the batch is larger than the data.
    """
    if batch > examples:
        raise WorkloadError(
            f"a batch of {batch} is larger than the data, which has {examples} examples",
            remedy=f"write batch = {examples} or less",
        )
    an_epoch = examples // batch
    count = steps if steps is not None else an_epoch * (epochs or 1)
    random = np.random.default_rng(seed)
    for step in range(count):
        place = step % an_epoch
        if place == 0:
            order = random.permutation(examples)
        yield order[place * batch : (place + 1) * batch]


def widened(images: Images, edge: int | None) -> Images:
    """Images brought to that edge by repeating (or leaving out) pixels; None leaves them."""
    if edge is None or images.shape[2:] == (edge, edge):
        return images
    height, width = images.shape[2:]
    rows, columns = (np.arange(edge) * side // edge for side in (height, width))
    return images[:, :, rows[:, None], columns]
