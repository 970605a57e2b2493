"""How many bytes of a forward pass's tensors are alive at once, from a pass on ``meta``.

A tensor lives as long as something refers to it, on ``meta`` as on the CPU: what a residual
connection holds, or an operation writes in place, counts as it will when it runs.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: Convolutions of so few channels read the plain layout.
_PLAIN_CHANNELS = 3


class Liveness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages of all tensors made under it, and that of the input.

    Weights don't count, nor do views of them. ``now_bytes`` are alive; ``peak_bytes`` is the most
    since :meth:`restart`, and ``working_bytes`` the most together with the copies that
    convolutions make.
    """

    def __init__(self, sample: torch.Tensor, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now_bytes = self.peak_bytes = self.working_bytes = 0
        weights = itertools.chain(model.parameters(), model.buffers())
        self._known = {tensor.untyped_storage()._cdata for tensor in weights}
        self._count(sample)

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
