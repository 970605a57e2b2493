"""Gradient checkpointing: what blocks computed is dropped and computed again going backward.

Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016): of a chain of n layers, about
√n are kept. A network of blocks keeps what goes into each block.
"""

from __future__ import annotations

import functools
import math

from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def checkpoint_blocks(network: nn.Module) -> None:
    """Checkpoint the network's outermost blocks, in place.

    A chain of leaves is cut into √n segments, of which the last is kept as it is. Layers that
    write over their input no longer do: a block's input must stay as it was.
    """
    for module in network.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010 - mypy knows no such attribute
    _checkpoint(network)


def _checkpoint(network: nn.Module) -> None:
    if isinstance(network, nn.Sequential) and all(map(_leaf, network)):
        _segment(network)
        return
    for child in network.children():
        if isinstance(child, nn.Sequential):
            _checkpoint(child)
        elif not _leaf(child):
            again = functools.partial(checkpoint, child.forward, use_reentrant=False)
            child.forward = again


def _segment(chain: nn.Sequential) -> None:
    segments = round(math.sqrt(len(chain)))
    if segments > 1:
        # A chain of its own: the network's would call itself.
        layers = nn.Sequential(*chain)
        again = functools.partial(checkpoint_sequential, layers, segments, use_reentrant=False)
        chain.forward = again  # type: ignore[method-assign]


def _leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None
