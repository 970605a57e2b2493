"""Networks that torchvision lacks, written from their papers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


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
