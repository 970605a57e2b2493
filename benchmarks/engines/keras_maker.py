"""Write an ONNX network of convolutions and matrix products as a Keras file, weights and all.

The same network for TensorFlow, made without it: a Keras file is an archive of a description and of
weights in HDF5. It knows the operators that torch's export leaves of a classifier (``OPERATORS``),
batch normalisation being folded into convolutions; any other is refused by name.

    python -m benchmarks.engines.keras_maker resnet18.onnx resnet18.keras

Pictures are NHWC in TensorFlow: the file's input is the ONNX input with its axes moved.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
from onnx import numpy_helper

#: NCHW → NHWC; and back, of one picture.
_LAST, _FIRST = (0, 2, 3, 1), (3, 1, 2)
_VERSION = "3.10.0"


class KerasWriter:
    """Builds the description and the weights of one Keras graph."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.layers: list[dict[str, Any]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._name, self._weights = name, io.BytesIO()
        self._stored = h5py.File(self._weights, "w")
        self._seen: Counter[str] = Counter()
        self.input = "x"
        config = {"batch_shape": list(shape), "dtype": "float32", "name": "x"}
        self._add("InputLayer", config, [], {})
        self.shapes["x"] = tuple(shape)

    def layer(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: Sequence[int],
        weights: Sequence[np.ndarray] = (),
        **config: Any,
    ) -> str:
        """A layer of that class that makes a tensor of that shape; its name."""
        name = f"{_snake_case(kind)}_{len(self.layers)}"
        tensors = [self._tensor(one) for one in inputs]
        given = tensors if len(tensors) > 1 else tensors[0]
        shapes = [list(self.shapes[one]) for one in inputs]
        self._add(
            kind,
            {"name": name, **config},
            [{"args": [given], "kwargs": {}}],
            {"build_config": {"input_shape": shapes if len(shapes) > 1 else shapes[0]}},
            weights,
        )
        self.shapes[name] = tuple(shape)
        return name

    def file(self, output: str) -> bytes:
        """The whole file."""
        self._stored.close()
        config = {
            "name": self._name,
            "layers": self.layers,
            "input_layers": [[self.input, 0, 0]],
            "output_layers": [[output, 0, 0]],
        }
        about = {"module": "keras.src.models.functional", "class_name": "Functional"}
        whole = {**about, "config": config, "registered_name": "Functional"}
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("metadata.json", json.dumps({"keras_version": _VERSION}))
            archive.writestr("config.json", json.dumps(whole))
            archive.writestr("model.weights.h5", self._weights.getvalue())
        return made.getvalue()

    def _tensor(self, name: str) -> dict[str, Any]:
        config = {"shape": list(self.shapes[name]), "dtype": "float32"}
        return {
            "class_name": "__keras_tensor__",
            "config": {**config, "keras_history": [name, 0, 0]},
        }

    def _add(
        self,
        kind: str,
        config: dict[str, Any],
        calls: list[Any],
        built: dict[str, Any],
        weights: Sequence[np.ndarray] = (),
    ) -> None:
        about = {"module": "keras.layers", "class_name": kind, "registered_name": None}
        ends = {"name": config["name"], "inbound_nodes": calls}
        self.layers.append({**about, "config": config, **built, **ends})
        short = _snake_case(kind)
        place = f"layers/{short}_{self._seen[short]}" if self._seen[short] else f"layers/{short}"
        self._seen[short] += 1
        group = self._stored.create_group(f"{place}/vars")
        for number, values in enumerate(weights):
            group.create_dataset(str(number), data=np.ascontiguousarray(values, np.float32))


class _Converter:
    """Converts one ONNX graph; ``places`` holds each ONNX tensor's layer, pictures in NHWC."""

    def __init__(self, model: Any) -> None:
        self.graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        values = (*self.graph.value_info, *self.graph.input, *self.graph.output)
        self.shapes = {
            one.name: tuple(d.dim_value for d in one.type.tensor_type.shape.dim) for one in values
        }
        given = next(one.name for one in self.graph.input if one.name not in self.weights)
        self.writer = KerasWriter(self.graph.name or "network", self.laid_out(given))
        self.places = {given: self.writer.input}

    def convert(self) -> bytes:
        for node in self.graph.node:
            if node.op_type == "Constant":
                values = next(a.t for a in node.attribute if a.name == "value")
                self.weights[node.output[0]] = numpy_helper.to_array(values)
            else:
                OPERATORS.get(node.op_type, _unknown)(self, node)
        return self.writer.file(self.places[self.graph.output[0].name])

    def laid_out(self, name: str) -> tuple[int, ...]:
        shape = self.shapes[name]
        return tuple(shape[axis] for axis in _LAST) if len(shape) == 4 else shape

    def add(self, node: Any, kind: str, weights: Sequence[np.ndarray] = (), **config: Any) -> None:
        """A layer for this node, which reads its computed inputs."""
        inputs = [self.places[name] for name in node.input if name in self.places]
        self.add_after(node, inputs, kind, weights, **config)

    def add_after(
        self,
        node: Any,
        inputs: Sequence[str],
        kind: str,
        weights: Sequence[np.ndarray] = (),
        **config: Any,
    ) -> None:
        """The same, after the layers of these names."""
        shape = self.laid_out(node.output[0])
        self.places[node.output[0]] = self.writer.layer(kind, inputs, shape, weights, **config)

    def padded(self, name: str, pads: list[int]) -> str:
        """The layer that gives the tensor with zeros around its pictures."""
        place = self.places[name]
        if not any(pads):
            return place
        top, left, bottom, right = pads
        batch, high, wide, channels = self.laid_out(name)
        shape = (batch, high + top + bottom, wide + left + right, channels)
        sides = [[top, bottom], [left, right]]
        return self.writer.layer("ZeroPadding2D", [place], shape, padding=sides)


