"""Weights in numbers of half the size, made as they are loaded."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.layers.loaders import Tensors, hold_tensors, map_file
from edgebench.layers.samples import Sample, converted_sample

#: Tensors begin at multiples of this, as an allocator's do.
_ALIGNED = 64


def chosen_precision(settings: Mapping[str, Any]) -> torch.dtype | None:
    """The type that weights are to have; None: that of their files."""
    name = settings.get("precision")
    found: torch.dtype | None = getattr(torch, name) if name else None
    return found


def with_precision(
    model: nn.Module, sample: Sample, precision: torch.dtype
) -> tuple[nn.Module, Sample]:
    """The network on ``meta`` and its input; what is no floating-point number stays as it is."""
    return model.to(precision), converted_sample(sample, precision)


def loader_in(precision: torch.dtype) -> Callable[[Path], Tensors]:
    """Reads a file, and keeps what it holds in this type, in memory of its own."""

    def load(path: Path) -> Tensors:
        stored = map_file(path)
        kinds = {k: precision if t.is_floating_point() else t.dtype for k, t in stored.items()}
        return in_own_mapping(stored, kinds)

    return load


def in_own_mapping(stored: Tensors, kinds: Mapping[str, torch.dtype]) -> Tensors:
    """Copies of these types in one piece of memory, which goes back with the last of them."""
    sizes = {k: t.numel() * kinds[k].itemsize for k, t in stored.items()}
    places, end = dict[str, int](), 0
    for name, size in sizes.items():
        places[name], end = end, -(-(end + size) // _ALIGNED) * _ALIGNED
    pages = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    hold_tensors(pages)
    return {
        name: _copied(tensor, pages, places[name], kinds[name]) for name, tensor in stored.items()
    }


def _copied(tensor: torch.Tensor, pages: mmap.mmap, place: int, kind: torch.dtype) -> torch.Tensor:
    if not tensor.numel():
        return tensor.to(kind)
    flat = torch.frombuffer(pages, dtype=kind, count=tensor.numel(), offset=place)
    return flat.reshape(tensor.shape).copy_(tensor)
