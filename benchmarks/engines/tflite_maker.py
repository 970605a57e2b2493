"""Write an ONNX network of convolutions and matrix products as a TFLite file, weights and all.

A light way to the same network in LiteRT: it needs onnx and ai-edge-litert and no TensorFlow. It
knows the operators that torch's export leaves of a classifier (``OPERATORS``), batch
normalisation being folded into convolutions; any other is refused by name.

    python -m benchmarks.engines.tflite_maker resnet18.onnx resnet18.tflite

Pictures are NHWC in TFLite: the file's input is the ONNX input with its axes moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import numpy_helper

_NONE, _RELU, _RELU6 = 0, 1, 3
_SAME, _VALID = 0, 1
_TYPES = {"float32": 0, "int32": 2}
#: NCHW → NHWC, and back.
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class TfliteWriter:
    """Builds one TFLite graph: tensors, constants, operators."""

    def __init__(self) -> None:
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self._buffers = [schema.BufferT()]
        self._codes: list[int] = []

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> int:
        """A tensor that is computed; its index."""
        return self._add(name, shape, dtype, 0)

    def constant(self, name: str, values: np.ndarray) -> int:
        """A tensor with these values; its index."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._buffers.append(buffer)
        return self._add(name, values.shape, values.dtype.name, len(self._buffers) - 1)

    def operator(self, kind: str, inputs: list[int], output: int, options: Any = None) -> None:
        """One operator, in the order of execution."""
        code = getattr(schema.BuiltinOperator, kind)
        if code not in self._codes:
            self._codes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self._codes.index(code), inputs, [output]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            made.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            made.builtinOptions = options
        self.graph.operators.append(made)

    def file(self, inputs: list[int], outputs: list[int]) -> bytes:
        """The whole file."""
        self.graph.inputs, self.graph.outputs = inputs, outputs
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [self.graph], self._buffers
        model.operatorCodes = []
        for code in self._codes:
            entry = schema.OperatorCodeT()
            entry.builtinCode = entry.deprecatedBuiltinCode = code
            entry.version = 1
            model.operatorCodes.append(entry)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _add(self, name: str, shape: tuple[int, ...], dtype: str, buffer: int) -> int:
        made = schema.TensorT()
        made.name, made.shape, made.type = name, list(shape), _TYPES[dtype]
        made.buffer = buffer
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1


class _Converter:
    """Converts one ONNX graph; ``places`` holds each ONNX tensor's index, pictures in NHWC."""

    def __init__(self, model: Any) -> None:
        self.graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        self.writer = TfliteWriter()
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        values = (*self.graph.value_info, *self.graph.input, *self.graph.output)
        self.shapes = {
            one.name: tuple(d.dim_value for d in one.type.tensor_type.shape.dim) for one in values
        }
        self.places: dict[str, int] = {}
        #: Tensors that no negative number is in: zeros may pad them before a maximum.
        self.positive: set[str] = set()
        self.done: set[str] = set()

    def convert(self) -> bytes:
        given = next(one.name for one in self.graph.input if one.name not in self.weights)
        self.places[given] = self.writer.tensor(given, self.laid_out(given))
        for node in self.graph.node:
            if node.op_type == "Constant":
                values = next(a.t for a in node.attribute if a.name == "value")
                self.weights[node.output[0]] = numpy_helper.to_array(values)
            elif node.output[0] not in self.done:
                OPERATORS.get(node.op_type, _unknown)(self, node)
        out = self.graph.output[0].name
        return self.writer.file([self.places[given]], [self.places[out]])

    def laid_out(self, name: str) -> tuple[int, ...]:
        shape = self.shapes[name]
        return tuple(shape[axis] for axis in _LAST) if len(shape) == 4 else shape

    def result(self, node: Any) -> tuple[int, int]:
        """The tensor to write to and the activation to fuse: of the next node if it is one."""
        name, fused = node.output[0], _NONE
        after = [one for one in self.graph.node if name in one.input]
        if len(after) == 1 and (kind := self.activation(after[0])):
            name, fused = after[0].output[0], kind
            self.done.add(name)
            self.positive.add(name)
        self.places[name] = self.writer.tensor(name, self.laid_out(name))
        return self.places[name], fused

    def activation(self, node: Any) -> int | None:
        if node.op_type == "Relu":
            return _RELU
        if node.op_type != "Clip":
            return None
        ends = [float(self.weights[name].item()) for name in node.input[1:]]
        return _RELU6 if ends == [0.0, 6.0] else None

    def padded(self, name: str, pads: list[int]) -> int:
        """The tensor with zeros around its pictures."""
        if not any(pads):
            return self.places[name]
        top, left, bottom, right = pads
        around = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        batch, high, wide, channels = self.laid_out(name)
        shape = (batch, high + top + bottom, wide + left + right, channels)
        made = self.writer.tensor(f"{name}_padded_{len(self.writer.graph.tensors)}", shape)
        sizes = self.writer.constant(f"{name}_pads_{made}", around)
        self.writer.operator("PAD", [self.places[name], sizes], made, schema.PadOptionsT())
        return made


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _unknown(converter: _Converter, node: Any) -> None:
    raise SystemExit(f"no TFLite operator is known here for ONNX's {node.op_type} ({node.name})")


