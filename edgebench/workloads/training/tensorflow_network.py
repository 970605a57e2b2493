"""A TensorFlow network under training, operation by operation or as one graph.

The networks are PyTorch's: the same layers and sizes, first parameters of the same kind. Images are
batch x height x width x channels, the only order in which TensorFlow convolves on a CPU. So the
first linear layer reads its inputs in another order; the number of parameters is equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from edgebench.errors import WorkloadError
from edgebench.workloads.training.loop import (
    CountOfRight,
    Images,
    Labels,
    Problem,
    Settings,
    counted_later,
)
from edgebench.workloads.training.names import ALEXNET, BASIC_CNN, MOMENTUM

#: AlexNet's convolutions end in so many rows and columns, whatever the image.
_POOLED = 6


def keras_network(name: str, problem: Problem) -> Any:
    """Build the network with as many classes as the problem has; Keras's generator draws it.

    Raises:
        WorkloadError: there is none for images of that shape.
    """
    _, rows, columns = problem.shape
    image = keras.Input((rows, columns, keras_channels(name, problem)))
    try:
        return keras.Sequential([image, *_LAYERS[name](problem)], name=name)
    except ValueError as error:
        # Keras words it over several lines.
        says = str(error).splitlines()[0]
        raise WorkloadError(
            f"{name} can't be built for images of {rows} x {columns} pixels: {says}",
            remedy="give it larger ones, as image = 224",
        ) from None


def keras_channels(name: str, problem: Problem) -> int:
    """Return how many channels the network reads: AlexNet reads grey as three equal colours."""
    return 3 if name == ALEXNET else problem.shape[0]


def _basic_cnn(problem: Problem) -> list[Any]:
    channels, rows, columns = problem.shape
    return [
        _convolution(channels, 32, 3),
        layers.ReLU(),
        layers.MaxPooling2D(2),
        _convolution(32, 64, 3),
        layers.ReLU(),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        _linear(64 * (rows // 4) * (columns // 4), 128),
        layers.ReLU(),
        _linear(128, problem.classes),
    ]


def _alexnet(problem: Problem) -> list[Any]:
    return [
        # "same" would pad otherwise where the stride is above 1.
        layers.ZeroPadding2D(2),
        _convolution(3, 64, 11, strides=4, padding="valid"),
        layers.ReLU(),
        layers.MaxPooling2D(3, 2),
        _convolution(64, 192, 5),
        layers.ReLU(),
        layers.MaxPooling2D(3, 2),
        _convolution(192, 384, 3),
        layers.ReLU(),
        _convolution(384, 256, 3),
        layers.ReLU(),
        _convolution(256, 256, 3),
        layers.ReLU(),
        layers.MaxPooling2D(3, 2),
        layers.Lambda(_pooled, output_shape=(_POOLED, _POOLED, 256)),
        layers.Flatten(),
        layers.Dropout(0.5),
        _linear(256 * _POOLED**2, 4096),
        layers.ReLU(),
        layers.Dropout(0.5),
        _linear(4096, 4096),
        layers.ReLU(),
        _linear(4096, problem.classes),
    ]


_LAYERS: dict[str, Callable[[Problem], Sequence[Any]]] = {
    BASIC_CNN: _basic_cnn,
    ALEXNET: _alexnet,
}


def _convolution(inward: int, filters: int, kernel: int, **options: Any) -> Any:
    drawn = _drawn_within(inward * kernel**2)
    return layers.Conv2D(filters, kernel, **{"padding": "same", **drawn, **options})


def _linear(inward: int, outward: int) -> Any:
    return layers.Dense(outward, **_drawn_within(inward))


def _drawn_within(fan_in: int) -> dict[str, Any]:
    """Parameters uniform within 1/√inputs, as torch draws them."""
    most = 1 / math.sqrt(fan_in)
    draw = partial(keras.initializers.RandomUniform, -most, most)
    return {"kernel_initializer": draw(), "bias_initializer": draw()}


def _pooled(images: Any) -> Any:
    """Means over parts of the image, as torch's adaptive pooling takes them."""
    rows, columns = images.shape[1:3]
    if (rows, columns) == (_POOLED, _POOLED):
        return images
    down = tf.einsum("or,brcn->bocn", _means(rows), images)
    return tf.einsum("oc,brcn->bron", _means(columns), down)


def _means(size: int) -> Any:
    """Make a matrix that takes :data:`_POOLED` means over parts of ``size`` numbers."""
    matrix = np.zeros((_POOLED, size), np.float32)
    for part in range(_POOLED):
        first, end = part * size // _POOLED, -(-(part + 1) * size // _POOLED)
        matrix[part, first:end] = 1 / (end - first)
    return matrix


class TensorflowBatch(NamedTuple):
    """Images as numbers, examples x height x width x channels, and their labels."""

    images: Any
    labels: Any


class TensorflowResult(NamedTuple):
    """What a forward pass came to; the tape holds its activations until it goes backward."""

    tape: tf.GradientTape
    loss: Any
    scores: Any
    labels: Any


