"""Linear layers with weights of one byte: dynamic quantisation.

Each output's weights have a scale of their own. Activations become integers in each execution, by
the range that each input has then. Files stay as they are; weights are converted as they are
loaded. PyTorch's own tensors of such numbers are deprecated; its product of integers stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from edgebench.layers.loaders import Tensors, copy, map_file
from edgebench.layers.precision import in_own_mapping

_LARGEST = 127
_WEIGHT, _SCALE = "weight", "scale"


class Int8Linear(nn.Module):
    """In place of a linear layer, with the same names of tensors; ``scale`` comes with the weight.

    A weight that is tied to another layer's stays as it is.
    """

    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

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
        if _WEIGHT in made:
            made[_WEIGHT], scales = _in_bytes(made[_WEIGHT])
            made[_SCALE] = scales.reshape(-1)
        return in_own_mapping(made, {name: tensor.dtype for name, tensor in made.items()})

    return load


def _in_bytes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers of one byte, and the scale of each row."""
    scales = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny) / _LARGEST
    return (rows / scales).round().to(torch.int8), scales