def _convolution(converter: _Converter, node: Any) -> None:
    about, weights = _attributes(node), converter.weights[node.input[1]]
    depthwise = about.get("group", 1) > 1
    if depthwise and about["group"] != weights.shape[0]:
        raise SystemExit(f"{node.name}: grouped convolutions are not known here")
    kernel = weights.transpose(1, 2, 3, 0) if depthwise else weights.transpose(0, 2, 3, 1)
    bias = converter.weights[node.input[2]] if len(node.input) > 2 else np.zeros(len(weights))
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    if depthwise:
        options.depthMultiplier = 1
    options.strideH, options.strideW = about.get("strides", (1, 1))
    options.dilationHFactor, options.dilationWFactor = about.get("dilations", (1, 1))
    pads = list(about.get("pads", (0, 0, 0, 0)))
    inside = converter.shapes[node.input[0]][2:]
    # LiteRT pads by itself where the output is as large as the input, and all around alike.
    same = any(pads) and inside == converter.shapes[node.output[0]][2:]
    options.padding = _SAME if same else _VALID
    image = converter.places[node.input[0]] if same else converter.padded(node.input[0], pads)
    places = [
        converter.writer.constant(node.input[1], kernel.astype(np.float32)),
        converter.writer.constant(f"{node.name}_bias", bias.astype(np.float32)),
    ]
    out, options.fusedActivationFunction = converter.result(node)
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    converter.writer.operator(kind, [image, *places], out, options)


def _pooling(converter: _Converter, node: Any) -> None:
    about, options = _attributes(node), schema.Pool2DOptionsT()
    options.filterHeight, options.filterWidth = about["kernel_shape"]
    options.strideH, options.strideW = about.get("strides", (1, 1))
    options.padding = _VALID
    pads = list(about.get("pads", (0, 0, 0, 0)))
    if any(pads) and node.input[0] not in converter.positive:
        raise SystemExit(f"{node.name}: zeros can't pad negative numbers before a maximum")
    image = converter.padded(node.input[0], pads)
    out, options.fusedActivationFunction = converter.result(node)
    converter.positive.update(node.output)
    converter.writer.operator("MAX_POOL_2D", [image], out, options)


def _addition(converter: _Converter, node: Any) -> None:
    options = schema.AddOptionsT()
    inputs = [converter.places[name] for name in node.input]
    out, options.fusedActivationFunction = converter.result(node)
    converter.writer.operator("ADD", inputs, out, options)


def _mean(converter: _Converter, node: Any) -> None:
    options = schema.ReducerOptionsT()
    options.keepDims = bool(_attributes(node).get("keepdims", 1))
    if not options.keepDims:
        raise SystemExit(f"{node.name}: a mean that drops axes is not known here")
    axes = converter.writer.constant(f"{node.name}_axes", np.array([1, 2], np.int32))
    image = converter.places[node.input[0]]
    out, _ = converter.result(node)
    converter.writer.operator("MEAN", [image, axes], out, options)


def _flattening(converter: _Converter, node: Any) -> None:
    """NCHW's order, in which the matrix product after it has its weights."""
    name, writer = node.input[0], converter.writer
    image, shape = converter.places[name], converter.shapes[name]
    if len(shape) == 4 and max(shape[2:]) > 1:
        order = writer.constant(f"{node.name}_order", np.array(_FIRST, np.int32))
        moved = writer.tensor(f"{name}_moved", shape)
        writer.operator("TRANSPOSE", [image, order], moved, schema.TransposeOptionsT())
        image = moved
    out, _ = converter.result(node)
    options = schema.ReshapeOptionsT()
    options.newShape = list(converter.shapes[node.output[0]])
    sizes = writer.constant(f"{node.name}_shape", np.array(options.newShape, np.int32))
    writer.operator("RESHAPE", [image, sizes], out, options)


def _product(converter: _Converter, node: Any) -> None:
    weights = converter.weights[node.input[1]]
    if not _attributes(node).get("transB", 0):
        weights = weights.T
    bias = converter.weights[node.input[2]] if len(node.input) > 2 else np.zeros(len(weights))
    image = converter.places[node.input[0]]
    places = [
        converter.writer.constant(node.input[1], weights.astype(np.float32)),
        converter.writer.constant(f"{node.name}_bias", bias.astype(np.float32)),
    ]
    options = schema.FullyConnectedOptionsT()
    out, options.fusedActivationFunction = converter.result(node)
    converter.writer.operator("FULLY_CONNECTED", [image, *places], out, options)


OPERATORS: dict[str, Callable[[_Converter, Any], None]] = {
    "Add": _addition,
    "Conv": _convolution,
    "Flatten": _flattening,
    "Gemm": _product,
    "GlobalAveragePool": _mean,
    "MaxPool": _pooling,
    "ReduceMean": _mean,
    "Reshape": _flattening,
}


def tflite_of(model: Any) -> bytes:
    """The TFLite file of an ``onnx.ModelProto``."""
    return _Converter(model).convert()


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(tflite_of(onnx.load(sys.argv[1])))
