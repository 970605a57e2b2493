"""A network whose layers have memory only while they are loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.cut import Call, Cut, LayerPart, Place
from edgebench.layers.tensor_files import Tensors

PREPARE_AGAIN = "start the sweep again; it makes the weights that are missing"


@dataclass(frozen=True)
class SharedFile:
    """A file of tensors that have several names (tied weights).

    ``places``: tensor's name in the file → the parts that use it, and its name in each.
    """

    path: Path
    places: dict[str, list[Place]]

    @property
    def parts(self) -> set[str]:
        """The parts that use a tensor in it."""
        return {part for places in self.places.values() for part, _ in places}


class LayeredNetwork:
    """A network built on ``meta``, cut into layers, and the files its layers load from.

    Args:
        name: its name.
        model: on ``meta``.
        found: its cut.
        files: part → weights file; a part without tensors has none.
        loader: makes tensors of a file.
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
        self._empty = {part.name: part.tensors() for part in found.parts.values()}
        tied = [places for one in shared for places in one.places.values()]
        tied_places = {place for places in tied for place in places}
        self._own = {
            part: {key: t for key, t in tensors.items() if (part, key) not in tied_places}
            for part, tensors in self._empty.items()
        }
        self._shared = {part: [one for one in shared if part in one.parts] for part in found.parts}
        # The first place of each: all its names are the same memory.
        self._tied_bytes = sum(self._empty[part][key].nbytes for (part, key), *_ in tied)
        #: Who needs a part's or a shared file's weights now: a part called twice counts twice.
        self._users: dict[str | Path, int] = dict.fromkeys(found.parts, 0)
        self._users |= {one.path: 0 for one in shared}
        self._locks = {what: threading.Lock() for what in self._users}
        lacking = [part for part, tensors in self._own.items() if tensors and part not in files]
        if lacking:
            raise WorkloadError(f"no weights for {lacking[0]!r} of {name}", remedy=PREPARE_AGAIN)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all its tensors when they are loaded; those with several names count once."""
        own = sum(tensor.nbytes for tensors in self._own.values() for tensor in tensors.values())
        return own + self._tied_bytes

    @property
    def calls(self) -> tuple[Call, ...]:
        """Its layers, in the order of their calls."""
        return self.cut.calls

    def first_calls(self) -> list[Call]:
        """The first call of each part: loading these loads all of it."""
        first: dict[str, Call] = {}
        for call in self.calls:
            first.setdefault(call.part.name, call)
        return list(first.values())

    def load(self, call: Call) -> None:
        """Have the call's weights in memory; nothing is read if they are there already."""
        for shared in self._shared[call.part.name]:
            with self._counted(shared.path, 1) as users:
                if users == 1:
                    self._put_shared(shared, self._loader(shared.path))
        with self._counted(call.part.name, 1) as users:
            if users == 1 and (file := self._files.get(call.part.name)):
                _put(call.part, self._loader(file))

    def unload(self, call: Call) -> None:
        """Give the memory back, unless another call of the same part needs it."""
        name = call.part.name
        with self._counted(name, -1) as users:
            if users == 0:
                _put(call.part, self._own[name])
        for shared in self._shared[name]:
            with self._counted(shared.path, -1) as users:
                if users == 0:
                    self._put_shared(shared, None)

    @contextmanager
    def _counted(self, what: str | Path, change: int) -> Iterator[int]:
        """How many need it after this change; nobody else changes it meanwhile."""
        with self._locks[what]:
            self._users[what] += change
            yield self._users[what]

    def _put_shared(self, shared: SharedFile, tensors: Tensors | None) -> None:
        """Put each tensor under all its names; None takes it away again."""
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
