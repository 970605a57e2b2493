"""From a workload's settings to a pipeline that is ready to be loaded and executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgebench.layers.loaders import LOADERS
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.networks import input_shape
from edgebench.layers.schedules import SCHEDULES, Schedule
from edgebench.layers.schedules.base import Spans
from edgebench.layers.weights import INDEX


@dataclass(frozen=True)
class Pipeline:
    """A schedule over its networks, and an input for each."""

    schedule: Schedule
    inputs: tuple[torch.Tensor, ...]


def build_pipeline(settings: Mapping[str, Any], spans: Spans) -> Pipeline:
    """Build the networks without memory for weights, and make each one's input from the seed.

    Raises:
        WorkloadError: no such network.
    """
    names, batch, image = settings["networks"], settings["batch"], settings.get("image")
    networks = [
        LayeredNetwork(
            name,
            weight_files(Path(settings["weights"][name])),
            LOADERS[settings["loader"]],
            batch,
            image,
        )
        for name in names
    ]
    schedule = SCHEDULES[settings["schedule"]](
        networks, spans, settings["warm"], settings["workers"]
    )
    inputs = (make_input(name, settings["seed"], batch, image) for name in names)
    return Pipeline(schedule, tuple(inputs))


def make_input(name: str, seed: int, batch: int = 1, image: int | None = None) -> torch.Tensor:
    """A network's input, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(input_shape(name, batch, image), generator=generator)


def weight_files(folder: Path) -> dict[str, Path]:
    """Part → weights file, from the index beside them."""
    index = json.loads((folder / INDEX).read_text())
    return {part: folder / file for part, (file, _) in index.items()}
