"""What a training step holds, layer by layer, from a forward pass that takes no memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.cut import LayerPart, cut, watching
from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.names import PYTORCH
from edgebench.workloads.training.own_code import build_own_network
from edgebench.workloads.training.partial import WHOLE


@dataclass
class TrainingLayerRow:
    """One layer of a step, in the order of the calls; bytes and FLOPs of a part of the batch.

    Attributes:
        part: the module whose weights it uses: two layers may share one.
        file_bytes, trained_bytes: its weights, and those of them that get a gradient.
        output_bytes: what it makes; none if it writes in place or makes a view.
        kept_bytes: of its output, what autograd keeps until it goes backward.
        saved_bytes: what autograd keeps beside all outputs: masks, indices, sums in between.
        flops: of one forward pass.
    """

    order: int
    name: str
    type: str
    part: str
    file_bytes: int
    trained_bytes: int
    output_bytes: int = 0
    kept_bytes: int = 0
    saved_bytes: int = 0
    flops: int = 0


def training_rows(settings: Mapping[str, Any]) -> list[TrainingLayerRow]:
    """The layers of one training's step, from a forward pass on ``meta``: nothing takes memory.

    Raises:
        WorkloadError: there is no such network for such images; or what its step holds can't be
            told from one forward pass.
    """
    _check(settings)
    network, images = _on_meta(settings)
    try:
        return _Pass(network, images).rows()
    except EdgebenchError:
        raise
    except Exception as error:
        # A user's own network may raise anything.
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"no forward pass of {settings['network']}: {words}") from error


def _check(settings: Mapping[str, Any]) -> None:
    told = {
        f"framework {settings['framework']}": settings["framework"] != PYTORCH,
        "checkpointing": bool(settings["checkpointing"]),
        "data of your own": settings["shape"] is None,
        f"trained = {settings['trained']!r}": settings["trained"] != WHOLE,
    }
    for what, is_so in told.items():
        if is_so:
            raise WorkloadError(f"what a step with {what} holds is not modelled")


def _on_meta(settings: Mapping[str, Any]) -> tuple[nn.Module, torch.Tensor]:
    """The network in training, and a part of a batch of images."""
    from edgebench.workloads.training.pytorch.networks import build_network, channels_read

    channels, height, width = map(int, settings["shape"].split("x"))
    edge = settings["image"]
    problem = Problem((channels, edge or height, edge or width), settings["classes"], 255)
    dtype = torch.bfloat16 if settings["precision"] == "bfloat16" else torch.float32
    with torch.device("meta"):
        own = build_own_network(settings)
        network = (own or build_network(settings, problem)).train().to(dtype)
    read = problem.shape[0] if own else channels_read(settings["network"], problem)
    shape = settings["batch"] // settings["accumulation"], read, *problem.shape[1:]
    return network, torch.empty(shape, device="meta", dtype=dtype)


class _Pass:
    """A forward pass that records what autograd keeps. On ``meta`` all can be held."""

    def __init__(self, network: nn.Module, images: torch.Tensor) -> None:
        self._network, self._images = network, images
        weights = (*network.parameters(), *network.buffers())
        self._given = {one._cdata for one in _storages((*weights, images))}
        self._rows: list[TrainingLayerRow] = []
        self._inside: list[tuple[TrainingLayerRow, int]] = []
        self._counter = FlopCounterMode(display=False)
        #: Memory by its number → what it is, and the layer that was under way.
        self._outputs: dict[int, tuple[torch.UntypedStorage, TrainingLayerRow]] = {}
        self._saved: dict[int, tuple[torch.UntypedStorage, TrainingLayerRow]] = {}

    def rows(self) -> list[TrainingLayerRow]:
        """Every layer."""
        parts = cut(self._network, self._images).parts
        hooks = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)
        with self._counter, hooks, watching(parts.values(), self._enter, self._leave):
            self._network(self._images)
        for key, (storage, row) in self._saved.items():
            if key in self._outputs:
                self._outputs[key][1].kept_bytes += storage.nbytes()
            else:
                row.saved_bytes += storage.nbytes()
        return self._rows

    def _enter(self, part: LayerPart) -> None:
        self._rows.append(_row(len(self._rows), part))
        self._inside.append((self._rows[-1], self._counter.get_total_flops()))

    def _leave(self, part: LayerPart, output: Any) -> None:
        row, before = self._inside.pop()
        if part.own_only:
            return
        row.flops = self._counter.get_total_flops() - before
        for storage in _storages(tree_leaves(output)):
            if storage._cdata not in self._outputs:
                self._outputs[storage._cdata] = storage, row
                row.output_bytes += storage.nbytes()

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        (storage,) = _storages([tensor])
        if storage._cdata not in self._given:
            self._saved.setdefault(storage._cdata, (storage, self._rows[-1]))
        return tensor


def _storages(values: Any) -> Iterator[torch.UntypedStorage]:
    return (one.untyped_storage() for one in values if isinstance(one, torch.Tensor))


def _row(order: int, part: LayerPart) -> TrainingLayerRow:
    own = " (own)" if part.own_only else ""
    tensors = part.tensors().values()
    return TrainingLayerRow(
        order=order,
        name=part.name or "(network)",
        type=type(part.module).__name__ + own,
        part=part.name,
        file_bytes=sum(one.nbytes for one in tensors),
        trained_bytes=sum(one.nbytes for one in tensors if one.requires_grad),
    )


def describe_steps(request: Mapping[str, Any]) -> dict[str, Any]:
    """``tables``, each training's rows, and ``untold``, a reason for each that has none.

    The request: ``workloads``, settings of trainings by any key.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    untold: dict[str, str] = {}
    for key, settings in request["workloads"].items():
        try:
            tables[key] = [asdict(row) for row in training_rows(settings)]
        except EdgebenchError as error:
            untold[key] = error.what
    return {"tables": tables, "untold": untold}
