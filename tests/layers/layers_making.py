"""Small networks and their weights, for the tests of layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.layers.examination import LayerTableRow, examine, reference_of, sample_of
from edgebench.layers.network import LayeredNetwork, cut
from edgebench.layers.pipeline import manifest, prepare_weights, weight_files
from edgebench.layers.references import parse_reference
from edgebench.layers.sources import empty_network, network_source
from edgebench.layers.tensor_files import LOADERS, write_tensors

SHAPE = (2, 3, 16, 16)
SEED = 3


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.twice = nn.Conv2d(8, 8, 3, padding=1)
        self.again = self.twice
        self.norm = nn.BatchNorm2d(8)
        self.never = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.rand(8, 1, 1))
        self.head = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.norm(self.twice(x)) * self.scale
        x = torch.relu(self.again(x))
        scores: torch.Tensor = self.head(x.mean((2, 3)))
        return scores


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x, _ = self.attention(x, x, x, need_weights=False)
        scores: torch.Tensor = self.head(x.mean(1))
        return scores


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(x).mean((2, 3))
        return scores


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(768, 768) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers: torch.Tensor = self.layers(x.flatten(1))
        return numbers


def build_empty(name: str) -> nn.Module:
    return empty_network(network_source(reference_of(name, {}))).model


def layer_rows(name: str, batch: int = 1, image: int | None = None) -> list[LayerTableRow]:
    return examine(name, {"image": image}, batch).rows


def prepare_known(
    name: str, cache: Path, seed: int, checkpoint: Path | None = None
) -> tuple[Path, dict[str, tuple[str, int]]]:
    return prepare_weights(examine(name, {}), cache, seed, checkpoint)


def request_of(text: str, folder: Path, **keys: Any) -> dict[str, Any]:
    reference = parse_reference(text, folder)
    references = {reference.name: reference.to_json()}
    return {"networks": [reference.name], "references": references, **keys}


def prepared(text: str, folder: Path, **keys: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a pipeline of the network, but schedule and loader, and its manifest."""
    request = request_of(text, folder, **{"seed": SEED, **keys})
    (name,) = request["networks"]
    made = manifest({**request, "cache": str(folder)})["networks"][name]
    fixed = {"batch": 1, "image": None, "warm": 1, "workers": 2}
    return {**request, **fixed, "weights": {name: made["folder"]}}, made


def written_tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{part}.{key}".lstrip("."): tensor
        for part, file in weight_files(folder).items()
        for key, tensor in LOADERS["copy"](file).items()
    }


def known_input(name: str, seed: int, batch: int = 1, image: int | None = None) -> torch.Tensor:
    settings = {"seed": seed, "image": image}
    return sample_of(network_source(reference_of(name, {})), nn.Identity(), settings, batch)


SMALL = (Branches, Attention, Convolutions)


def plain(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return kind().eval()


def on_meta(model: nn.Module) -> nn.Module:
    return type(model)().to("meta").eval()


def sample(shape: tuple[int, ...] = SHAPE) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def write_weights(model: nn.Module, folder: Path) -> dict[str, Path]:
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    files = {}
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(cut(on_meta(model), sample()).parts.values()):
        if own := {key: tensors[part.full_name(key)] for key in part.tensors()}:
            files[part.name] = folder / f"{number}.safetensors"
            write_tensors(files[part.name], own)
    return files


def layered(model: nn.Module, folder: Path, loader: str = "copy") -> LayeredNetwork:
    files = write_weights(model, folder)
    name = type(model).__name__
    empty = on_meta(model)
    return LayeredNetwork(name, empty, cut(empty, sample()), files, LOADERS[loader])


class SpanLog:
    def __init__(self) -> None:
        self.boundaries: list[tuple[str, str, Any, Any]] = []

    @contextmanager
    def span(
        self,
        phase: str,
        *,
        round: int | None = None,  # noqa: A002 - as the recorder has it
        network: str | None = None,
        layer: int | None = None,
        name: str | None = None,
    ) -> Iterator[None]:
        self.boundaries.append(("start", phase, network, layer))
        yield
        self.boundaries.append(("end", phase, network, layer))

    def phases(self) -> list[tuple[str, Any, Any]]:
        starts = (b for b in self.boundaries if b[0] == "start" and b[1] != "round")
        return [(phase, network, layer) for _, phase, network, layer in starts]

    def at(self, boundary: str, phase: str, network: str, layer: int) -> int:
        return self.boundaries.index((boundary, phase, network, layer))
