"""The networks edgebench knows by name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.names import NETWORKS
from edgebench.layers.zoo import ZOO
from edgebench.text import did_you_mean

#: Input channels and side where they are not 3 × 224 × 224.
_INPUTS = {"lenet": (1, 28), "inception_v3": (3, 299)}
#: These initialise their weights anew unless told not to, with a warning that they will stop to.
_INITIALISING = ("googlenet", "inception_v3")
#: Operators whose shape functions torchvision registers at import, compiled or not.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def import_torchvision() -> ModuleType:
    """Torchvision's ``models``; classification networks need none of the missing operators."""
    try:
        from torchvision import models
    except RuntimeError:
        fragment = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for schema in _SCHEMAS:
            fragment.define(schema)  # type: ignore[no-untyped-call]
        from torchvision import models
    module: ModuleType = models
    return module


def register_torchvision() -> None:
    """Have torchvision's operators known before another library imports it, if it is there."""
    with suppress(ImportError):
        import_torchvision()


def construct(name: str) -> nn.Module:
    """The network in evaluation mode.

    Raises:
        WorkloadError: no such network.
    """
    if name not in NETWORKS:
        guess = did_you_mean(name, NETWORKS)
        raise WorkloadError(
            f"no network {name!r}",
            remedy=f"did you mean {guess!r}?"
            if guess
            else "docs/reference/scenarios.md lists them",
        )
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