class TensorflowNetwork:
    """As :class:`edgebench.workloads.training.loop.TrainedNetwork` says.

    Each operation is executed as Python calls it, so that a step's phases can be told apart.
    ``network`` and ``optimizer`` are Keras's own.
    """

    def __init__(self, network: Any, settings: Settings, problem: Problem) -> None:
        self.network = network
        self._problem = problem
        self._channels = keras_channels(settings["network"], problem)
        self.optimizer = keras_optimizer(settings["optimizer"], settings["learning_rate"])
        self.optimizer.build(network.trainable_variables)
        self._gradients: list[Any] = []

    def batch(self, images: Images, labels: Labels) -> TensorflowBatch:
        """Convert bytes to numbers of 0 … 1, the channels last."""
        count, _, rows, columns = images.shape
        colours = np.broadcast_to(images, (count, self._channels, rows, columns))
        # One pass: a batch never stands in memory twice as numbers.
        numbers = np.divide(
            colours.transpose(0, 2, 3, 1), self._problem.brightest, dtype=np.float32, order="C"
        )
        return TensorflowBatch(tf.convert_to_tensor(numbers), tf.convert_to_tensor(labels))

    def begin(self, step: int) -> None:
        """Do nothing: nothing is drawn."""

    def forward(self, batch: TensorflowBatch, share: float) -> TensorflowResult:
        """Compute the cross-entropy of the softmax."""
        with tf.GradientTape() as tape:
            scores = self.network(batch.images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.labels, scores)
            loss = tf.reduce_mean(losses) * share
        return TensorflowResult(tape, loss, scores, batch.labels)

    def backward(self, result: TensorflowResult) -> None:
        """Run the tape's pass."""
        gradients = result.tape.gradient(result.loss, self.network.trainable_variables)
        if self._gradients:
            gradients = [known + new for known, new in zip(self._gradients, gradients, strict=True)]
        self._gradients = gradients

    def loss_and_count(self, result: TensorflowResult) -> tuple[float, CountOfRight]:
        """Return the loss as a Python number; small scores are kept for the count."""
        scores, labels = result.scores, result.labels
        count = counted_later(lambda: int(_right(scores, labels)), _bytes([scores]))
        return float(result.loss), count

    def step(self) -> None:
        """Update by the optimizer; gradients are freed."""
        self.optimizer.apply(self._gradients, self.network.trainable_variables)
        self._gradients = []

    def correct(self, batch: TensorflowBatch) -> int:
        """Evaluate as in use: no dropout, no tape."""
        return int(_right(self.network(batch.images, training=False), batch.labels))

    def held_bytes(self) -> dict[str, int]:
        """Add up its tensors; the optimizer's counters are not in them."""
        kept = [value for value in self.optimizer.variables if len(value.shape)]
        return {
            "parameters": _bytes(self.network.weights),
            "gradients": _bytes(self._gradients),
            "optimizer": _bytes(kept),
        }


class CompiledTensorflowNetwork(TensorflowNetwork):
    """As :class:`edgebench.workloads.training.loop.CompiledNetwork` says."""

    def __init__(self, network: Any, settings: Settings, problem: Problem) -> None:
        super().__init__(network, settings, problem)
        # Dropout's draws and the update are part of the graph, too.
        # Nothing in it depends on data; autograph would leave its code in /tmp.
        self._graph = tf.function(self._whole_step, autograph=False)

    def train(self, batch: TensorflowBatch) -> tuple[float, int]:
        """Execute the graph; the first call makes it."""
        loss, right = self._graph(*batch)
        return float(loss), int(right)

    def held_bytes(self) -> dict[str, int]:
        """Leave gradients out, which are there only while the graph executes."""
        held = super().held_bytes()
        del held["gradients"]
        return held

    def _whole_step(self, images: Any, labels: Any) -> tuple[Any, Any]:
        result = self.forward(TensorflowBatch(images, labels), 1.0)
        gradients = result.tape.gradient(result.loss, self.network.trainable_variables)
        self.optimizer.apply(gradients, self.network.trainable_variables)
        return result.loss, _right(result.scores, result.labels)


def keras_optimizer(name: str, rate: float) -> Any:
    """Make Keras's optimizer with torch's constants."""
    if name == "adam":
        return keras.optimizers.Adam(rate, epsilon=1e-8)
    if name == "adagrad":
        return keras.optimizers.Adagrad(rate, initial_accumulator_value=0.0, epsilon=1e-10)
    return keras.optimizers.SGD(rate, momentum=MOMENTUM if name == "momentum" else 0.0)


def _right(scores: Any, labels: Any) -> Any:
    return tf.math.count_nonzero(tf.equal(tf.argmax(scores, 1), labels))


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(int(np.prod(tensor.shape)) * tf.as_dtype(tensor.dtype).size for tensor in tensors)


def build(settings: Settings, problem: Problem, recorder: object) -> TensorflowNetwork:
    """Build the network with its optimizer, equal for equal seeds.

    Raises:
        WorkloadError: the network can't be had for such images.
    """
    keras.utils.set_random_seed(settings["seed"])
    network = keras_network(settings["network"], problem)
    kind = CompiledTensorflowNetwork if settings["compiled"] else TensorflowNetwork
    return kind(network, settings, problem)
