"""The networks edgebench knows by name, and how each is built without memory for its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from edgebench.errors import WorkloadError
from edgebench.layers.names import NETWORKS
from edgebench.layers.torchvision_import import import_torchvision
from edgebench.layers.zoo import ZOO
from edgebench.suggest import did_you_mean

#: Input channels and side where they are not 3 × 224 × 224.
_INPUTS = {"lenet": (1, 28), "inception_v3": (3, 299)}
#: These initialise their weights anew unless told not to, with a warning that they will stop to.
_INITIALISING = ("googlenet", "inception_v3")


def names() -> tuple[str, ...]:
    """All networks that :func:`build` knows."""
    return NETWORKS


def build(name: str) -> nn.Module:
    """The network in evaluation mode, on ``meta``: its tensors have shapes and no memory.

    Raises:
        WorkloadError: no such network.
    """
    return _construct(name).to("meta")


def computed_buffers(name: str) -> dict[str, torch.Tensor]:
    """The buffers as the constructor computes them: index tables, counts.

    Raises:
        WorkloadError: no such network.
    """
    return dict(_construct(name).named_buffers())


class _EmptyOnMeta(TorchFunctionMode):
    """What a constructor leaves to be filled is made on ``meta``; what it computes with is real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.empty and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _construct(name: str) -> nn.Module:
    if name not in NETWORKS:
        guess = did_you_mean(name, NETWORKS)
        raise WorkloadError(
            f"no network {name!r}",
            remedy=f"did you mean {guess!r}?" if guess else "docs/scenarios.md lists them",
        )
    with _EmptyOnMeta():
        if name in ZOO:
            return ZOO[name]().eval()
        options = {"init_weights": False} if name in _INITIALISING else {}
        model: nn.Module = import_torchvision().get_model(name, weights=None, **options)
        return model.eval()


def import_for(networks: Sequence[str] | None) -> None:
    """Import the code these networks are built from; None imports all there is."""
    if networks is None or not set(networks) <= set(ZOO):
        import_torchvision()


def input_shape(name: str, batch: int, image: int | None = None) -> tuple[int, int, int, int]:
    """Shape of the network's input: batch, channels, height, width."""
    channels, side = _INPUTS.get(name, (3, 224))
    return (batch, channels, image or side, image or side)
