"""PyTorch's networks in Keras: the same layers and sizes, first parameters of the same kind.

Images are batch x height x width x channels, the only order in which TensorFlow convolves on a
CPU. So the first linear layer reads its inputs in another order; the number of parameters is equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from edgebench.errors import WorkloadError
from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.names import ALEXNET, BASIC_CNN

#: AlexNet's convolutions end in so many rows and columns, whatever the image.
_POOLED = 6


def keras_network(name: str, problem: Problem) -> Any:
    """The network with as many classes as the problem has; Keras's generator draws it.

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
    """How many channels the network reads: AlexNet reads a grey image as three equal colours."""
    return 3 if name == ALEXNET else problem.shape[0]


def _basic_cnn(problem: Problem) -> list[Any]:
    """Two convolutions with pooling and two fully connected layers."""
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
    """Torchvision's AlexNet."""
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
    """A matrix that takes :data:`_POOLED` means over parts of ``size`` numbers."""
    made = np.zeros((_POOLED, size), np.float32)
    for part in range(_POOLED):
        first, end = part * size // _POOLED, -(-(part + 1) * size // _POOLED)
        made[part, first:end] = 1 / (end - first)
    return made
