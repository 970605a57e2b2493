"""What torch's CPU kernels allocate beside their outputs, as far as it is large.

oneDNN's convolutions compute in layouts of their own, with channels in groups of 16: what they are
given is copied into these, and what they compute is copied back (``reorder_if_differ_in`` in
ideep's ``conv.hpp``). These copies are torch's memory like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

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
