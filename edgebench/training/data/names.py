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


def _idx(folder: str) -> tuple[str, ...]:
    kinds = ("images-idx3", "labels-idx1")
    names = (f"{part}-{what}" for part in ("train", "t10k") for what in kinds)
    return tuple(f"{folder}/raw/{name}-ubyte" for name in names)


_CIFAR = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
#: Those that are files of a person's own → these files, as torchvision lays them in a folder.
VISION_FILES = {
    "mnist": _idx("MNIST"),
    "fashion-mnist": _idx("FashionMNIST"),
    "cifar10": tuple(f"cifar-10-batches-py/{name}" for name in _CIFAR),
}
FROM_FOLDER = tuple(VISION_FILES)
