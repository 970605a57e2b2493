"""A network of which only a part is trained; what is frozen gets no gradient at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.workloads.training.names import SCRATCH
from edgebench.workloads.training.partial import (
    FILTERS,
    LAST,
    LAYERS,
    NOTHING,
    WHOLE,
    TrainedPart,
    parse_part,
)
from edgebench.workloads.training.pytorch.filters import FilterSubset


class PartialTraining:
    """Freezes all of a network but a part, and draws that part again where it is random.

    Call :meth:`draw` before each step's forward pass, :meth:`put_back` after the optimizer's step.
    Biases go with their filters; normalisation has no filters and is trained whole beside them.

    Args:
        network: frozen in place.
        part: what is trained.
        seed: of what is drawn.

    Raises:
        WorkloadError: the network has no such part.
    """

    def __init__(self, network: nn.Module, part: TrainedPart, seed: int) -> None:
        self._part = part
        self._random = torch.Generator().manual_seed(seed)
        self._layers = [m for m in network.modules() if any(True for _ in m.parameters(False))]
        self._filters: list[FilterSubset] = []
        if not self._layers:
            raise WorkloadError("a network without parameters has nothing to train")
        if part.kind == FILTERS:
            filtered = [m for m in self._layers if isinstance(m, (nn.Conv2d, nn.Linear))]
            self._filters = [FilterSubset(layer, part.share) for layer in filtered]
        elif part.kind != WHOLE:
            self._train({LAST: self._layers[-1:], NOTHING: []}.get(part.kind, self._layers))
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        self._parameters += [p for some in self._filters for p in some.parameters()]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What an optimizer may ever step. Without a gradient it leaves a parameter as it is."""
        return self._parameters

    def draw(self) -> None:
        """Choose what this step trains; does nothing where chance has no part in it."""
        if self._part.kind == LAYERS:
            count = max(1, round(self._part.share * len(self._layers)))
            order = torch.randperm(len(self._layers), generator=self._random)
            self._train(self._layers[number] for number in order[:count].tolist())
        for some in self._filters:
            some.draw(self._random)

    def put_back(self) -> None:
        """Give each layer the filters that the optimizer has stepped."""
        for some in self._filters:
            some.put_back()

    def _train(self, layers: Iterable[nn.Module]) -> None:
        chosen = {id(parameter) for layer in layers for parameter in layer.parameters(False)}
        for layer in self._layers:
            for parameter in layer.parameters(False):
                parameter.requires_grad_(id(parameter) in chosen)
                # The step before may have left one, which would be stepped again and kept.
                parameter.grad = None


def partial_training(network: nn.Module, settings: Mapping[str, Any]) -> PartialTraining:
    """The freezing that the settings ask for by ``trained``, drawn from their ``seed``.

    Raises:
        WorkloadError: the network has no such part; or the optimizer keeps a memory of each
            parameter, which would mix filters that are drawn anew at each step.
    """
    part = parse_part(settings["trained"])
    if part.kind == FILTERS and part.share < 1 and settings["optimizer"] != "sgd":
        raise WorkloadError(
            f"the optimizer {settings['optimizer']!r} remembers each filter's past, "
            "and other filters are drawn at each step",
            remedy='optimizer = "sgd", or trained = "layers 40%"',
        )
    return PartialTraining(network, part, settings["seed"])


def start_from(network: nn.Module, settings: Mapping[str, Any]) -> None:
    """Give the network a checkpoint's tensors where ``start`` names one; else leave it as made.

    A checkpoint of another number of classes keeps its last layer to itself.

    Raises:
        WorkloadError: it can't be read, or is of another network.
    """
    from edgebench.layers.tensor_files import read_checkpoint

    if settings["start"] == SCRATCH:
        return
    file = Path(settings["start"])
    tensors = read_checkpoint(file)
    own = network.state_dict()
    fitting = {k: v for k, v in tensors.items() if k in own and v.shape == own[k].shape}
    last = _last_names(network)
    lacking = [name for name in own if name not in fitting and name not in last]
    if lacking:
        raise WorkloadError(
            f"the checkpoint lacks {lacking[0]} ({len(lacking)} of {len(own)} tensors don't fit)",
            where=str(file),
            remedy='name a checkpoint of this network, or start = "scratch"',
        )
    network.load_state_dict(fitting, strict=False)


def _last_names(network: nn.Module) -> set[str]:
    """Names of the last layer's tensors."""
    named = [(n, m) for n, m in network.named_modules() if any(True for _ in m.parameters(False))]
    name, layer = named[-1]
    return {f"{name}.{key}" if name else key for key in layer.state_dict()}
