"""How large data sets are in memory, without reading or making them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgebench.workloads.training.data.synthetic import TRAIN_TO_TEST
from edgebench.workloads.training.names import DATA_SHAPES, SYNTHETIC

#: Real data set → images to train and to test on. All images are bytes.
_REAL = {
    "digits": (1500, 297),
    "mnist": (60_000, 10_000),
    "fashion-mnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
}
#: Synthetic examples where the settings have no number of them; of a larger batch, as many.
_EXAMPLES = 256


def data_bytes(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of the images that a training holds: to train on, and to test on."""
    name = settings["data"]
    shape = DATA_SHAPES.get(name) or tuple(map(int, settings["shape"].split("x")))
    if name.startswith(SYNTHETIC):
        train = settings.get("examples") or max(_EXAMPLES, settings["batch"])
        counts = train, max(1, train // TRAIN_TO_TEST)
    else:
        counts = _REAL[name]
    return counts[0] * math.prod(shape), counts[1] * math.prod(shape)
