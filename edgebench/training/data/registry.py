"""All data sets by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import WorkloadError
from edgebench.suggest import did_you_mean
from edgebench.training.data.dataset import DataSet
from edgebench.training.data.names import DATA_SETS, SHAPES, SYNTHETIC
from edgebench.training.data.synthetic import make_synthetic


@dataclass(frozen=True)
class DataRequest:
    """Which data set, and what it takes to have it.

    Args:
        name: one of :data:`~edgebench.training.data.names.DATA_SETS`.
        folder: where torchvision's files lie; None: nowhere.
        shape: channels, height, width of ``synthetic``; others have their own.
        classes: of synthetic ones.
        examples: how many synthetic images to train on.
        seed: of synthetic ones.
    """

    name: str
    folder: Path | None = None
    shape: tuple[int, int, int] | None = None
    classes: int = 10
    examples: int = 1024
    seed: int = 1


def load_data(request: DataRequest) -> DataSet:
    """The data set that is asked for, and never another one.

    Raises:
        WorkloadError: no such data set; its files are missing or corrupt; ``synthetic`` without a
            shape.
        MachineError: scikit-learn, which ``digits`` comes with, is not installed.
    """
    name = request.name
    if name not in DATA_SETS:
        guess = did_you_mean(name, DATA_SETS)
        hint = f"did you mean {guess!r}?" if guess else f"one of {', '.join(DATA_SETS)}"
        raise WorkloadError(f"no data set {name!r}", remedy=hint)
    if name == "digits":
        from edgebench.training.data.digits import load_digits

        return load_digits()
    if name.startswith(SYNTHETIC):
        return _synthetic(request)
    from edgebench.training.data.vision import load_vision

    if request.folder is None:
        raise WorkloadError(
            f"no folder to find the data set {name!r} in", remedy="name one: data_folder = …"
        )
    return load_vision(name, request.folder)


def _synthetic(request: DataRequest) -> DataSet:
    shape = SHAPES.get(request.name) or request.shape
    if shape is None:
        raise WorkloadError(
            "the data set 'synthetic' has no shape",
            remedy="give channels, height and width: shape = [3, 224, 224]",
        )
    return make_synthetic(request.name, shape, request.classes, request.examples, request.seed)
