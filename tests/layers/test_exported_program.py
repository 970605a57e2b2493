"""Programs that ``torch.export.save`` wrote are networks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgebench.layers.known_networks import register_torchvision
from edgebench.layers.references import parse_reference
from edgebench.layers.sources import network_source

pytestmark = pytest.mark.torch


class Small(torch.nn.Module):
    """Convolution, batch norm, sizes that depend on the input, and named outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Pixels to scores."""
        seen = self.norm(self.convolution(x))
        mean = seen.view(seen.shape[0], 4, -1).mean(-1)
        with torch.no_grad():
            alike = torch.einsum("ij,kj->ik", mean, mean)
        return {"scores": self.head(mean), "alike": alike}


def network(file: Path) -> torch.nn.Module:
    """The program's modules."""
    return network_source(parse_reference(file.name, file.parent)).construct(weights=True)


def test_a_small_program_is_read(tmp_path: Path) -> None:
    """Sizes that vary, batch norm, a part without gradients, named outputs."""
    sizes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    made = torch.export.export(Small().eval(), (torch.rand(4, 3, 8, 8),), dynamic_shapes=sizes)
    torch.export.save(made, tmp_path / "small.pt2")
    assert network(tmp_path / "small.pt2")(torch.ones(3, 3, 8, 8))["scores"].shape == (3, 5)


def test_a_network_of_torchvision_is_read(tmp_path: Path) -> None:
    """The outputs are those of the network that was exported."""
    register_torchvision()
    from torchvision.models import resnet18

    whole, image = resnet18().eval(), torch.rand(1, 3, 64, 64)
    torch.export.save(torch.export.export(whole, (image,)), tmp_path / "resnet.pt2")
    read = network(tmp_path / "resnet.pt2")
    with torch.inference_mode():
        assert torch.equal(read(image), whole(image))
