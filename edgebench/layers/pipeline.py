"""From a workload's settings to a pipeline that is ready to be loaded and executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.loaders import LOADERS
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.networks import build, input_shape
from edgebench.layers.schedules import SCHEDULES, Schedule
from edgebench.layers.schedules.base import Spans
from edgebench.layers.weights import weight_files
from edgebench.suggest import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Pipeline:
    """A schedule over its networks, and an input for each."""

    schedule: Schedule
    inputs: tuple[torch.Tensor, ...]


def build_pipeline(settings: Mapping[str, Any], spans: Spans) -> Pipeline:
    """Build the networks without memory for weights, and make each one's input from the seed.

    Raises:
        WorkloadError: no such network, schedule or loader; no weights; an image that is too small.
    """
    schedule = _named("schedule", settings["schedule"], SCHEDULES)
    networks = [_network(name, settings) for name in settings["networks"]]
    return Pipeline(
        schedule(networks, spans, settings["warm"], settings["workers"]),
        tuple(
            make_input(name, settings["seed"], settings["batch"], settings.get("image"))
            for name in settings["networks"]
        ),
    )


def _network(name: str, settings: Mapping[str, Any]) -> LayeredNetwork:
    model = build(name)
    shape = input_shape(name, settings["batch"], settings.get("image"))
    files = weight_files(Path(settings["weights"][name]))
    loader = _named("loader", settings["loader"], LOADERS)
    return LayeredNetwork(name, model, torch.empty(shape, device="meta"), files, loader)


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        guess = did_you_mean(name, known)
        remedy = f"did you mean {guess!r}?" if guess else f"one of {', '.join(known)}"
        raise WorkloadError(f"no {what} {name!r}", remedy=remedy)
    return known[name]


def make_input(name: str, seed: int, batch: int = 1, image: int | None = None) -> torch.Tensor:
    """A network's input, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(input_shape(name, batch, image), generator=generator)
