"""A network cut into layers, which have memory only while they are loaded.

A layer is one call of a module that is run as a whole: a module without children, or one that
uses its children's weights without calling them (multi-head attention, Swin's attention). A
module that owns parameters beside children it calls (class tokens, layer scales) has a layer
for these parameters alone: they are needed from its entry to its exit. A forward pass shows
which modules it really calls.

A sample is what a forward pass is given; its output may nest tensors in anything.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from edgebench.errors import WorkloadError
from edgebench.layers.input_specs import ONLY, InputSpec
from edgebench.layers.tensor_files import Tensors


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


#: Modules that torch runs as one operator unless they, or what is in them, have hooks.
FUSED = (nn.TransformerEncoderLayer,)
#: A part, and a tensor's name in it.
Place = tuple[str, str]


@dataclass(frozen=True)
class LayerPart:
    """A module that is loaded and executed as one.

    Attributes:
        own_only: just the module's own tensors, since its children are parts of their own.
        silent: modules in it that are never called, though their own tensors are used.
    """

    name: str
    module: nn.Module
    own_only: bool
    silent: tuple[str, ...] = ()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its parameters and buffers by their names in the module."""
        tensors = named_tensors(self.module, not self.own_only)
        for child in self.silent:
            inside = named_tensors(self.module.get_submodule(child), False)
            tensors |= {f"{child}.{name}": tensor for name, tensor in inside.items()}
        return tensors

    def full_name(self, key: str) -> str:
        """Return a tensor's name in the whole network."""
        return f"{self.name}.{key}" if self.name else key


@dataclass(frozen=True)
class Call:
    """One layer: a call of a forward pass; ``order`` counts from 0."""

    order: int
    part: LayerPart


@dataclass(frozen=True)
class Cut:
    """A network's parts by name, and its layers in the order of their calls."""

    parts: dict[str, LayerPart]
    calls: tuple[Call, ...]

    def to_json(self) -> str:
        """Write it as text, for another instance of the network."""
        parts = {part.name: [part.own_only, *part.silent] for part in self.parts.values()}
        return json.dumps({"parts": parts, "calls": [call.part.name for call in self.calls]})

    @classmethod
    def from_json(cls, text: str, model: nn.Module) -> Cut:
        """Read what :meth:`to_json` wrote, for this instance of the network."""
        data = json.loads(text)
        parts = {
            name: LayerPart(name, model.get_submodule(name), own_only, tuple(silent))
            for name, (own_only, *silent) in data["parts"].items()
        }
        return cls(parts, tuple(Call(n, parts[name]) for n, name in enumerate(data["calls"])))

    def tied_places(self, tied: Sequence[Sequence[str]]) -> dict[str, list[Place]]:
        """Each tensor that several places use (tied weights): its name → these places.

        ``tied``: groups of full names that are one tensor.
        """
        places = {
            part.full_name(key): (part.name, key)
            for part in self.parts.values()
            for key in part.tensors()
        }
        used_in = {group[0]: [places[name] for name in group if name in places] for group in tied}
        return {name: used for name, used in used_in.items() if len(used) > 1}

    def tensor_at(self, place: Place) -> torch.Tensor:
        """Return the tensor at a place."""
        part, key = place
        return self.parts[part].tensors()[key]


def cut(model: nn.Module, sample: Sample) -> Cut:
    """Cut the model by two forward passes of ``sample`` (both may be on ``meta``).

    A model that can't run on such an input raises its own error.
    """
    uses = _Uses()
    with ExitStack() as stack, torch.inference_mode(), uses:
        for module in model.modules():
            handle = module.register_forward_pre_hook(lambda module, _: uses.called.add(module))
            stack.callback(handle.remove)
        run_model(model, sample)
    parts = {part.name: part for part in _parts(model, "", uses, set())}
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

    def watch(part: LayerPart) -> None:
        module = part.module
        if not isinstance(module, FUSED):
            before = module.register_forward_pre_hook(lambda module, args: enter(part))
            after = module.register_forward_hook(lambda module, args, output: leave(part, output))
            stack.callback(before.remove)
            stack.callback(after.remove)
            return
        # With a hook on it, torch would leave its one operator for the many.
        forward = module.forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            enter(part)
            output = forward(*args, **kwargs)
            leave(part, output)
            return output

        module.__dict__["forward"] = watched
        stack.callback(module.__dict__.pop, "forward")

    with ExitStack() as stack:
        for part in parts:
            watch(part)
        yield


