"""From a workload's settings to a pipeline that is ready to be loaded and executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import Accelerator
from edgebench.layers.cut import Cut
from edgebench.layers.empty_network import empty_network
from edgebench.layers.examination import cut_file, cut_of, reference_of, sample_of
from edgebench.layers.names import ADMISSION, GENERATE, INT8, STREAM
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.own_function import refuse_changed_files
from edgebench.layers.precision import int8_loader, loader_in, with_int8
from edgebench.layers.samples import Sample, map_sample
from edgebench.layers.schedules import Bulk, Generate, Linear, Schedule, Spans
from edgebench.layers.sources import network_source
from edgebench.layers.stream import Stream
from edgebench.layers.tensor_files import LOADERS, Tensors, map_file, map_read_only
from edgebench.layers.threaded_schedules import Admission, DeepEye, DeepEyeFrugal, Partial
from edgebench.layers.weights import CODE, shared_files, weight_files
from edgebench.text import choice_hint

T = TypeVar("T")

SCHEDULES: dict[str, type[Schedule]] = {
    "linear": Linear,
    "bulk": Bulk,
    "partial": Partial,
    "deepeye": DeepEye,
    "deepeye-frugal": DeepEyeFrugal,
    ADMISSION: Admission,
    STREAM: Stream,
}


@dataclass(frozen=True)
class Pipeline:
    """A schedule over its networks, and an input for each."""

    schedule: Schedule
    inputs: tuple[Sample, ...]


def build_pipeline(
    settings: Mapping[str, Any], spans: Spans, accelerator: Accelerator | None = None
) -> Pipeline:
    """Build the networks without memory for weights, and make each one's input from the seed.

    With an accelerator inputs lie in its memory, and so do weights when they are loaded; outputs
    are copied back at the end of each round.

    Raises:
        WorkloadError: no such network, schedule or loader; no weights; an image that is too small.
    """
    built = [_network(name, settings, accelerator) for name in settings["networks"]]
    schedule = _schedule([network for network, _ in built], settings, spans)
    samples = tuple(sample for _, sample in built)
    if accelerator is not None:
        samples = tuple(map_sample(sample, accelerator.to_accelerator) for sample in samples)
        schedule.fetch = lambda outputs: tree_map_only(torch.Tensor, accelerator.to_host, outputs)
    return Pipeline(schedule, samples)


def _schedule(
    networks: Sequence[LayeredNetwork], settings: Mapping[str, Any], spans: Spans
) -> Schedule:
    if settings["schedule"] == GENERATE:
        return Generate(networks, spans, settings["new_tokens"])
    made = _named("schedule", settings["schedule"], SCHEDULES)
    return made(networks, spans, settings["warm"], settings["workers"], settings.get("free_bytes"))


def _network(
    name: str, settings: Mapping[str, Any], accelerator: Accelerator | None
) -> tuple[LayeredNetwork, Sample]:
    """One network without memory for weights, and its input."""
    source = network_source(reference_of(name, settings))
    # A name that is no network has no weights; what builds it refuses it.
    folder = Path(settings["weights"].get(name, ""))
    source.use(folder)
    model = empty_network(source, settings["seed"]).model
    sample = sample_of(source, model, settings, settings["batch"])
    loader = _named("loader", settings["loader"], LOADERS)
    if settings["schedule"] == STREAM and loader is map_file:
        loader = map_read_only
    if precision := settings.get("precision"):
        model, sample, loader = _in_precision(precision, model, sample, folder)
    if accelerator is not None:
        loader = _loader_to(accelerator, loader)
    if source.has_weights:
        refuse_changed_files(json.loads((folder / CODE).read_text()), source.name)
        found = Cut.from_json(cut_file(folder, settings).read_text(), model)
    else:
        found = cut_of(source, model, sample)
    files, shared = weight_files(folder), shared_files(folder)
    return LayeredNetwork(name, model, found, files, loader, shared), sample


def _in_precision(
    name: str, model: nn.Module, sample: Sample, folder: Path
) -> tuple[nn.Module, Sample, Callable[[Path], Tensors]]:
    """The network on ``meta``, its input and its loader; only floating-point numbers change."""
    if name == INT8:
        model = with_int8(model)
        return model, sample, int8_loader(model, weight_files(folder))
    kind: torch.dtype = getattr(torch, name)
    sample = map_sample(sample, lambda t: t.to(kind) if t.is_floating_point() else t)
    return model.to(kind), sample, loader_in(kind)


def _loader_to(
    accelerator: Accelerator, load: Callable[[Path], Tensors]
) -> Callable[[Path], Tensors]:
    """Loads into the host's memory and copies that, which is then given back."""
    return lambda path: {k: accelerator.to_accelerator(t) for k, t in load(path).items()}


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise WorkloadError(f"no {what} {name!r}", remedy=choice_hint(name, known))
    return known[name]
