"""The layer table of an ONNX graph: weights, outputs, multiplications and additions, memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.layers.layer_table import LayerTableRow
from edgebench.workloads.engines.onnx_graph import GraphLayer, read_by

Shape = tuple[int, ...]


class GraphSizes:
    """Shapes and bytes of a graph's tensors; those that can't be inferred have none.

    Args:
        graph: with the inferred type and shape of each tensor.
        initializers: the graph's weights.
    """

    def __init__(self, graph: Any, initializers: Sequence[Any]) -> None:
        self.shapes: dict[str, Shape] = {}
        self._widths: dict[str, float] = {}
        for one in (*graph.value_info, *graph.input, *graph.output):
            tensor = one.type.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
            if tensor.HasField("shape") and None not in dims:
                self.shapes[one.name] = tuple(size for size in dims if size is not None)
                self._widths[one.name] = element_bytes(tensor.elem_type)
        for weight in initializers:
            self.shapes[weight.name] = tuple(weight.dims)
            self._widths[weight.name] = element_bytes(weight.data_type)

    def bytes_of(self, *names: str) -> int:
        """Bytes of these tensors; one of unknown shape counts nothing."""
        known = (n for n in names if n in self.shapes)
        return sum(math.ceil(math.prod(self.shapes[n]) * self._widths[n]) for n in known)


def element_bytes(data_type: int) -> float:
    """Bytes of one element of an ONNX type; half a byte for those of four bits."""
    import onnx

    names = onnx.TensorProto.DataType.Name(data_type)
    if names in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 0.5
    return float(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)


def graph_rows(
    layers: Sequence[GraphLayer], sizes: GraphSizes, files: Mapping[int, tuple[str, int]]
) -> list[LayerTableRow]:
    """The rows of a graph's layers; ``files``: a layer's file and its size, if it has one."""
    last = {name: n for n, layer in enumerate(layers) for name in layer.inputs}
    ends = {name for layer in layers for name in layer.outputs if name not in last}
    alive = set(layers[0].inputs) if layers else set()
    rows = []
    for order, layer in enumerate(layers):
        before = sizes.bytes_of(*alive)
        peak = before + _inner_peak(layer, sizes)
        alive = {n for n in (*alive, *layer.outputs) if last.get(n, -1) > order or n in ends}
        weights = sizes.bytes_of(*layer.weights) + _constants(layer)
        # Of a whole network, its part in the one file.
        file, size = files.get(order, (None, weights))
        rows.append(
            LayerTableRow(
                order=order,
                name=layer.name,
                type=layer.type,
                part=layer.name,
                parameter_bytes=weights,
                buffer_bytes=0,
                output_bytes=sizes.bytes_of(*layer.outputs),
                flops=sum(node_flops(node, sizes.shapes) for node in layer.nodes),
                live_before_bytes=before,
                live_peak_bytes=peak,
                live_after_bytes=sizes.bytes_of(*alive),
                file=file,
                file_bytes=size,
            )
        )
    return rows


def _inner_peak(layer: GraphLayer, sizes: GraphSizes) -> int:
    """The most that tensors made in a layer take at once."""
    last = {name: n for n, node in enumerate(layer.nodes) for name in read_by(node)}
    alive: set[str] = set()
    peak = 0
    for number, node in enumerate(layer.nodes):
        alive |= {out for out in node.output if out}
        peak = max(peak, sizes.bytes_of(*alive))
        alive = {n for n in alive if last.get(n, -1) > number or n in layer.outputs}
    return peak


def _constants(layer: GraphLayer) -> int:
    tensors = (a.t for n in layer.nodes if n.op_type == "Constant" for a in n.attribute)
    return sum(math.ceil(math.prod(t.dims) * element_bytes(t.data_type)) for t in tensors if t.dims)


def node_flops(node: Any, shapes: Mapping[str, Shape]) -> int:
    """Multiplications and additions of a matrix product or convolution; 0 of all else."""
    read = [shapes.get(name) for name in node.input]
    made = shapes.get(node.output[0]) if node.output else None
    if len(read) < 2 or read[0] is None or read[1] is None or made is None:
        return 0
    if node.op_type == "Conv":
        return 2 * math.prod(made) * math.prod(read[1][1:])
    if node.op_type == "ConvTranspose":
        return 2 * math.prod(read[0]) * math.prod(read[1][1:])
    if node.op_type == "MatMul":
        return 2 * math.prod(made) * read[0][-1]
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * math.prod(made) * read[0][0 if transposed else 1]
    return 0
