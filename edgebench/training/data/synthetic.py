"""Made-up images of any shape, from a seed: the cost of training without the data set's files.

Each class has a pattern of its own and every image is its class's pattern under noise, so that a
network can learn them and its loss falls.
"""

from __future__ import annotations

import torch

from edgebench.errors import WorkloadError
from edgebench.training.data.dataset import DataSet, Examples

#: Of these the patterns are made, before they are widened to the image's size.
_COARSE = 4
#: How much of an image is its class's pattern; the rest is noise.
_PATTERN_SHARE = 0.5
#: One test image to so many training images.
_TRAIN_TO_TEST = 4


def make_synthetic(
    name: str, shape: tuple[int, int, int], classes: int, examples: int, seed: int
) -> DataSet:
    """A data set of so many training examples, the same from the same seed, bit for bit.

    Args:
        name: as the scenario names it.
        shape: channels, height, width.
        classes: how many labels there are.
        examples: how many images to train on; a quarter as many are made to test on.
        seed: of the patterns, the labels and the noise.

    Raises:
        WorkloadError: nothing to make: a shape, a class or a number below one.
    """
    if min(*shape, classes, examples) < 1:
        raise WorkloadError(
            f"no data set of shape {'x'.join(map(str, shape))} with {classes} classes "
            f"and {examples} examples",
            remedy="give each a number of at least 1",
        )
    random = torch.Generator().manual_seed(seed)
    patterns = _patterns(shape, classes, random)
    train = _examples(patterns, examples, random)
    test = _examples(patterns, max(1, examples // _TRAIN_TO_TEST), random)
    return DataSet(name, classes, 255, train, test)


def _patterns(shape: tuple[int, int, int], classes: int, random: torch.Generator) -> torch.Tensor:
    channels, height, width = shape
    coarse = torch.randint(0, 256, (classes, channels, _COARSE, _COARSE), generator=random)
    rows = torch.arange(height) * _COARSE // height
    columns = torch.arange(width) * _COARSE // width
    return coarse[:, :, rows][:, :, :, columns].to(torch.uint8)


def _examples(patterns: torch.Tensor, count: int, random: torch.Generator) -> Examples:
    labels = torch.randint(0, len(patterns), (count,), generator=random)
    images = torch.empty((count, *patterns.shape[1:]), dtype=torch.uint8)
    # One by one: all of them as floats would take four times the memory that stays.
    for row, label in enumerate(labels.tolist()):
        noise = torch.randint(0, 256, patterns.shape[1:], generator=random)
        mixed = patterns[label] * _PATTERN_SHARE + noise * (1 - _PATTERN_SHARE)
        images[row] = mixed.to(torch.uint8)
    return Examples(images, labels)
