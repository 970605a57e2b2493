"""The layer table of a network: what is in it, before anything runs."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from edgebench.layers.cut import Cut, LayerPart, watching
from edgebench.layers.samples import Sample, run_model, tensors_in
from edgebench.layers.table_row import LayerTableRow

#: Convolutions of so few channels read the plain layout.
_PLAIN_CHANNELS = 3


def table_of(model: nn.Module, sample: Sample, found: Cut) -> list[LayerTableRow]:
    """The layers of a cut network in the order of their calls; on ``meta`` nothing takes memory.

    FLOPs count multiplications and additions of matrix products, convolutions and attention
    (``torch.utils.flop_counter``); the rest counts nothing there.
    """
    parts = found.parts
    rows: list[LayerTableRow] = []
    inside: list[tuple[int, int]] = []
    counter, alive = FlopCounterMode(display=False), Liveness(sample, model)

    def enter(part: LayerPart) -> None:
        inside.append((len(rows), counter.get_total_flops()))
        rows.append(replace(_row(len(rows), part), live_before_bytes=alive.now_bytes))
        alive.restart()

    def leave(part: LayerPart, output: Any) -> None:
        order, before = inside.pop()
        if not part.own_only:
            rows[order] = replace(
                rows[order],
                flops=counter.get_total_flops() - before,
                output_bytes=_nbytes(output),
                live_peak_bytes=alive.peak_bytes,
                live_after_bytes=alive.now_bytes,
                workspace_bytes=alive.working_bytes - alive.peak_bytes,
            )

    # Not inference mode: under it, operations made of others would not show what these make.
    with counter, alive, torch.no_grad(), watching(parts.values(), enter, leave):
        run_model(model, sample)
    return rows


def _row(order: int, part: LayerPart) -> LayerTableRow:
    own = " (own)" if part.own_only else ""
    tensors = {id(tensor): tensor for tensor in part.tensors().values()}.values()
    return LayerTableRow(
        order=order,
        name=part.name or "(network)",
        type=type(part.module).__name__ + own,
        part=part.name,
        parameter_bytes=sum(t.nbytes for t in tensors if isinstance(t, nn.Parameter)),
        buffer_bytes=sum(t.nbytes for t in tensors if not isinstance(t, nn.Parameter)),
        output_bytes=0,
        flops=0,
    )


def _nbytes(output: Any) -> int:
    return sum(tensor.nbytes for tensor in tensors_in(output))


class Liveness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages of all tensors made under it, and that of the input.

    Weights don't count, nor do views of them. ``now_bytes`` are alive; ``peak_bytes`` is the most
    since :meth:`restart`, and ``working_bytes`` the most together with the copies that
    convolutions make.
    """

    def __init__(self, sample: Sample, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now_bytes = self.peak_bytes = self.working_bytes = 0
        weights = itertools.chain(model.parameters(), model.buffers())
        self._known = {tensor.untyped_storage()._cdata for tensor in weights}
        for tensor in tensors_in(sample):
            self._count(tensor)

    def restart(self) -> None:
        """Begin a new peak at what is alive now."""
        self.peak_bytes = self.working_bytes = self.now_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf)
        if func is torch.ops.aten.convolution.default:
            size = self.now_bytes + convolution_copies(args[0], args[1], output)
            self.working_bytes = max(self.working_bytes, size)
        return output

    def _count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        self.now_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.now_bytes)
        self.working_bytes = max(self.working_bytes, self.now_bytes)
        weakref.finalize(storage, self._gone, key, storage.nbytes())

    def _gone(self, key: int, size_bytes: int) -> None:
        self._known.discard(key)
        self.now_bytes -= size_bytes


def convolution_copies(inside: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> int:
    """Bytes that a convolution holds at its peak beside its input, weights and output.

    oneDNN computes in a layout of its own (ATen/native/mkldnn/Conv.cpp): copies of weights,
    input and output first; then the plain output beside its copy, the others being gone.
    """
    copied_input = 0 if inside.shape[1] <= _PLAIN_CHANNELS else inside.nbytes
    # The plain output, counted as alive already, is made only after the computation.
    return max(weight.nbytes + copied_input, output.nbytes)
