"""Two training steps on ``meta``, operator by operator: nothing is computed or takes memory.

The same code runs as in a trial (the network, autograd, the optimizer), so that recomputed blocks,
parts of a batch and parameters without a gradient need no rules of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn, optim
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edgebench.layers.cut import Cut, watching
from edgebench.workloads.training.step_operations import (
    BACKWARD,
    DATA,
    FORWARD,
    INIT,
    STEP,
    StepOperation,
)

#: Channels are in groups of so many; of so few (an image's) the plain layout is read.
_GROUP, _FEW = 16, 4


def kernel_workspace(func: Any, args: Sequence[Any], output: Any) -> tuple[tuple[int, ...], ...]:
    """Bytes that an operator takes while it runs, in stages of which each follows the last.

    Args:
        func: the operator, as torch dispatches it.
        args: its arguments by position.
        output: what it returned.
    """
    if func is torch.ops.aten.convolution.default:
        return ((*_given(args[0]), _weights(args[1]), _activations(output)),)
    if func is torch.ops.aten.convolution_backward.default:
        gradient, given, weight = args[:3]
        wants_input, wants_weight, _ = args[10]
        to_input = _activations(gradient), _weights(weight), _activations(given)
        to_weight = *_given(given), _activations(gradient), _weights(weight)
        stages = (wants_input, to_input), (wants_weight, to_weight)
        return tuple(stage for wanted, stage in stages if wanted)
    return ()


def _given(tensor: torch.Tensor) -> tuple[int, ...]:
    """The copy of what a convolution is given, if one is made."""
    return () if tensor.shape[1] <= _FEW else (_activations(tensor),)


def _activations(tensor: torch.Tensor) -> int:
    return tensor.nbytes // tensor.shape[1] * _padded(tensor.shape[1])


def _weights(tensor: torch.Tensor) -> int:
    made, read = tensor.shape[:2]
    both = _padded(made) * (read if read <= _FEW else _padded(read))
    return tensor.nbytes // (made * read) * both


def _padded(channels: int) -> int:
    return -(-channels // _GROUP) * _GROUP


#: A first step, in which the optimizer makes its state, and one that is like all later ones.
_STEPS = 2
#: Operators that make memory and leave it as it is.
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
#: Autograd numbers its nodes; those that add to a parameter's gradient have a greater number.
_NO_PLACE = 1 << 63
_Numbers = tuple[int, ...]


class StepTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what operators do to memory while it is entered.

    Set :attr:`step` and call :meth:`begin` as steps go on.

    Args:
        network: its parameters and buffers are there before the first step.
        found: the network's layers.
        optimizer: what state it has by now is there too; None where nothing is trained.
    """

    def __init__(self, network: nn.Module, found: Cut, optimizer: optim.Optimizer | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[StepOperation] = []
        self.step = 0
        self._phase, self._number = INIT, 0
        self._layer = self._calls = 0
        self._parts = found.parts.values()
        #: Memory by torch's number → a weak reference to it, and its own number.
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        #: Memory → the layer that made it.
        self._layer_of: list[int] = []
        #: Layers that went forward, and where in autograd's order each began.
        self._entered: list[int] = []
        self._starts: list[int] = []
        for call in found.calls:
            self._layer = call.order
            self._note(call.part.tensors().values())
        self._note([*network.parameters(), *network.buffers()])
        for state in optimizer.state.values() if optimizer else ():
            self._note(_tensors(list(state.values())))

    def watching_layers(self) -> AbstractContextManager[None]:
        """While it is entered, operations belong to the layer that is going forward."""
        return watching(self._parts, self._enter, lambda part, output: None)

    def begin(self, phase: str, number: int = 0) -> None:
        """A phase of the step, of a part of the batch."""
        self._phase, self._number = phase, number
        if phase in (DATA, FORWARD):
            self._layer = self._calls = 0
            self._starts.clear()
            self._entered.clear()

    def end(self) -> None:
        """Record what the last operator left to be freed."""
        self._add(freed=self._freed())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run one operator, and record it."""
        kwargs = kwargs or {}
        freed = self._freed()
        output = func(*args, **kwargs)
        read, written = self._touched(func, args, kwargs)
        self._locate((*written, *read))
        made = self._made(_tensors(output))
        if func.overloadpacket.__name__ not in _EMPTY:
            written = (*written, *(number for number, _ in made))
        # What only makes a view touches nothing.
        touched = read if made or written else ()
        self._add(freed, made, touched, written, kernel_workspace(func, args, output))
        return output

    def _enter(self, part: object) -> None:
        # What checkpointing computes again belongs to the layer that needs it.
        if self._phase == FORWARD:
            self._layer, self._calls = self._calls, self._calls + 1
            self._starts.append(torch._C._autograd._get_sequence_nr())
            self._entered.append(self._layer)

    def _locate(self, touched: Sequence[int]) -> None:
        """Which layer an operator belongs to that no layer's forward pass runs."""
        if self._phase == BACKWARD:
            node = torch._C._current_autograd_node()
            place = node._sequence_nr() if node else _NO_PLACE
            if place < _NO_PLACE and self._starts:
                self._layer = self._entered[max(0, bisect_right(self._starts, place) - 1)]
        elif self._phase == STEP:
            self._layer = next((self._layer_of[number] for number in touched), self._layer)

    def _note(self, tensors: Iterable[torch.Tensor]) -> None:
        """Memory that is there before the first step."""
        made = self._made(tensors)
        self._add(made=made, written=tuple(number for number, _ in made))

    def _add(
        self,
        freed: _Numbers = (),
        made: tuple[tuple[int, int], ...] = (),
        read: _Numbers = (),
        written: _Numbers = (),
        stages: tuple[_Numbers, ...] = (),
    ) -> None:
        if freed or made or read or written:
            at = self.step, self._phase, self._number, self._layer
            self.operations.append(StepOperation(*at, freed, made, read, written, stages))

    def _freed(self) -> _Numbers:
        gone = [key for key, (storage, _) in self._alive.items() if _is_gone(storage)]
        return tuple(self._alive.pop(key)[1] for key in gone)

    def _made(self, tensors: Iterable[torch.Tensor]) -> tuple[tuple[int, int], ...]:
        found = []
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.nbytes() and storage._cdata not in self._alive:
                number = len(self._layer_of)
                self._layer_of.append(self._layer)
                self._alive[storage._cdata] = _weak(storage), number
                found.append((number, storage.nbytes()))
        return tuple(found)

    def _touched(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[_Numbers, _Numbers]:
        """What the operator reads alone, and what it writes to, of what was there before."""
        read: dict[int, None] = {}
        written: dict[int, None] = {}
        for place, argument in enumerate(func._schema.arguments):
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            into = written if argument.alias_info and argument.alias_info.is_write else read
            for tensor in _tensors(value):
                if known := self._alive.get(tensor.untyped_storage()._cdata):
                    into[known[1]] = None
        return tuple(number for number in read if number not in written), tuple(written)


def _weak(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _is_gone(storage: StorageWeakRef) -> bool:
    return bool(storage.expired())  # type: ignore[no-untyped-call]


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def traced_steps(
    network: nn.Module,
    found: Cut,
    optimizer: optim.Optimizer | None,
    batch: Callable[[], torch.Tensor],
    loss_of: Callable[[Any], torch.Tensor],
    parts: int,
) -> list[StepOperation]:
    """The operations of two steps.

    Args:
        network: on ``meta``, in training.
        found: its layers.
        optimizer: None where nothing is trained.
        batch: makes a part of the batch on ``meta``.
        loss_of: the loss of the network's outputs.
        parts: how many parts a batch has.
    """
    trace = StepTrace(network, found, optimizer)
    with trace, trace.watching_layers():
        for step in range(_STEPS):
            trace.step = step
            for part in range(parts):
                trace.begin(DATA, part)
                images = batch()
                trace.begin(FORWARD, part)
                loss = loss_of(network(images))
                trace.begin(BACKWARD, part)
                if optimizer:
                    loss.backward()  # type: ignore[no-untyped-call]
                del images, loss
            trace.begin(STEP)
            if optimizer:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            trace.end()
    return trace.operations
