"""Names of what trainings are made of, and which settings name code of the user's own.

No torch is imported. As in Agarwal et al., "Performance Analysis of Machine Learning Model Training
on Low Power Devices", a part that is drawn by chance is drawn again at each step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgebench.layers.names import NETWORKS
from edgebench.layers.references import ModelReference, OwnFunction

PYTORCH, TENSORFLOW = "pytorch", "tensorflow"
#: Framework → the module that is its backend, imported when a training needs it.
BACKENDS = {
    PYTORCH: "edgebench.workloads.training.pytorch",
    TENSORFLOW: "edgebench.workloads.training.tensorflow",
}
#: Framework → the module that its worker imports; each brings numpy as well.
LIBRARIES = {PYTORCH: "torch", TENSORFLOW: "tensorflow"}
FRAMEWORKS = tuple(BACKENDS)
#: Frameworks as tables and figures name them.
TITLES = {PYTORCH: "PyTorch", TENSORFLOW: "TensorFlow"}
MLP, BASIC_CNN, ALEXNET = "mlp", "basic_cnn", "alexnet"
#: Built without torchvision, for images of any shape.
OWN = (MLP, BASIC_CNN)
#: Networks for training alone, and all that inference knows.
TRAINED = (*OWN, *NETWORKS)
#: What TensorFlow trains: the study that compares it with PyTorch has these two.
IN_TENSORFLOW = (BASIC_CNN, ALEXNET)
#: The images a network was made for, as a scenario writes them; of all others :data:`USUAL_SHAPE`.
SHAPES = {
    **dict.fromkeys((*OWN, "lenet"), "1x28x28"),
    "inception_v3": "3x299x299",
}
USUAL_SHAPE = "3x224x224"
ACTIVATIONS = ("relu", "tanh", "sigmoid")
OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad")
PRECISIONS = ("float32", "bfloat16")
#: The part of the last update that ``momentum`` makes again.
MOMENTUM = 0.9
#: Where parameters come from, unless a checkpoint is named: the seed.
SCRATCH = "scratch"
#: The phase of a step that is compiled into one graph: forward, backward and update.
GRAPH = "graph"

SYNTHETIC = "synthetic"
#: Real data sets → channels, height and width of an image.
_REAL = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
}
#: Data set → shape of one image. ``synthetic`` alone has whatever shape it is given.
DATA_SHAPES = {**_REAL, **{f"{SYNTHETIC}-{name}": shape for name, shape in _REAL.items()}}
DATA_SETS = (*DATA_SHAPES, SYNTHETIC)


def _idx(folder: str) -> tuple[str, ...]:
    kinds = ("images-idx3", "labels-idx1")
    names = (f"{part}-{what}" for part in ("train", "t10k") for what in kinds)
    return tuple(f"{folder}/raw/{name}-ubyte" for name in names)


_CIFAR = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
#: Data sets read from the user's folder → their files, as torchvision lays them out there.
VISION_FILES = {
    "mnist": _idx("MNIST"),
    "fashion-mnist": _idx("FashionMNIST"),
    "cifar10": tuple(f"cifar-10-batches-py/{name}" for name in _CIFAR),
}
FROM_FOLDER = tuple(VISION_FILES)
#: Data set → the modules beside numpy that it is made or read with.
LIBRARIES_OF_DATA = dict.fromkeys(FROM_FOLDER, ("torchvision",))


#: What may be trained; the last two with a share, as ``layers 40%``.
WHOLE, NOTHING, LAST, LAYERS, FILTERS = "all", "none", "last", "layers", "filters"
_SHARED = re.compile(rf"({LAYERS}|{FILTERS}) (\d+(?:\.\d+)?)%")


@dataclass(frozen=True)
class TrainedPart:
    """Which part: one of the words above, and of layers or filters how large a share."""

    kind: str
    share: float = 1.0


def parse_part(text: str) -> TrainedPart:
    """Parse ``all``, ``none``, ``last``, ``layers 40%`` or ``filters 40%``.

    Raises:
        ValueError: it is none of these; says how to write it.
    """
    if text in (WHOLE, NOTHING, LAST):
        return TrainedPart(text)
    match = _SHARED.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is no part of a network; "
            'write "all", "none", "last", "layers 40%" or "filters 40%"'
        )
    share = float(match[2]) / 100
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is no share; give more than 0 % and at most 100 %")
    return TrainedPart(match[1], share)


def checked_part(text: str) -> str:
    """Return the text itself, if it names a part.

    Raises:
        ValueError: as :func:`parse_part`.
    """
    parse_part(text)
    return text


NETWORK, LOSS, DATA = "network", "loss", "data"
#: What a loss is called with, by position.
LOSS_ARGUMENTS = ("outputs", "targets")
LOSS_HOW = (
    "name a function of outputs and targets that returns the mean loss of the batch: "
    'loss = "file.py:function"'
)
DATA_HOW = (
    "name a function that returns NumPy arrays, (inputs, targets) or "
    '(inputs, targets, test inputs, test targets): data = "file.py:function"'
)


def own_reference(settings: Mapping[str, Any], key: str) -> ModelReference | None:
    """Return what the user named as network, loss or data, if it is code of their own."""
    reference = settings.get("references", {}).get(settings.get(key))
    return ModelReference.from_json(reference) if reference else None


def own_loss(settings: Mapping[str, Any]) -> OwnFunction | None:
    """Return the user's loss, if there is one."""
    reference = own_reference(settings, LOSS)
    return OwnFunction(reference, LOSS_HOW, LOSS_ARGUMENTS) if reference else None


def own_data(settings: Mapping[str, Any]) -> OwnFunction | None:
    """Return the user's function that returns the data, if there is one."""
    reference = own_reference(settings, DATA)
    return OwnFunction(reference, DATA_HOW) if reference else None