def _snake_case(kind: str) -> str:
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _unknown(converter: _Converter, node: Any) -> None:
    raise SystemExit(f"no Keras layer is known here for ONNX's {node.op_type} ({node.name})")


def _bias(converter: _Converter, node: Any, size: int) -> np.ndarray:
    return converter.weights[node.input[2]] if len(node.input) > 2 else np.zeros(size)


def _convolution(converter: _Converter, node: Any) -> None:
    about, weights = _attributes(node), converter.weights[node.input[1]]
    depthwise = about.get("group", 1) > 1
    if depthwise and about["group"] != weights.shape[0]:
        raise SystemExit(f"{node.name}: grouped convolutions are not known here")
    pads = list(about.get("pads", (0, 0, 0, 0)))
    same = any(pads) and converter.shapes[node.input[0]][2:] == converter.shapes[node.output[0]][2:]
    # TensorFlow pads by itself where the output is as large as the input, and all around alike.
    image = converter.places[node.input[0]] if same else converter.padded(node.input[0], pads)
    sizes = {"kernel_size": list(weights.shape[2:]), "padding": "same" if same else "valid"}
    steps = {
        "strides": list(about.get("strides", (1, 1))),
        "dilation_rate": list(about.get("dilations", (1, 1))),
    }
    bias = _bias(converter, node, len(weights))
    if depthwise:
        kernel = weights.transpose(2, 3, 0, 1)
        converter.add_after(node, [image], "DepthwiseConv2D", [kernel, bias], **sizes, **steps)
    else:
        kernel = weights.transpose(2, 3, 1, 0)
        filters = {"filters": len(weights)}
        converter.add_after(node, [image], "Conv2D", [kernel, bias], **filters, **sizes, **steps)


def _clip(converter: _Converter, node: Any) -> None:
    low, high = (float(converter.weights[name].item()) for name in node.input[1:])
    if low != 0.0:
        raise SystemExit(f"{node.name}: only a clip from 0 is known here")
    converter.add(node, "ReLU", max_value=high)


def _pooling(converter: _Converter, node: Any) -> None:
    """Zeros pad it, so what it reads must be the result of a ReLU; a classifier's is."""
    about = _attributes(node)
    image = converter.padded(node.input[0], list(about.get("pads", (0, 0, 0, 0))))
    steps = {"pool_size": list(about["kernel_shape"]), "strides": list(about["strides"])}
    converter.add_after(node, [image], "MaxPooling2D", padding="valid", **steps)


def _mean(converter: _Converter, node: Any) -> None:
    keeps = bool(_attributes(node).get("keepdims", 1))
    converter.add(node, "GlobalAveragePooling2D", keepdims=keeps)


def _flattening(converter: _Converter, node: Any) -> None:
    """NCHW's order, in which the matrix product after it has its weights."""
    name = node.input[0]
    place, shape = converter.places[name], converter.shapes[name]
    if len(shape) == 4 and max(shape[2:]) > 1:
        place = converter.writer.layer("Permute", [place], shape, dims=list(_FIRST))
    converter.add_after(node, [place], "Flatten")


def _product(converter: _Converter, node: Any) -> None:
    kernel = converter.weights[node.input[1]]
    if _attributes(node).get("transB", 0):
        kernel = kernel.T
    units = kernel.shape[1]
    converter.add(node, "Dense", [kernel, _bias(converter, node, units)], units=units)


OPERATORS: dict[str, Callable[[_Converter, Any], None]] = {
    "Add": lambda converter, node: converter.add(node, "Add"),
    "Clip": _clip,
    "Conv": _convolution,
    "Flatten": _flattening,
    "Gemm": _product,
    "GlobalAveragePool": _mean,
    "MaxPool": _pooling,
    "ReduceMean": _mean,
    "Relu": lambda converter, node: converter.add(node, "ReLU"),
    "Reshape": _flattening,
}


def keras_of(model: Any) -> bytes:
    """The Keras file of an ``onnx.ModelProto``."""
    return _Converter(model).convert()


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(keras_of(onnx.load(sys.argv[1])))
