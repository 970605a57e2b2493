"""The networks that are trained, for images of any shape where the network allows it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from edgebench.errors import WorkloadError
from edgebench.layers.known_networks import LeNet, MobileNetV1, import_torchvision
from edgebench.layers.names import NETWORKS
from edgebench.workloads.training.backend import Problem, Settings
from edgebench.workloads.training.names import BASIC_CNN, LSTM, MLP, OWN

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
#: LeNet's two poolings leave nothing of less.
_LEAST_LENET = 12
#: What these return beside their scores, they return only when they are told to.
_WITH_AUX = ("googlenet", "inception_v3")


class Lstm(nn.Module):
    """Stacked LSTM layers that read an image row by row; the last row's state is classified."""

    def __init__(self, problem: Problem, width: int, depth: int) -> None:
        super().__init__()
        channels, _, columns = problem.shape
        self.lstm = nn.LSTM(channels * columns, width, depth, batch_first=True)
        self.classifier = nn.Linear(width, problem.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores of a batch."""
        rows, _ = self.lstm(x.transpose(1, 2).flatten(2))
        scores: torch.Tensor = self.classifier(rows[:, -1])
        return scores


def build_network(settings: Settings, problem: Problem) -> nn.Module:
    """Build the network with as many classes as the problem has; torch's generator draws it.

    Raises:
        WorkloadError: there is none for images of that shape.
    """
    name = settings["network"]
    if name == MLP:
        width, activation = settings["width"], ACTIVATIONS[settings["activation"]]
        sizes = [math.prod(problem.shape), *[width] * settings["depth"]]
        layers: list[nn.Module] = [nn.Flatten()]
        for inward, outward in pairwise(sizes):
            layers += [nn.Linear(inward, outward), activation()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], problem.classes))
    if name == LSTM:
        return Lstm(problem, settings["width"], settings["depth"])
    if name == BASIC_CNN:
        return _basic_cnn(problem)
    if name == "lenet":
        return _lenet(problem)
    if problem.shape[0] not in (1, 3):
        raise WorkloadError(
            f"{name} reads images of 3 colours, or grey ones, not of {problem.shape[0]} channels",
            remedy="take another data set or shape; mlp, lenet, basic_cnn and lstm read any",
        )
    if name == "mobilenet_v1":
        return MobileNetV1(problem.classes)
    if name not in NETWORKS:
        raise WorkloadError(f"{name} is not a network that edgebench knows by name")
    options = {"aux_logits": False, "init_weights": True} if name in _WITH_AUX else {}
    model: nn.Module = import_torchvision().get_model(
        name, weights=None, num_classes=problem.classes, **options
    )
    return model


def channels_read(name: str, problem: Problem) -> int:
    """Return how many channels the network reads: some read a grey image as three colours."""
    return problem.shape[0] if name in (*OWN, "lenet") else 3


def _basic_cnn(problem: Problem) -> nn.Sequential:
    """Two convolutions with pooling and two fully connected layers."""
    channels, rows, columns = problem.shape
    if min(rows, columns) < 4:
        raise _too_small(BASIC_CNN, 4, problem)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (rows // 4) * (columns // 4), 128),
        nn.ReLU(),
        nn.Linear(128, problem.classes),
    )


def _lenet(problem: Problem) -> LeNet:
    """LeNet-5; for other images than 1 x 28 x 28 its ends are made to fit them."""
    channels, rows, columns = problem.shape
    if min(rows, columns) < _LEAST_LENET:
        raise _too_small("lenet", _LEAST_LENET, problem)
    network = LeNet(problem.classes)
    if channels != 1:
        network.features[0] = nn.Conv2d(channels, 6, 5, padding=2)
    if (rows, columns) != (28, 28):
        left = [(side // 2 - 4) // 2 for side in (rows, columns)]
        network.classifier[0] = nn.Linear(16 * left[0] * left[1], 120)
    return network


def _too_small(name: str, least: int, problem: Problem) -> WorkloadError:
    _, rows, columns = problem.shape
    return WorkloadError(
        f"{name} needs images of {least} x {least} pixels or more; these have {rows} x {columns}",
        remedy="widen them: image = 28",
    )


def checkpoint_blocks(network: nn.Module) -> None:
    """Checkpoint the network's outermost blocks, in place.

    A chain of leaves is cut into √n segments, of which the last is kept as it is. Layers that
    write over their input no longer do: a block's input must stay as it was.
    """
    for module in network.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010 - mypy knows no such attribute
    _checkpoint(network)


def _checkpoint(network: nn.Module) -> None:
    if isinstance(network, nn.Sequential) and all(map(_leaf, network)):
        segments = round(math.sqrt(len(network)))
        if segments > 1:
            # A chain of its own: the network's would call itself.
            layers = nn.Sequential(*network)
            again = functools.partial(checkpoint_sequential, layers, segments, use_reentrant=False)
            network.forward = again  # type: ignore[method-assign]
        return
    for child in network.children():
        if isinstance(child, nn.Sequential):
            _checkpoint(child)
        elif not _leaf(child):
            child.forward = functools.partial(checkpoint, child.forward, use_reentrant=False)


def _leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None
