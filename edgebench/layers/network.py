"""A network whose layers have memory only while they are loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.cut import Call, Cut, Part, cut
from edgebench.layers.loaders import Tensors

PREPARE_AGAIN = "give the folder that `python -m edgebench.layers.prepare` answered with"


@dataclass
class _Residence:
    """Who needs a part's weights now; a part called twice may be needed twice."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class LayeredNetwork:
    """A network built on ``meta``, cut into layers, and the files its layers load from.

    Args:
        name: its name.
        model: the network on ``meta``, in evaluation mode.
        sample: a ``meta`` tensor of the input's shape.
        files: part → weights file; a part without tensors has none.
        loader: from a file to tensors.

    Raises:
        WorkloadError: the model can't run on such an input, or lacks a file.
    """

    def __init__(
        self,
        name: str,
        model: nn.Module,
        sample: torch.Tensor,
        files: Mapping[str, Path],
        loader: Callable[[Path], Tensors],
    ) -> None:
        self.name = name
        self.model = model
        self.cut: Cut = cut(model, sample)
        self._files = dict(files)
        self._loader = loader
        self._empty = {part.name: part.tensors() for part in self.cut.parts.values()}
        self._residences = {part: _Residence() for part in self.cut.parts}
        lacking = [part for part, tensors in self._empty.items() if tensors and part not in files]
        if lacking:
            raise WorkloadError(f"no weights for {lacking[0]!r} of {name}", remedy=PREPARE_AGAIN)

    @property
    def calls(self) -> tuple[Call, ...]:
        """Its layers, in the order of their calls."""
        return self.cut.calls

    def first_calls(self) -> list[Call]:
        """The first call of each part: what has to be loaded to have all of it."""
        first: dict[str, Call] = {}
        for call in self.calls:
            first.setdefault(call.part.name, call)
        return list(first.values())

    def load(self, call: Call) -> None:
        """Have the call's weights in memory; nothing is read if they are there already."""
        home = self._residences[call.part.name]
        with home.lock:
            home.users += 1
            if home.users == 1 and (file := self._files.get(call.part.name)):
                _put(call.part, self._loader(file))

    def unload(self, call: Call) -> None:
        """Give the memory back, unless another call of the same part needs it."""
        home = self._residences[call.part.name]
        with home.lock:
            home.users -= 1
            if home.users == 0:
                _put(call.part, self._empty[call.part.name])


def _put(part: Part, tensors: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        path, _, leaf = name.rpartition(".")
        module: nn.Module = part.module.get_submodule(path)
        if leaf in module._buffers:
            setattr(module, leaf, tensor)
        else:
            setattr(module, leaf, nn.Parameter(tensor, requires_grad=False))
