"""All data sets by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.text import choice_hint
from edgebench.workloads.training.data.dataset import DataSet
from edgebench.workloads.training.data.synthetic import make_synthetic
from edgebench.workloads.training.names import DATA_SETS, DATA_SHAPES, SYNTHETIC


def describe_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the data set ``name`` in ``folder`` holds, read whole.

    Raises:
        WorkloadError: no such data set, or its files are missing or corrupt.
    """
    found = load_data(request["name"], Path(request["folder"]), shape=(3, 32, 32))
    sizes = {"train": len(found.train), "test": len(found.test), "classes": found.classes}
    return {"shape": list(found.shape), **sizes}


def load_data(
    name: str,
    folder: Path | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int = 10,
    examples: int = 1024,
    seed: int = 1,
) -> DataSet:
    """The data set of that name, and never another one.

    Args:
        name: one of :data:`~edgebench.workloads.training.names.DATA_SETS`.
        folder: where torchvision's files are; None: nowhere.
        shape: channels, height, width of ``synthetic``; others have their own.
        classes: of synthetic ones.
        examples: how many synthetic images to train on.
        seed: of synthetic ones.

    Raises:
        WorkloadError: no such data set; its files are missing or corrupt; ``synthetic`` without a
            shape.
        MachineError: scikit-learn, which ``digits`` comes with, is not installed.
    """
    if name not in DATA_SETS:
        raise WorkloadError(f"no data set {name!r}", remedy=choice_hint(name, DATA_SETS))
    if name == "digits":
        from edgebench.workloads.training.data.digits import load_digits

        return load_digits()
    if name.startswith(SYNTHETIC):
        return make_synthetic(name, DATA_SHAPES.get(name) or shape, classes, examples, seed)
    from edgebench.workloads.training.data.vision import load_vision

    if folder is None:
        raise WorkloadError(
            f"no folder to find the data set {name!r} in", remedy="name one: data_folder = …"
        )
    return load_vision(name, folder)
