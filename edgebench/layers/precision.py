"""Weights of fewer bits than in their files, converted as they are loaded.

``bfloat16`` and ``float16``: all numbers. ``int8``: the weights of linear layers are integers of
one byte (dynamic quantisation), with a scale for each output. Activations become integers in each
execution, by the range that each input has then. PyTorch's own tensors of such numbers are
deprecated; its product of integers stays.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from edgebench.layers.tensor_files import Tensors, copy, count_as_loaded, map_file

#: Tensors begin at multiples of this, as an allocator's do.
_ALIGNED = 64
_LARGEST = 127


def loader_in(precision: torch.dtype) -> Callable[[Path], Tensors]:
    """Reads a file, and keeps what it holds in this type, in memory of its own."""

    def load(path: Path) -> Tensors:
        stored = map_file(path)
        kinds = {k: precision if t.is_floating_point() else t.dtype for k, t in stored.items()}
        return _in_own_mapping(stored, kinds)

    return load


def _in_own_mapping(stored: Tensors, kinds: Mapping[str, torch.dtype]) -> Tensors:
    """Copies of these types in one piece of memory, which goes back with the last of them."""
    sizes = {k: t.numel() * kinds[k].itemsize for k, t in stored.items()}
    places, end = dict[str, int](), 0
    for name, size in sizes.items():
        places[name], end = end, -(-(end + size) // _ALIGNED) * _ALIGNED
    pages = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    count_as_loaded(pages)
    return {
        name: _copied(tensor, pages, places[name], kinds[name]) for name, tensor in stored.items()
    }


def _copied(tensor: torch.Tensor, pages: mmap.mmap, place: int, kind: torch.dtype) -> torch.Tensor:
    if not tensor.numel():
        return tensor.to(kind)
    flat = torch.frombuffer(pages, dtype=kind, count=tensor.numel(), offset=place)
    return flat.reshape(tensor.shape).copy_(tensor)


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
        made = torch._int_mm(integers, self.weight.t()).to(x.dtype) * scales * self.scale
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], -1)


def with_int8(model: nn.Module) -> nn.Module:
    """The network with its linear layers replaced; what is derived from such a layer stays."""
    made: dict[nn.Module, Int8Linear] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if name and type(module) is nn.Linear:
            model.set_submodule(name, made.setdefault(module, Int8Linear(module)))
    return model


def int8_loader(model: nn.Module, files: Mapping[str, Path]) -> Callable[[Path], Tensors]:
    """Reads a file, and makes bytes of linear layers' weights; ``files``: part → its file."""
    linear = {name for name, module in model.named_modules() if isinstance(module, Int8Linear)}
    converted = {file for part, file in files.items() if part in linear}

    def load(path: Path) -> Tensors:
        if path not in converted:
            return copy(path)
        made = map_file(path)
        # Of a tied weight the file is another one.
        if "weight" in made:
            made["weight"], scales = _in_bytes(made["weight"])
            made["scale"] = scales.reshape(-1)
        return _in_own_mapping(made, {name: tensor.dtype for name, tensor in made.items()})

    return load


def _in_bytes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers of one byte, and the scale of each row."""
    scales = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny) / _LARGEST
    return (rows / scales).round().to(torch.int8), scales
