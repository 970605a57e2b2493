"""A network of a user's own that a worker imports; it brings an accelerator that is made up."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from accelerator_fakes import ACTIVATION_BYTES, FakeRuntime

from edgebench.layers import accelerator

accelerator.CudaRuntime = FakeRuntime  # type: ignore[assignment, misc]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert FakeRuntime.current is not None
        FakeRuntime.current.allocate(ACTIVATION_BYTES)
        scores: torch.Tensor = self.body(images)
        FakeRuntime.current.free(ACTIVATION_BYTES)
        return scores
