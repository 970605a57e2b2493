"""A multilayer perceptron in NumPy: a second backend, small enough to be read at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.backend import Images, Labels, Problem, Settings
from edgebench.workloads.training.counting import CountOfRight, counted_later
from edgebench.workloads.training.names import MOMENTUM

Floats = npt.NDArray[Any]
#: Adam's and AdaGrad's constants, as torch has them.
_BETAS, _ADAM_EPSILON, _ADAGRAD_EPSILON = (0.9, 0.999), 1e-8, 1e-10


class NumpyBatch(NamedTuple):
    """Flat images as numbers of 0 … 1, and their labels."""

    images: Floats
    labels: Labels


class NumpyResult(NamedTuple):
    """A forward pass: what went into each layer, the scores' probabilities, the loss."""

    inputs: list[Floats]
    probabilities: Floats
    labels: Labels
    share: float
    loss: float


@dataclass
class DenseLayer:
    """A fully connected layer, its gradients, and what the optimizer keeps for each."""

    weight: Floats
    bias: Floats
    gradients: dict[str, Floats] = field(default_factory=dict)
    kept: dict[str, tuple[Floats, ...]] = field(default_factory=dict)

    def add(self, name: str, gradient: Floats) -> None:
        """Add to the gradient of ``weight`` or ``bias``."""
        known = self.gradients.get(name)
        self.gradients[name] = gradient if known is None else known + gradient


class _Activation(NamedTuple):
    value: Callable[[Floats], Floats]
    #: Its slope, from its value.
    slope: Callable[[Floats], Floats]


_ACTIVATIONS = {
    "relu": _Activation(lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(y.dtype)),
    "tanh": _Activation(np.tanh, lambda y: 1 - y * y),
    "sigmoid": _Activation(lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
}


def import_runtime(settings: Settings, recorder: Recorder) -> None:
    """NumPy is here already."""
    recorder.note(numpy=np.__version__)


def build(settings: Settings, problem: Problem, recorder: Recorder) -> NumpyMlp:
    """The network with its first parameters, uniform within 1/√inputs as torch draws them."""
    random = np.random.default_rng(settings["seed"])
    sizes = [math.prod(problem.shape), *[settings["width"]] * settings["depth"], problem.classes]
    layers = []
    for inward, outward in pairwise(sizes):
        most = 1 / math.sqrt(inward)
        drawn = random.uniform(-most, most, (inward + 1, outward)).astype(np.float32)
        layers.append(DenseLayer(drawn[:-1], drawn[-1]))
    return NumpyMlp(layers, settings, problem.brightest)


class NumpyMlp:
    """As :class:`edgebench.workloads.training.backend.TrainedNetwork` says."""

    def __init__(self, layers: list[DenseLayer], settings: Settings, brightest: int) -> None:
        self._layers = layers
        self._activation = _ACTIVATIONS[settings["activation"]]
        self._update = _UPDATES[settings["optimizer"]]
        self._rate = settings["learning_rate"]
        self._brightest = brightest
        self._updates = 0

    def batch(self, images: Images, labels: Labels) -> NumpyBatch:
        """Flat images."""
        numbers = images.reshape(len(images), -1).astype(np.float32)
        numbers /= self._brightest
        return NumpyBatch(numbers, labels)

    def begin(self, step: int) -> None:
        """Nothing is drawn."""

    def forward(self, batch: NumpyBatch, share: float) -> NumpyResult:
        """Cross-entropy of the softmax."""
        inputs = [batch.images]
        for layer in self._layers[:-1]:
            inputs.append(self._activation.value(inputs[-1] @ layer.weight + layer.bias))
        scores = inputs[-1] @ self._layers[-1].weight + self._layers[-1].bias
        shifted = np.exp(scores - scores.max(1, keepdims=True))
        probabilities = shifted / shifted.sum(1, keepdims=True)
        right = probabilities[np.arange(len(batch.labels)), batch.labels]
        with np.errstate(divide="ignore"):
            loss = float(-np.log(right).mean()) * share
        return NumpyResult(inputs, probabilities, batch.labels, share, loss)

    def backward(self, result: NumpyResult) -> None:
        """The chain rule, from the last layer to the first."""
        passed = result.probabilities.copy()
        passed[np.arange(len(passed)), result.labels] -= 1
        passed *= result.share / len(passed)
        for number in range(len(self._layers) - 1, -1, -1):
            layer, inward = self._layers[number], result.inputs[number]
            layer.add("weight", inward.T @ passed)
            layer.add("bias", passed.sum(0))
            if number:
                passed = (passed @ layer.weight.T) * self._activation.slope(inward)

    def loss_and_count(self, result: NumpyResult) -> tuple[float, CountOfRight]:
        """The loss; small probabilities are kept for the count."""
        scores, labels = result.probabilities, result.labels
        count = counted_later(lambda: int((scores.argmax(1) == labels).sum()), scores.nbytes)
        return result.loss, count

    def step(self) -> None:
        """The optimizer's rule, parameter by parameter."""
        self._updates += 1
        for layer in self._layers:
            for name, gradient in layer.gradients.items():
                kept = layer.kept.get(name) or (np.zeros_like(gradient),) * 2
                change, layer.kept[name] = self._update(gradient, kept, self._updates)
                setattr(layer, name, getattr(layer, name) - np.float32(self._rate) * change)
            layer.gradients = {}

    def correct(self, batch: NumpyBatch) -> int | None:
        """How many labels it gets right."""
        return self.loss_and_count(self.forward(batch, 1.0))[1]()

    def held_bytes(self) -> dict[str, int]:
        """Sums over its arrays."""
        return {
            "parameters": _bytes(a for layer in self._layers for a in (layer.weight, layer.bias)),
            "gradients": _bytes(g for layer in self._layers for g in layer.gradients.values()),
            "optimizer": _bytes(
                array for layer in self._layers for kept in layer.kept.values() for array in kept
            ),
        }


def _bytes(arrays: Iterator[Floats]) -> int:
    return sum(array.nbytes for array in arrays)


Kept = tuple[Floats, ...]
#: A rule: from the gradient, what was kept and the update's number to the change and what is kept.
Rule = Callable[[Floats, Kept, int], tuple[Floats, Kept]]


def _sgd(gradient: Floats, kept: Kept, update: int) -> tuple[Floats, Kept]:
    return gradient, ()


def _momentum(gradient: Floats, kept: Kept, update: int) -> tuple[Floats, Kept]:
    speed = np.float32(MOMENTUM) * kept[0] + gradient
    return speed, (speed,)


def _adagrad(gradient: Floats, kept: Kept, update: int) -> tuple[Floats, Kept]:
    squares = kept[0] + gradient * gradient
    return gradient / (np.sqrt(squares) + _ADAGRAD_EPSILON), (squares,)


def _adam(gradient: Floats, kept: Kept, update: int) -> tuple[Floats, Kept]:
    first, second = _BETAS
    mean = first * kept[0] + (1 - first) * gradient
    squares = second * kept[1] + (1 - second) * gradient * gradient
    spread = np.sqrt(squares / (1 - second**update)) + _ADAM_EPSILON
    return mean / (1 - first**update) / spread, (mean, squares)


_UPDATES: dict[str, Rule] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adagrad": _adagrad,
    "adam": _adam,
}
