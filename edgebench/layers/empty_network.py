"""Networks without memory for their weights: tensors have shapes, on ``meta``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from edgebench.errors import WorkloadError
from edgebench.layers.samples import named_tensors, tensors_in
from edgebench.layers.sources import EXAMPLE, NetworkSource


@dataclass(frozen=True)
class EmptyNetwork:
    """A network on ``meta``, in evaluation mode.

    Attributes:
        computed: buffers by name, as the constructor computes them: index tables, counts.
        tied: groups of names that are one tensor.
        light: whether it was built without memory for its weights from the start.
    """

    model: nn.Module
    computed: dict[str, torch.Tensor]
    tied: list[list[str]]
    light: bool


def empty_network(source: NetworkSource, seed: int = 0) -> EmptyNetwork:
    """The network on ``meta``; a constructor that can't do without memory gets it for a time.

    Its constructor's random numbers come from the seed.

    Raises:
        WorkloadError: it can't be built.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _built_light(source) if source.may_be_light else None
    light = model is not None
    if model is None:
        model = seeded_network(source, seed, weights=False)
    computed = {name: buffer for name, buffer in model.named_buffers() if not buffer.is_meta}
    names: dict[int, list[str]] = defaultdict(list)
    for name, tensor in named_tensors(model).items():
        names[id(tensor)].append(name)
    tied = [group for group in names.values() if len(group) > 1]
    # No gradients: torch's counter of operations would follow those of parameters.
    return EmptyNetwork(model.to("meta").eval().requires_grad_(False), computed, tied, light)


def seeded_network(source: NetworkSource, seed: int, weights: bool) -> nn.Module:
    """The network with memory for its weights; its random numbers come from the seed.

    Raises:
        WorkloadError: it can't be built.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return source.construct(weights).requires_grad_(False)


class _EmptyOnMeta(TorchFunctionMode):
    """What a constructor leaves to be filled is made on ``meta``; what it computes with is real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.empty and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _built_light(source: NetworkSource) -> nn.Module | None:
    try:
        with _EmptyOnMeta():
            model = source.construct(weights=False)
    except WorkloadError as error:
        if _is_about_meta(error):
            return None
        raise
    return None if _has_stray(model) else model


def _is_about_meta(error: BaseException | None) -> bool:
    """A constructor that computes with values that are not there fails with one of these words."""
    if error is None:
        return False
    words = str(error).lower()
    return "meta" in words or "is_nonzero" in words or _is_about_meta(error.__cause__)


def _has_stray(model: nn.Module) -> bool:
    """Whether a module keeps a tensor that is no parameter and no buffer: it must be as made."""
    own = ("_parameters", "_buffers", "_modules", EXAMPLE)
    kinds = (torch.Tensor, list, tuple, dict)
    listed = {id(tensor) for tensor in named_tensors(model).values()}
    kept = (
        value
        for module in model.modules()
        for key, value in vars(module).items()
        if key not in own and isinstance(value, kinds)
    )
    return any(id(tensor) not in listed for value in kept for tensor in tensors_in(value))
