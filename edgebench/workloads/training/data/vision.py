"""MNIST, Fashion-MNIST and CIFAR-10 by torchvision, from a folder; fetched only when asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from edgebench.errors import MachineError, WorkloadError
from edgebench.safe_files import make_folder, replaced
from edgebench.workloads.training.data.dataset import DataSet, Examples, checked
from edgebench.workloads.training.names import VISION_FILES

_CLASSES = 10


#: Name → what torchvision calls it.
_LOADERS = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10"}


def missing_files(name: str, folder: Path) -> list[Path]:
    """The files that the data set lacks in that folder."""
    return [path for file in VISION_FILES[name] if not (path := folder / file).is_file()]


def load_vision(name: str, folder: Path) -> DataSet:
    """The data set from its files in that folder.

    Raises:
        WorkloadError: a file is missing or corrupt; says how to get it.
    """
    missing = missing_files(name, folder)
    if missing:
        raise WorkloadError(
            f"the data set {name!r} is not there: no {missing[0].relative_to(folder)}",
            where=str(folder),
            remedy=f"edgebench data {name} --download --folder {folder}; or put its files there",
        )
    parts = [_read(name, folder, train=train) for train in (True, False)]
    return checked(DataSet(name, _CLASSES, 255, *parts), str(folder))


def download_vision(name: str, folder: Path) -> None:
    """Fetch the data set into that folder, as torchvision does it.

    Raises:
        MachineError: no network, no such server any more, or no room.
    """
    maker = _maker(name)
    try:
        # torchvision writes by name and follows links, so it gets a folder of its own.
        with TemporaryDirectory(prefix="edgebench-data-") as fetched:
            maker(root=fetched, train=True, download=True)
            _keep(Path(fetched), folder)
    except (OSError, RuntimeError) as error:
        raise MachineError(
            f"the data set {name!r} could not be fetched: {error}",
            where=str(folder),
            remedy="fix the network connection, or copy its files there: "
            + ", ".join(VISION_FILES[name][:2])
            + ", …",
        ) from error


def _keep(fetched: Path, folder: Path) -> None:
    """Copy all that was fetched to where it is kept."""
    make_folder(folder, parents=True)
    for path in sorted(fetched.rglob("*")):
        target = folder / path.relative_to(fetched)
        if path.is_dir():
            make_folder(target)
            continue
        with path.open("rb") as source, replaced(target) as kept:
            shutil.copyfileobj(source, kept)


def _read(name: str, folder: Path, *, train: bool) -> Examples:
    try:
        read = _maker(name)(root=str(folder), train=train, download=False)
        images = np.asarray(read.data)
        labels = np.asarray(read.targets, dtype=np.int64)
    except Exception as error:
        # Whatever a damaged file makes torchvision's parsers and pickle raise.
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise WorkloadError(
            f"the data set {name!r} is corrupt ({what})",
            where=str(folder),
            remedy=f"take its files away, then: edgebench data {name} --download --folder {folder}",
        ) from error
    # MNIST has no axis for channels; CIFAR-10's is the last.
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return Examples(np.ascontiguousarray(images), labels)


def _maker(name: str) -> Callable[..., Any]:
    from edgebench.layers.known_networks import import_torchvision

    import_torchvision()
    from torchvision import datasets

    maker: Callable[..., Any] = getattr(datasets, _LOADERS[name])
    return maker
