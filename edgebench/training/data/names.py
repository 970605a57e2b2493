"""The data sets' names and shapes, without torch: what a scenario is checked against."""

from __future__ import annotations

SYNTHETIC = "synthetic"
#: Real ones → channels, height and width of an image.
_REAL = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
}
#: Name → shape of one image. ``synthetic`` alone has whatever shape it is given.
SHAPES = {**_REAL, **{f"{SYNTHETIC}-{name}": shape for name, shape in _REAL.items()}}
DATA_SETS = (*SHAPES, SYNTHETIC)
#: Real ones that are files of a person's own.
FROM_FOLDER = ("mnist", "fashion-mnist", "cifar10")
