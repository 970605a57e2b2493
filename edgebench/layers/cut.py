"""Cut a network into layers by what a forward pass really calls.

A layer is one call of a module that is run as a whole: a module without children, or one that
uses its children's weights without calling them (multi-head attention, Swin's attention). A
module that owns parameters beside children it calls (class tokens, layer scales) has a layer
for these parameters alone: they are needed from its entry to its exit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from edgebench.layers.samples import Sample, run_model

#: Modules that torch runs as one operator unless they, or what is in them, have hooks.
FUSED = (nn.TransformerEncoderLayer,)


@dataclass(frozen=True)
class LayerPart:
    """A module that is loaded and executed as one.

    ``own_only``: just the module's own tensors, since its children are parts of their own.
    ``silent``: modules in it that are never called, whose own tensors it uses all the same.
    """

    name: str
    module: nn.Module
    own_only: bool
    silent: tuple[str, ...] = ()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its parameters and buffers by their names in the module."""
        found = _tensors_of(self.module, not self.own_only)
        for child in self.silent:
            inside = _tensors_of(self.module.get_submodule(child), False)
            found |= {f"{child}.{name}": tensor for name, tensor in inside.items()}
        return found


def _tensors_of(module: nn.Module, recurse: bool) -> dict[str, torch.Tensor]:
    """A tensor with two names is there twice: each name has to be filled."""
    return {
        **dict(module.named_parameters(recurse=recurse, remove_duplicate=False)),
        **dict(module.named_buffers(recurse=recurse, remove_duplicate=False)),
    }


@dataclass(frozen=True)
class Call:
    """One layer: the order'th call of a forward pass."""

    order: int
    part: LayerPart


@dataclass(frozen=True)
class Cut:
    """A network's parts by name, and its layers in the order of their calls."""

    parts: dict[str, LayerPart]
    calls: tuple[Call, ...]


def cut(model: nn.Module, sample: Sample) -> Cut:
    """Cut the model by two forward passes of ``sample`` (both may be on ``meta``).

    A model that can't run on such an input raises whatever it raises.
    """
    seen = _look(model, sample)
    parts = {part.name: part for part in _parts(model, "", seen, set())}
    calls: list[Call] = []
    with (
        watching(
            parts.values(), lambda p: calls.append(Call(len(calls), p)), lambda p, output: None
        ),
        torch.inference_mode(),
    ):
        run_model(model, sample)
    return Cut(parts, tuple(calls))


@contextmanager
def watching(
    parts: Iterable[LayerPart],
    enter: Callable[[LayerPart], None],
    leave: Callable[[LayerPart, Any], None],
) -> Iterator[None]:
    """Call ``enter`` before each call of a part, and ``leave`` with its output after it.

    Both run in the thread that runs the forward pass.
    """
    with ExitStack() as stack:
        for part in parts:
            if isinstance(part.module, FUSED):
                stack.enter_context(_wrapped(part, enter, leave))
                continue
            for handle in (
                part.module.register_forward_pre_hook(_before(part, enter)),
                part.module.register_forward_hook(_after(part, leave)),
            ):
                stack.callback(handle.remove)
        yield


@contextmanager
def _wrapped(
    part: LayerPart, enter: Callable[[LayerPart], None], leave: Callable[[LayerPart, Any], None]
) -> Iterator[None]:
    """The same without a hook, at whose sight torch would leave its one operator for the many."""
    forward = part.module.forward

    def watched(*args: Any, **kwargs: Any) -> Any:
        enter(part)
        output = forward(*args, **kwargs)
        leave(part, output)
        return output

    part.module.__dict__["forward"] = watched
    try:
        yield
    finally:
        del part.module.__dict__["forward"]


def _before(part: LayerPart, enter: Callable[[LayerPart], None]) -> Callable[..., None]:
    def hook(module: nn.Module, args: object) -> None:
        enter(part)

    return hook


def _after(part: LayerPart, leave: Callable[[LayerPart, Any], None]) -> Callable[..., None]:
    def hook(module: nn.Module, args: object, output: Any) -> None:
        leave(part, output)

    return hook


@dataclass
class _Seen:
    """Modules that a forward pass called, and tensors that it used."""

    called: set[nn.Module] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def uses(self, module: nn.Module) -> bool:
        return any(id(tensor) in self.used for tensor in _tensors_of(module, True).values())

    def uses_own(self, module: nn.Module) -> bool:
        return any(id(tensor) in self.used for tensor in _tensors_of(module, False).values())

    def calls_inside(self, module: nn.Module) -> bool:
        return any(inner in self.called for inner in module.modules() if inner is not module)


class _Uses(TorchFunctionMode):
    """Notes each tensor that an operator is given: attention uses weights without a call."""

    def __init__(self, seen: _Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        self._seen.used.update(id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
        return func(*args, **(kwargs or {}))


def _look(model: nn.Module, sample: Sample) -> _Seen:
    seen = _Seen()
    handles = [
        m.register_forward_pre_hook(lambda m, _: seen.called.add(m)) for m in model.modules()
    ]
    try:
        with torch.inference_mode(), _Uses(seen):
            run_model(model, sample)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _parts(module: nn.Module, name: str, seen: _Seen, done: set[nn.Module]) -> Iterator[LayerPart]:
    if module in done:
        # The same module under a second name is the same part.
        return
    done.add(module)
    called = module in seen.called
    if called and _whole(module, name, seen):
        yield LayerPart(name, module, own_only=False)
        return
    silent = tuple(_silent(module, "", seen)) if called else ()
    own = any(True for _ in (*module.parameters(False), *module.buffers(False)))
    if called and (own or silent):
        yield LayerPart(name, module, own_only=True, silent=silent)
    for child_name, child in module.named_children():
        yield from _parts(child, f"{name}.{child_name}" if name else child_name, seen, done)


def _silent(module: nn.Module, prefix: str, seen: _Seen) -> Iterator[str]:
    """Modules in it, reached by none that is called, of which own tensors are used."""
    for name, child in module.named_children():
        if child not in seen.called:
            if seen.uses_own(child):
                yield prefix + name
            yield from _silent(child, f"{prefix}{name}.", seen)


def _whole(module: nn.Module, name: str, seen: _Seen) -> bool:
    """No children, or most weights in it are used without calling the child that has them."""
    children = list(module.children())
    if not children or isinstance(module, FUSED):
        return True
    silent = [child for child in children if _used_silently(child, seen)]
    if not silent or not seen.calls_inside(module):
        return bool(silent)
    mine = sum(parameter.nbytes for parameter in module.parameters(recurse=False))
    return bool(name) and 2 * (mine + sum(map(_size, silent))) >= _size(module)


def _size(module: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


def _used_silently(module: nn.Module, seen: _Seen) -> bool:
    """Used, though neither it nor (for a mere list of modules) what is in it was called."""
    if module in seen.called:
        return False
    return seen.uses(module) and not any(m in seen.called for m in module.modules())
