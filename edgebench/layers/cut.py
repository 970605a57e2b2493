"""Cut a network into layers by what a forward pass really calls.

A layer is one call of a module that is run as a whole: a module without children, or one that
uses its children's weights without calling them (multi-head attention, Swin's attention). A
module that owns parameters beside children it calls (class tokens, layer scales) has a layer
for these parameters alone: they are needed from its entry to its exit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from edgebench.errors import WorkloadError


@dataclass(frozen=True)
class Part:
    """A module that is loaded and executed as one.

    ``own_only``: just the module's own tensors, since its children are parts of their own.
    """

    name: str
    module: nn.Module
    own_only: bool

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its parameters and buffers by their names in the module."""
        recurse = not self.own_only
        found = dict(self.module.named_parameters(recurse=recurse))
        return {**found, **dict(self.module.named_buffers(recurse=recurse))}


@dataclass(frozen=True)
class Call:
    """One layer: the order'th call of a forward pass."""

    order: int
    part: Part


@dataclass(frozen=True)
class Cut:
    """A network's parts by name, and its layers in the order of their calls."""

    parts: dict[str, Part]
    calls: tuple[Call, ...]


def cut(model: nn.Module, sample: torch.Tensor) -> Cut:
    """Cut the model by two forward passes of ``sample`` (both may be on ``meta``).

    Raises:
        WorkloadError: the model can't run on an input of this shape.
    """
    try:
        seen = _look(model, sample)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise WorkloadError(
            f"this network can't run on an input of {tuple(sample.shape)}: {_first_line(error)}",
            where=type(model).__name__,
            remedy="leave `image` out, or choose a size that the network was made for",
        ) from error
    parts = {part.name: part for part in _parts(model, "", seen, set())}
    calls: list[Call] = []
    with (
        watching(
            parts.values(), lambda p: calls.append(Call(len(calls), p)), lambda p, output: None
        ),
        torch.inference_mode(),
    ):
        model(sample)
    return Cut(parts, tuple(calls))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def watching(
    parts: Iterable[Part], enter: Callable[[Part], None], leave: Callable[[Part, Any], None]
) -> Iterator[None]:
    """Call ``enter`` before each call of a part, and ``leave`` with its output after it.

    Both run in the thread that runs the forward pass.
    """
    handles: list[RemovableHandle] = []
    for part in parts:
        handles.append(part.module.register_forward_pre_hook(_before(part, enter)))
        handles.append(part.module.register_forward_hook(_after(part, leave)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(part: Part, enter: Callable[[Part], None]) -> Callable[..., None]:
    def hook(module: nn.Module, args: object) -> None:
        enter(part)

    return hook


def _after(part: Part, leave: Callable[[Part, Any], None]) -> Callable[..., None]:
    def hook(module: nn.Module, args: object, output: Any) -> None:
        leave(part, output)

    return hook


@dataclass
class _Seen:
    """Modules that a forward pass called, and tensors that it used."""

    called: set[nn.Module] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def uses(self, module: nn.Module) -> bool:
        return any(id(tensor) in self.used for tensor in module.parameters())


class _Uses(TorchFunctionMode):
    """Notes each tensor that an operator is given: attention uses weights without a call."""

    def __init__(self, seen: _Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        self._seen.used.update(id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
        return func(*args, **(kwargs or {}))


def _look(model: nn.Module, sample: torch.Tensor) -> _Seen:
    seen = _Seen()
    handles = [
        m.register_forward_pre_hook(lambda m, _: seen.called.add(m)) for m in model.modules()
    ]
    try:
        with torch.inference_mode(), _Uses(seen):
            model(sample)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _parts(module: nn.Module, name: str, seen: _Seen, done: set[nn.Module]) -> Iterator[Part]:
    if module in done:
        # The same module under a second name is the same part.
        return
    done.add(module)
    called = module in seen.called
    if called and _whole(module, seen):
        yield Part(name, module, own_only=False)
        return
    if called and any(True for _ in (*module.parameters(False), *module.buffers(False))):
        yield Part(name, module, own_only=True)
    for child_name, child in module.named_children():
        yield from _parts(child, f"{name}.{child_name}" if name else child_name, seen, done)


def _whole(module: nn.Module, seen: _Seen) -> bool:
    """No children, or a child's weights are used without calling the child."""
    children = list(module.children())
    return not children or any(c not in seen.called and _used_silently(c, seen) for c in children)


def _used_silently(module: nn.Module, seen: _Seen) -> bool:
    """Used, though neither it nor (for a mere list of modules) what is in it was called."""
    return seen.uses(module) and not any(m in seen.called for m in module.modules())
