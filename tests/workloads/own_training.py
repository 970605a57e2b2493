"""Networks, losses and data of a user's own, right and wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.head = nn.LazyLinear(classes) if classes == 0 else nn.Linear(8 * 15 * 15, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(images))
        return scores


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, numbers: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.second(torch.relu(self.first(numbers)))}


def table(rows: int = 64) -> tuple[Any, ...]:
    numbers = np.random.default_rng(0).normal(size=(rows, 8)).astype(np.float32)
    return numbers, numbers[:, :2] * 2


def images() -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 40).astype(np.int32)
    return pixels[:32], labels[:32], pixels[32:], labels[32:]


def squares(outputs: Any, targets: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
    mean: torch.Tensor = weight * ((outputs["y"] - targets) ** 2).mean()
    return mean


def of_each(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    each: torch.Tensor = (outputs["y"] - targets) ** 2
    return each


def a_number(outputs: Any, targets: torch.Tensor) -> float:
    return 3.0


def detached(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    return squares(outputs, targets).detach()


def failing(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    return squares({"z": outputs["y"]}, targets)


def of_one(outputs: Any) -> torch.Tensor:
    return squares(outputs, outputs["y"])


def one_array() -> Any:
    return np.zeros((4, 8), np.float32)


def uneven() -> Any:
    return np.zeros((4, 8), np.float32), np.zeros((3, 2), np.float32)


def words() -> Any:
    return np.array(["a", "b"]), np.zeros(2)
