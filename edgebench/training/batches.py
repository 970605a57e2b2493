"""Which examples each step trains on: drawn from the seed, the same under any limit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgebench.errors import WorkloadError

Rows = npt.NDArray[np.int64]


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


def widened(images: npt.NDArray[np.uint8], edge: int | None) -> npt.NDArray[np.uint8]:
    """Images brought to that edge by repeating (or leaving out) pixels; None leaves them."""
    height, width = images.shape[2:]
    if edge is None or (height, width) == (edge, edge):
        return images
    rows, columns = (np.arange(edge) * side // edge for side in (height, width))
    return images[:, :, rows[:, None], columns]