class _Uses(TorchFunctionMode):
    """The modules that a forward pass calls, and the tensors that its operators are given.

    Attention uses weights without a call of the module that has them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.called: set[nn.Module] = set()
        self._used: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        self._used.update(id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
        return func(*args, **(kwargs or {}))

    def used_of(self, module: nn.Module, recurse: bool) -> bool:
        return any(id(tensor) in self._used for tensor in named_tensors(module, recurse).values())


def _parts(module: nn.Module, name: str, uses: _Uses, done: set[nn.Module]) -> Iterator[LayerPart]:
    if module in done:
        # The same module under a second name is the same part.
        return
    done.add(module)
    called = module in uses.called
    if called and _is_whole(module, name, uses):
        yield LayerPart(name, module, own_only=False)
        return
    # Modules that own tensors beside children they call.
    silent = tuple(_silent(module, "", uses)) if called else ()
    if called and (named_tensors(module, False) or silent):
        yield LayerPart(name, module, own_only=True, silent=silent)
    for child_name, child in module.named_children():
        yield from _parts(child, f"{name}.{child_name}" if name else child_name, uses, done)


def _silent(module: nn.Module, prefix: str, uses: _Uses) -> Iterator[str]:
    """Modules in it, below none that is called, of which own tensors are used."""
    for name, child in module.named_children():
        if child not in uses.called:
            if uses.used_of(child, False):
                yield prefix + name
            yield from _silent(child, f"{prefix}{name}.", uses)


def _is_whole(module: nn.Module, name: str, uses: _Uses) -> bool:
    """No children, or most weights in it are used without calling the child that has them."""
    children = list(module.children())
    if not children or isinstance(module, FUSED):
        return True
    # Used, though neither it nor (for a mere list of modules) a module in it was called.
    silent = [
        child
        for child in children
        if uses.used_of(child, True) and not any(m in uses.called for m in child.modules())
    ]
    calls_inside = any(m in uses.called for m in module.modules() if m is not module)
    if not silent or not calls_inside:
        return bool(silent)
    mine = sum(parameter.nbytes for parameter in module.parameters(recurse=False))
    return bool(name) and 2 * (mine + sum(map(_size, silent))) >= _size(module)


def _size(module: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


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
        network_cut: its parts and calls.
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
        network_cut: Cut,
        files: Mapping[str, Path],
        loader: Callable[[Path], Tensors],
        shared: Sequence[SharedFile] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.cut = network_cut
        self._files = dict(files)
        self._loader = loader
        self._empty = {part.name: part.tensors() for part in network_cut.parts.values()}
        tied = [places for file in shared for places in file.places.values()]
        tied_places = {place for places in tied for place in places}
        self._own = {
            part: {key: t for key, t in tensors.items() if (part, key) not in tied_places}
            for part, tensors in self._empty.items()
        }
        self._shared = {
            part: [file for file in shared if part in file.parts] for part in network_cut.parts
        }
        # The first place of each: all its names are the same memory.
        self._tied_bytes = sum(self._empty[part][key].nbytes for (part, key), *_ in tied)
        #: Who needs a part's or a shared file's weights now: a part called twice counts twice.
        self._users: dict[str | Path, int] = dict.fromkeys(network_cut.parts, 0)
        self._users |= {file.path: 0 for file in shared}
        self._locks = {what: threading.Lock() for what in self._users}
        lacking = [part for part, tensors in self._own.items() if tensors and part not in files]
        if lacking:
            raise WorkloadError(f"no weights for {lacking[0]!r} of {name}", remedy=PREPARE_AGAIN)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all its tensors when they are loaded; those with several names count once."""
        untied = sum(tensor.nbytes for tensors in self._own.values() for tensor in tensors.values())
        return untied + self._tied_bytes

    @property
    def calls(self) -> tuple[Call, ...]:
        """Its layers, in the order of their calls."""
        return self.cut.calls

    def first_calls(self) -> list[Call]:
        """Return the first call of each part: loading these loads all of the network."""
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
