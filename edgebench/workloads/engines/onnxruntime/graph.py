"""An ONNX graph cut into layers at the borders of its nodes, and the layers' table.

A layer is a node with weights, with the nodes without weights that follow it (activations,
additions, pooling): a session each for these would measure sessions. Nodes that compute from
constants alone, and those that dequantise, belong to the layer that reads them, in each that does:
so a quantised operator keeps what the engine fuses with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgebench.layers.layer_table import LayerTableRow

#: A constant of fewer elements is a setting of its node (a shape, the ends of a range).
_LEAST_ELEMENTS = 32
#: Nodes whose outputs differ from call to call, though they read constants.
_RANDOM = ("Random", "Multinomial", "Bernoulli")


@dataclass(frozen=True)
class GraphLayer:
    """Nodes that are loaded and executed as one, and the tensors that cross its borders."""

    nodes: tuple[Any, ...]
    named_for: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its node with weights, or what that gives."""
        node = self.named_for
        return str(node.name or (node.output[0] if node.output else node.op_type))

    @property
    def type(self) -> str:
        """Its operators, without those that compute constants: ``Conv, Relu``."""
        kinds = (n.op_type for n in self.nodes if n.op_type not in ("Constant", "DequantizeLinear"))
        return ", ".join(dict.fromkeys(kinds)) or str(self.named_for.op_type)


@dataclass
class _Group:
    """A layer that is being made: indices of its nodes, and whether one has weights."""

    members: list[int] = field(default_factory=list)
    weighted: bool = False


class GraphCutter:
    """Cuts one graph.

    Args:
        graph: an ``onnx.GraphProto``, its nodes in order.
        typed: tensors whose type is known: a border needs it.
    """

    def __init__(self, graph: Any, typed: Iterable[str]) -> None:
        self._nodes: list[Any] = list(graph.node)
        self._sizes = {tensor.name: _elements(tensor.dims) for tensor in graph.initializer}
        self._reads = [tuple(dict.fromkeys(read_by(node))) for node in self._nodes]
        self._maker = {out: n for n, node in enumerate(self._nodes) for out in node.output if out}
        self._given = [one.name for one in graph.input if one.name not in self._sizes]
        self._outputs = [one.name for one in graph.output]
        self._typed = {*typed, *self._given, *self._outputs}

    def layers(self) -> list[GraphLayer]:
        """The layers in order; an output of one is read by later ones alone."""
        groups = self._groups()
        number = 0
        while number < len(groups) - 1:
            crossing = self._crossing(groups, number)
            if crossing <= self._typed:
                number += 1
                continue
            # A session must be told what its inputs are: such a border can't be one.
            groups[number].members += groups.pop(number + 1).members
        return self._closed(groups)

    def _groups(self) -> list[_Group]:
        groups = [_Group()]
        for number in range(len(self._nodes)):
            if self._goes_along(number):
                continue
            weighted = self._elements_of(number) >= _LEAST_ELEMENTS
            if weighted and groups[-1].weighted:
                groups.append(_Group())
            groups[-1].members.append(number)
            groups[-1].weighted |= weighted
        # An output may be a constant, or dequantised: nobody reads it.
        lost = {self._maker[o] for o in self._outputs if o in self._maker}
        groups[-1].members += sorted(n for n in lost if self._goes_along(n))
        return groups

    @cached_property
    def _constant(self) -> set[str]:
        """Tensors that are the same whatever the input is."""
        found = set(self._sizes)
        for node, reads in zip(self._nodes, self._reads, strict=True):
            if not node.op_type.startswith(_RANDOM) and all(name in found for name in reads):
                found.update(node.output)
        return found

    def _goes_along(self, number: int) -> bool:
        node = self._nodes[number]
        computed = bool(node.output) and node.output[0] in self._constant
        return computed or node.op_type == "DequantizeLinear"

    def _elements_of(self, number: int) -> int:
        """Elements of the largest constant that a node reads, through what goes along with it."""
        return self._largest[number]

    @cached_property
    def _largest(self) -> list[int]:
        """Of each node: what it reads is made by nodes before it."""
        found: list[int] = []
        for number, node in enumerate(self._nodes):
            sizes = [self._sizes.get(name, 0) for name in self._reads[number]]
            makers = {self._maker[name] for name in self._reads[number] if name in self._maker}
            along = (one for one in makers if one < number and self._goes_along(one))
            found.append(max(*sizes, _constant_elements(node), 0, *(found[one] for one in along)))
        return found

    def _with_companions(self, members: Iterable[int]) -> set[int]:
        """The nodes, and those that go along with them."""
        found, left = set(members), list(members)
        while left:
            reads = self._reads[left.pop()]
            makers = {self._maker[name] for name in reads if name in self._maker}
            new = {m for m in makers if self._goes_along(m)} - found
            found |= new
            left += new
        return found

    def _needs(self, members: set[int]) -> list[str]:
        """What nodes read that they don't make, in order; no weights."""
        made = {out for n in members for out in self._nodes[n].output}
        names = (name for n in sorted(members) for name in self._reads[n])
        wanted = (name for name in names if name not in made and name not in self._sizes)
        return list(dict.fromkeys(wanted))

    def _crossing(self, groups: Sequence[_Group], number: int) -> set[str]:
        """What the group makes and a later one reads."""
        made = {o for n in self._with_companions(groups[number].members) for o in self._out(n)}
        later = (self._needs(self._with_companions(one.members)) for one in groups[number + 1 :])
        return {name for names in later for name in names if name in made}

    def _out(self, number: int) -> list[str]:
        return [out for out in self._nodes[number].output if out]

    def _closed(self, groups: Sequence[_Group]) -> list[GraphLayer]:
        whole = [self._with_companions(group.members) for group in groups]
        needs = [self._needs(members) for members in whole]
        layers = []
        for number, (group, members) in enumerate(zip(groups, whole, strict=True)):
            wanted = {*self._outputs, *(n for names in needs[number + 1 :] for n in names)}
            own = [out for n in sorted(members) for out in self._out(n)]
            read = {name for n in members for name in self._reads[n]}
            first = max(group.members, key=lambda n: (self._elements_of(n), -n))
            layers.append(
                GraphLayer(
                    tuple(self._nodes[n] for n in sorted(members)),
                    self._nodes[first],
                    tuple(needs[number]),
                    tuple(name for name in own if name in wanted),
                    tuple(name for name in self._sizes if name in read),
                )
            )
        return layers


def read_by(node: Any) -> Iterator[str]:
    """The tensors that a node reads, those of its subgraphs from outside of them too."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {one.name for one in (*graph.input, *graph.initializer)}
            own |= {out for inner in graph.node for out in inner.output}
            yield from (n for inner in graph.node for n in read_by(inner) if n not in own)
            yield from (one.name for one in graph.output if one.name not in own)


def _elements(dims: Sequence[int]) -> int:
    count = 1
    for size in dims:
        count *= size
    return count


def _constant_elements(node: Any) -> int:
    if node.op_type != "Constant":
        return 0
    return max((_elements(a.t.dims) for a in node.attribute if a.name == "value"), default=0)


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
