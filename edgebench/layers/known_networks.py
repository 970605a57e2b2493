"""The networks that edgebench knows by name: torchvision's, and some written from their papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.names import NETWORKS
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
    """Import torchvision's ``models``; these networks need none of the missing operators."""
    try:
        from torchvision import models
    except RuntimeError:
        fragment = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for schema in _SCHEMAS:
            fragment.define(schema)  # type: ignore[no-untyped-call]
        from torchvision import models
    module: ModuleType = models
    return module


def construct(name: str) -> nn.Module:
    """Construct the network, in evaluation mode.

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
    """Return the shape of the network's input: batch, channels, height, width."""
    channels, side = _INPUTS.get(name, (3, 224))
    return (batch, channels, image or side, image or side)


class LeNet(nn.Module):
    """LeNet-5 with max pooling and ReLU, for 1 × 28 × 28 inputs (LeCun et al., 1998)."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, num_classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores of a batch."""
        scores: torch.Tensor = self.classifier(torch.flatten(self.features(x), 1))
        return scores


#: MobileNetV1's body: output channels and stride of each depthwise-separable block.
_BLOCKS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)


def _unit(channels: int, out: int, size: int, stride: int, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


class MobileNetV1(nn.Module):
    """MobileNet of width 1, for 3 × 224 × 224 inputs (Howard et al., 2017, table 1)."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        units, channels = _unit(3, 32, 3, 2), 32
        for out, stride in _BLOCKS:
            units += _unit(channels, channels, 3, stride, groups=channels)
            units += _unit(channels, out, 1, 1)
            channels = out
        self.features = nn.Sequential(*units)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores of a batch."""
        scores: torch.Tensor = self.classifier(torch.flatten(self.pool(self.features(x)), 1))
        return scores


ZOO: dict[str, Callable[[], nn.Module]] = {"lenet": LeNet, "mobilenet_v1": MobileNetV1}
