"""From a workload's settings to a pipeline that is ready to be loaded and executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map_only

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import Accelerator, loader_to
from edgebench.layers.examination import (
    cut_file,
    cut_of,
    reference_of,
    sample_of,
    stored_cut,
)
from edgebench.layers.int8 import int8_loader, with_int8
from edgebench.layers.loaders import LOADERS, map_file, map_read_only
from edgebench.layers.names import ADMISSION, GENERATE, INT8, STREAM
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.precision import chosen_precision, loader_in, with_precision
from edgebench.layers.samples import Sample, moved_sample
from edgebench.layers.schedules import Bulk, Generate, Linear, Schedule, Spans
from edgebench.layers.sources import network_source
from edgebench.layers.sources.empty import empty_network
from edgebench.layers.stream import Stream
from edgebench.layers.threaded_schedules import Admission, DeepEye, DeepEyeFrugal, Partial
from edgebench.layers.weights import refuse_changed, shared_files, weight_files
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
        samples = tuple(moved_sample(sample, accelerator.to_accelerator) for sample in samples)
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
    # A name that is no network has no weights; that is said below.
    folder = Path(settings["weights"].get(name, ""))
    source.use(folder)
    model = empty_network(source, settings["seed"]).model
    sample = sample_of(source, model, settings, settings["batch"])
    loader = _named("loader", settings["loader"], LOADERS)
    if settings["schedule"] == STREAM and loader is map_file:
        loader = map_read_only
    if settings.get("precision") == INT8:
        model = with_int8(model)
        loader = int8_loader(model, weight_files(folder))
    elif precision := chosen_precision(settings):
        model, sample = with_precision(model, sample, precision)
        loader = loader_in(precision)
    if accelerator is not None:
        loader = loader_to(accelerator, loader)
    if source.has_weights:
        refuse_changed(source, folder)
        found = stored_cut(cut_file(folder, settings), model)
    else:
        found = cut_of(source, model, sample)
    files, shared = weight_files(folder), shared_files(folder)
    return LayeredNetwork(name, model, found, files, loader, shared), sample


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise WorkloadError(f"no {what} {name!r}", remedy=choice_hint(name, known))
    return known[name]
