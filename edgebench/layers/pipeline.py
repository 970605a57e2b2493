"""From a workload's settings to a pipeline that is ready to be loaded and executed.

Its weights may have fewer bits than in their files; they are converted as they are loaded.
``bfloat16`` and ``float16``: all numbers. ``int8``: the weights of linear layers are integers of
one byte (dynamic quantisation), with a scale for each output. Activations become integers in each
execution, by the range that each input has then. PyTorch's own tensors of such numbers are
deprecated; its product of integers stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from edgebench.layers.accelerator import Accelerator
from edgebench.layers.examination import cut_file, cut_of, reference_of, sample_of
from edgebench.layers.network import Cut, LayeredNetwork, Sample, map_sample
from edgebench.layers.references import ADMISSION, GENERATE, INT8, STREAM, refuse_changed_files
from edgebench.layers.schedules import (
    Admission,
    Bulk,
    DeepEye,
    DeepEyeFrugal,
    Generate,
    Linear,
    Partial,
    Schedule,
    Spans,
)
from edgebench.layers.sources import empty_network, network_source
from edgebench.layers.stream import Stream
from edgebench.layers.tensor_files import (
    LOADERS,
    Tensors,
    copy,
    in_own_mapping,
    loader_in,
    map_file,
    map_read_only,
)
from edgebench.layers.weights import CODE, shared_files, weight_files

_LARGEST = 127


class Int8Linear(nn.Module):
    """In place of a linear layer, with the same names of tensors; ``scale`` comes with the weight.

    A weight that is tied to another layer's stays as it is.
    """

    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        # Registered, so that it goes with the weight: they share one mapping.
        self.register_buffer("scale", torch.empty(linear.out_features, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As a linear layer's."""
        if self.weight.dtype is not torch.int8:
            return nn.functional.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        integers, scales = _in_bytes(rows)
        outputs = torch._int_mm(integers, self.weight.t()).to(x.dtype) * scales * self.scale
        if self.bias is not None:
            outputs += self.bias
        return outputs.reshape(*x.shape[:-1], -1)


def with_int8(model: nn.Module) -> nn.Module:
    """Replace the network's linear layers, but not those of a derived class."""
    replaced: dict[nn.Module, Int8Linear] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if name and type(module) is nn.Linear:
            model.set_submodule(name, replaced.setdefault(module, Int8Linear(module)))
    return model


def int8_loader(model: nn.Module, files: Mapping[str, Path]) -> Callable[[Path], Tensors]:
    """Return a loader that makes bytes of linear layers' weights; ``files``: part → its file."""
    linear = {name for name, module in model.named_modules() if isinstance(module, Int8Linear)}
    converted = {file for part, file in files.items() if part in linear}

    def load(path: Path) -> Tensors:
        if path not in converted:
            return copy(path)
        tensors = map_file(path)
        # A tied weight is in another file.
        if "weight" in tensors:
            tensors["weight"], scales = _in_bytes(tensors["weight"])
            tensors["scale"] = scales.reshape(-1)
        return in_own_mapping(tensors, {name: tensor.dtype for name, tensor in tensors.items()})

    return load


def _in_bytes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scales = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny) / _LARGEST
    return (rows / scales).round().to(torch.int8), scales


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
        WorkloadError: no such network; no weights; an image that is too small.
    """
    built = [_layered(name, settings, accelerator) for name in settings["networks"]]
    networks = [network for network, _ in built]
    schedule: Schedule
    if settings["schedule"] == GENERATE:
        schedule = Generate(networks, spans, settings["new_tokens"])
    else:
        kind = SCHEDULES[settings["schedule"]]
        free_bytes = settings.get("free_bytes")
        schedule = kind(networks, spans, settings["warm"], settings["workers"], free_bytes)
    samples = tuple(sample for _, sample in built)
    if accelerator is not None:
        samples = tuple(map_sample(sample, accelerator.to_accelerator) for sample in samples)
        schedule.fetch = lambda outputs: tree_map_only(torch.Tensor, accelerator.to_host, outputs)
    return Pipeline(schedule, samples)


def _layered(
    name: str, settings: Mapping[str, Any], accelerator: Accelerator | None
) -> tuple[LayeredNetwork, Sample]:
    source = network_source(reference_of(name, settings))
    # A name that is no network has no weights; what builds it refuses it.
    folder = Path(settings["weights"].get(name, ""))
    source.use(folder)
    model = empty_network(source, settings["seed"]).model
    sample = sample_of(source, model, settings, settings["batch"])
    loader = LOADERS[settings["loader"]]
    if settings["schedule"] == STREAM and loader is map_file:
        loader = map_read_only
    precision = settings.get("precision")
    if precision == INT8:
        model = with_int8(model)
        loader = int8_loader(model, weight_files(folder))
    elif precision:
        # Only floating-point numbers change.
        kind: torch.dtype = getattr(torch, precision)
        sample = map_sample(sample, lambda t: t.to(kind) if t.is_floating_point() else t)
        model, loader = model.to(kind), loader_in(kind)
    if accelerator is not None:
        # The host's memory is given back once it is copied.
        load, to_accelerator = loader, accelerator.to_accelerator
        loader = lambda path: {k: to_accelerator(t) for k, t in load(path).items()}  # noqa: E731
    if source.has_weights:
        refuse_changed_files(json.loads((folder / CODE).read_text()), source.name)
        network_cut = Cut.from_json(cut_file(folder, settings).read_text(), model)
    else:
        network_cut = cut_of(source, model, sample)
    files, shared = weight_files(folder), shared_files(folder)
    return LayeredNetwork(name, model, network_cut, files, loader, shared), sample
