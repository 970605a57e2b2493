"""Samples: the arguments of a forward pass, and the tensors in anything that it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from edgebench.layers.input_specs import ONLY, InputSpec


@dataclass(frozen=True)
class CallArguments:
    """Arguments of a forward pass that are not one tensor alone, in any nesting."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


#: One tensor, the only argument; or all arguments.
Sample = torch.Tensor | CallArguments


def run_model(model: nn.Module, sample: Sample) -> Any:
    """Run one forward pass."""
    if isinstance(sample, torch.Tensor):
        return model(sample)
    return model(*sample.args, **sample.kwargs)


def map_sample(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    """Change each tensor of a sample."""
    if isinstance(sample, torch.Tensor):
        return change(sample)
    args, kwargs = tree_map_only(torch.Tensor, change, (sample.args, sample.kwargs))
    return CallArguments(args, kwargs)


def make_sample(inputs: Mapping[str, InputSpec], batch: int, seed: int) -> Sample:
    """Make the described input, equal for equal seeds: tensors, plain numbers and text."""
    generator = torch.Generator().manual_seed(seed)
    values = {name: made_value(spec.batched(batch), generator) for name, spec in inputs.items()}
    only = values.get(ONLY)
    if ONLY in values and not isinstance(only, torch.Tensor):
        return CallArguments(args=(only,))
    return only if isinstance(only, torch.Tensor) else CallArguments(kwargs=values)


def made_value(spec: InputSpec, generator: torch.Generator) -> Any:
    """Make a tensor; a value without a type, or a text, is an object of Python's."""
    if spec.value is not None and (spec.dtype is None or isinstance(spec.value, str)):
        return spec.value
    dtype = getattr(torch, spec.dtype or "float32")
    if spec.value is not None:
        return torch.full(spec.shape or (), spec.value, dtype=dtype)
    assert spec.shape is not None
    if spec.below is not None:
        return torch.randint(spec.below, spec.shape, generator=generator, dtype=dtype)
    if spec.fill == "arange":
        return torch.arange(spec.shape[-1], dtype=dtype).expand(spec.shape).contiguous()
    if spec.fill == "uniform":
        return torch.rand(spec.shape, generator=generator).to(dtype)
    return torch.full(spec.shape, spec.fill == "ones", dtype=dtype)


def named_tensors(module: nn.Module, recurse: bool = True) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers; a tensor with two names is there twice."""
    return {
        **dict(module.named_parameters(recurse=recurse, remove_duplicate=False)),
        **dict(module.named_buffers(recurse=recurse, remove_duplicate=False)),
    }


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor in nested mappings, sequences, dataclasses and other objects."""
    yield from _tensors(value, set())


def _tensors(value: Any, visited: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    if (
        isinstance(value, (str, bytes, int, float, complex, type(None), type))
        or id(value) in visited
    ):
        return
    visited.add(id(value))
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from _tensors(part, visited)


def tensor_bytes(value: Any) -> Iterator[bytes]:
    """Yield the bytes of every tensor in a value, in order."""
    for tensor in tensors_in(value):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().tobytes()


def some_values(value: Any, count: int) -> list[float | None]:
    """Pick at most ``count`` of all its numbers, evenly spaced; None for one that isn't finite."""
    flat = [t.detach().reshape(-1) for t in tensors_in(value) if t.numel()]
    total = sum(part.numel() for part in flat)
    wanted = sorted({place * total // count for place in range(count)}) if total else []
    picked, before = list[float | None](), 0
    for part in flat:
        inside = [place - before for place in wanted if before <= place < before + part.numel()]
        numbers = part[inside].to(torch.float64).tolist() if inside else []
        picked += [number if math.isfinite(number) else None for number in numbers]
        before += part.numel()
    return picked
