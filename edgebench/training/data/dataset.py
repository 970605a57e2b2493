"""What a data set is: images as bytes, and their labels, as NumPy arrays for any framework."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgebench.errors import WorkloadError


@dataclass(frozen=True)
class Examples:
    """One part of a data set.

    Args:
        images: ``uint8``, examples x channels x height x width.
        labels: ``int64``, one an example.
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]

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
        test: what accuracy is told from.
    """

    name: str
    classes: int
    brightest: int
    train: Examples
    test: Examples

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def nbytes(self) -> int:
        """Bytes of all its images and labels."""
        return sum(part.images.nbytes + part.labels.nbytes for part in (self.train, self.test))


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
