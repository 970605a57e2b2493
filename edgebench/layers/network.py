"""A network whose layers have memory only while they are loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.cut import Call, Cut, LayerPart
from edgebench.layers.loaders import Tensors

PREPARE_AGAIN = "start the sweep again; it makes the weights that are missing"


@dataclass(frozen=True)
class SharedFile:
    """A file of tensors that have several names (tied weights).

    ``places``: tensor's name in the file → the parts that use it, and its name in each.
    """

    path: Path
    places: dict[str, list[tuple[str, str]]]

    def is_part_of(self, part: str) -> bool:
        """Whether the part uses a tensor in it."""
        return any(part == user for named in self.places.values() for user, _ in named)


@dataclass
class _Residence:
    """Who needs a part's weights now; a part called twice may be needed twice."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class LayeredNetwork:
    """A network built on ``meta``, cut into layers, and the files its layers load from.

    Args:
        name: its name.
        found: its cut, on ``meta``.
        files: part → weights file; a part without tensors has none.
        loader: from a file to tensors.
        shared: the files of tensors that have several names.

    Raises:
        WorkloadError: it lacks a file.
    """

    def __init__(
        self,
        name: str,
        model: nn.Module,
        found: Cut,
        files: Mapping[str, Path],
        loader: Callable[[Path], Tensors],
        shared: Sequence[SharedFile] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.cut = found
        self._files = dict(files)
        self._loader = loader
        parts = found.parts
        self._empty = {part.name: part.tensors() for part in parts.values()}
        places = {place for one in shared for named in one.places.values() for place in named}
        self._own = {
            part: {key: t for key, t in tensors.items() if (part, key) not in places}
            for part, tensors in self._empty.items()
        }
        self._shared = {name: [one for one in shared if one.is_part_of(name)] for name in parts}
        # One place of each: all its names are the same memory.
        named = [places[0] for one in shared for places in one.places.values()]
        self._shared_tensors = [self._empty[part][key] for part, key in named]
        self._residences = {part: _Residence() for part in (*parts, *(one.path for one in shared))}
        lacking = [part for part, tensors in self._own.items() if tensors and part not in files]
        if lacking:
            raise WorkloadError(f"no weights for {lacking[0]!r} of {name}", remedy=PREPARE_AGAIN)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all its tensors, those with several names once: what it takes when loaded."""
        own = (tensor for tensors in self._own.values() for tensor in tensors.values())
        return sum(tensor.nbytes for tensor in (*own, *self._shared_tensors))

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
        for shared in self._shared[call.part.name]:
            with self._taken(shared.path) as first:
                if first:
                    self._put_shared(shared, self._loader(shared.path))
        with self._taken(call.part.name) as first:
            if first and (file := self._files.get(call.part.name)):
                _put(call.part, self._loader(file))

    def unload(self, call: Call) -> None:
        """Give the memory back, unless another call of the same part needs it."""
        name = call.part.name
        with self._given_back(name) as last:
            if last:
                _put(call.part, self._own[name])
        for shared in self._shared[name]:
            with self._given_back(shared.path) as last:
                if last:
                    self._put_shared(shared, None)

    @contextmanager
    def _taken(self, what: str | Path) -> Iterator[bool]:
        """One user more; whether it is the first."""
        home = self._residences[what]
        with home.lock:
            home.users += 1
            yield home.users == 1

    @contextmanager
    def _given_back(self, what: str | Path) -> Iterator[bool]:
        """One user less; whether it was the last."""
        home = self._residences[what]
        with home.lock:
            home.users -= 1
            yield home.users == 0

    def _put_shared(self, shared: SharedFile, tensors: Tensors | None) -> None:
        """Each tensor under all its names; None takes it away again."""
        for name, places in shared.places.items():
            for part, key in places:
                tensor = tensors[name] if tensors else self._empty[part][key]
                _put(self.cut.parts[part], {key: tensor})


def _put(part: LayerPart, tensors: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        path, _, leaf = name.rpartition(".")
        module: nn.Module = part.module.get_submodule(path)
        if leaf in module._buffers:
            setattr(module, leaf, tensor)
        else:
            setattr(module, leaf, nn.Parameter(tensor, requires_grad=False))
