"""An ONNX graph cut into layers at the borders of its nodes.

A layer is a node with weights, with the nodes without weights that follow it (activations,
additions, pooling): a session each for these would measure sessions. Nodes that compute from
constants alone, and those that dequantise, belong to the layer that reads them, in each that does:
so a quantised operator keeps what the engine fuses with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
        sizes = [self._sizes.get(name, 0) for name in self._reads[number]]
        makers = {self._maker[name] for name in self._reads[number] if name in self._maker}
        sizes += [_constant_elements(self._nodes[number])]
        sizes += [self._elements_of(maker) for maker in makers if self._goes_along(maker)]
        return max(sizes)

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
