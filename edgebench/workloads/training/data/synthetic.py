"""Made-up images of any shape, from a seed: the cost of training without the data set's files.

Each class has a pattern of its own and every image is its class's pattern under noise, so that a
network can learn them and its loss falls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgebench.errors import WorkloadError
from edgebench.workloads.training.data.dataset import DataSet, Examples

#: Of these the patterns are made, before they are widened to the image's size.
_COARSE = 4
#: How much of an image is its class's pattern; the rest is noise.
_PATTERN_SHARE = 0.5
#: One test image to so many training images.
TRAIN_TO_TEST = 4
Images = npt.NDArray[np.uint8]


def make_synthetic(
    name: str, shape: tuple[int, ...] | None, classes: int, examples: int, seed: int
) -> DataSet:
    """A data set of so many training examples, the same from the same seed, bit for bit.

    Args:
        name: as the scenario names it.
        shape: channels, height, width.
        classes: how many labels there are.
        examples: how many images to train on; a quarter as many are made to test on.
        seed: of the patterns, the labels and the noise.

    Raises:
        WorkloadError: nothing to make: no shape, or a side, a class or a number below one.
    """
    if shape is None:
        raise WorkloadError(
            f"the data set {name!r} has no shape",
            remedy="give channels, height and width: shape = [3, 224, 224]",
        )
    if min(*shape, classes, examples) < 1:
        raise WorkloadError(
            f"no data set of shape {'x'.join(map(str, shape))} with {classes} classes "
            f"and {examples} examples",
            remedy="give each a number of at least 1",
        )
    random = np.random.default_rng(seed)
    patterns = _patterns(shape, classes, random)
    train = _examples(patterns, examples, random)
    test = _examples(patterns, max(1, examples // TRAIN_TO_TEST), random)
    return DataSet(name, classes, 255, train, test)


def _patterns(shape: tuple[int, ...], classes: int, random: np.random.Generator) -> Images:
    channels, height, width = shape
    coarse = random.integers(0, 256, (classes, channels, _COARSE, _COARSE), dtype=np.uint8)
    rows, columns = (np.arange(side) * _COARSE // side for side in (height, width))
    return coarse[:, :, rows[:, None], columns]


def _examples(patterns: Images, count: int, random: np.random.Generator) -> Examples:
    labels = random.integers(0, len(patterns), count)
    images = np.empty((count, *patterns.shape[1:]), np.uint8)
    # One by one: all of them as floats would take four times the memory that stays.
    for row, label in enumerate(labels):
        noise = random.integers(0, 256, patterns.shape[1:], dtype=np.uint8)
        images[row] = patterns[label] * _PATTERN_SHARE + noise * (1 - _PATTERN_SHARE)
    return Examples(images, labels)
