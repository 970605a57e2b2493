"""What a training step does, from steps on ``meta``, which takes no memory: layers, operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.cut import Cut, LayerPart, cut, watching
from edgebench.workloads.training.backend import Problem
from edgebench.workloads.training.data_sources import data_bytes
from edgebench.workloads.training.names import PYTORCH
from edgebench.workloads.training.own_code import build_own_network, own_loss
from edgebench.workloads.training.partial import FILTERS, NOTHING, parse_part
from edgebench.workloads.training.step_operations import INIT, StepOperation, operations_key
from edgebench.workloads.training.step_trace import traced_steps

_NUMBERS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
#: What no memory depends on.
_LEARNING_RATE, _SEED = 1e-3, 0


@dataclass
class TrainingLayerRow:
    """One layer of a step, in the order of the calls; bytes and FLOPs of a part of the batch.

    Attributes:
        part: the module whose weights it uses: two layers may share one.
        file_bytes, trained_bytes: its weights, and those of them that get a gradient.
        output_bytes: what it makes; none if it writes in place or makes a view.
        flops: of one forward pass.
    """

    order: int
    name: str
    type: str
    part: str
    file_bytes: int
    trained_bytes: int
    output_bytes: int = 0
    flops: int = 0


@dataclass(frozen=True)
class StepDescription:
    """The layers of a training's step, and the operations of two steps."""

    rows: list[TrainingLayerRow]
    operations: list[StepOperation]


def described_training(settings: Mapping[str, Any]) -> StepDescription:
    """One training, from steps on ``meta``.

    Raises:
        WorkloadError: there is no such network for such images; or what its steps do can't be told
            beforehand.
    """
    _check(settings)
    step = _MetaStep(settings)
    try:
        return step.described()
    except EdgebenchError:
        raise
    except Exception as error:
        # A user's own network may raise anything.
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"no step of {settings['network']} on meta: {words}") from error


def _check(settings: Mapping[str, Any]) -> None:
    told = {
        f"framework {settings['framework']}": settings["framework"] != PYTORCH,
        "data of your own": settings["shape"] is None,
        f"trained = {settings['trained']!r}": parse_part(settings["trained"]).kind == FILTERS,
    }
    for what, is_so in told.items():
        if is_so:
            raise WorkloadError(f"what a step with {what} holds is not modelled")


class _MetaStep:
    """A training on ``meta``: its network, and how a part of a batch is made."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from edgebench.workloads.training.pytorch.networks import (
            build_network,
            channels_read,
            checkpoint_blocks,
        )

        self._settings = settings
        self._shape = tuple(map(int, settings["shape"].split("x")))
        channels, height, width = self._shape
        edge = settings["image"]
        problem = Problem((channels, edge or height, edge or width), settings["classes"], 255)
        self._size = problem.shape
        self._number_type = _NUMBERS[settings["precision"]]
        with torch.device("meta"):
            own = build_own_network(settings)
            network = own or build_network(settings, problem)
            self._network = network.train(settings["trained"] != NOTHING).to(self._number_type)
        self._read = channels if own else channels_read(settings["network"], problem)
        if settings["checkpointing"]:
            checkpoint_blocks(self._network)

    def described(self) -> StepDescription:
        from edgebench.workloads.training.pytorch.losses import cross_entropy, own_loss_function
        from edgebench.workloads.training.pytorch.network import make_optimizer
        from edgebench.workloads.training.pytorch.partial_training import PartialTraining

        settings = self._settings
        images = self._batch()
        found = cut(self._network, images)
        freezing = PartialTraining(self._network, parse_part(settings["trained"]), _SEED)
        rows = _rows(self._network, found, images)
        optimizer = make_optimizer(settings["optimizer"], _LEARNING_RATE, freezing.parameters)
        own = own_loss(settings)
        loss = own_loss_function(own) if own else cross_entropy
        labels = torch.zeros(len(images), dtype=torch.int64, device="meta")
        freezing.draw()
        del images
        operations = traced_steps(
            self._network,
            found,
            optimizer,
            self._batch,
            lambda outputs: loss(outputs, labels),
            settings["accumulation"],
        )
        return StepDescription(rows, [_data_set(settings), *operations])

    def _batch(self) -> torch.Tensor:
        """Images as bytes, made as large as they are read, and as numbers."""
        count = self._settings["batch"] // self._settings["accumulation"]
        images = torch.empty((count, *self._shape), dtype=torch.uint8, device="meta").fill_(0)
        if self._size != self._shape:
            images = images.new_empty((count, *self._size)).fill_(0)
        return images.to(self._number_type).div_(255).expand(-1, self._read, -1, -1)


def _data_set(settings: Mapping[str, Any]) -> StepOperation:
    """The images, which are there before the network is, under numbers of their own."""
    made = tuple((-1 - place, size) for place, size in enumerate(data_bytes(settings)))
    numbers = tuple(number for number, _ in made)
    return StepOperation(0, INIT, 0, 0, made=made, written=numbers)


def _rows(network: nn.Module, found: Cut, images: torch.Tensor) -> list[TrainingLayerRow]:
    """Every layer, from a forward pass. On ``meta`` all outputs can be held."""
    rows: list[TrainingLayerRow] = []
    inside: list[tuple[TrainingLayerRow, int]] = []
    outputs: dict[int, torch.UntypedStorage] = {}
    counter = FlopCounterMode(display=False)

    def enter(part: LayerPart) -> None:
        rows.append(_row(len(rows), part))
        inside.append((rows[-1], counter.get_total_flops()))

    def leave(part: LayerPart, output: Any) -> None:
        row, before = inside.pop()
        if part.own_only:
            return
        row.flops = counter.get_total_flops() - before
        for storage in _storages(tree_leaves(output)):
            if storage._cdata not in outputs:
                outputs[storage._cdata] = storage
                row.output_bytes += storage.nbytes()

    with counter, watching(found.parts.values(), enter, leave):
        network(images)
    return rows


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
    """``tables``, each training's layers and operations; ``untold``, a reason for each without.

    The request: ``workloads``, settings of trainings by any key; operations are kept under
    :func:`~edgebench.workloads.training.step_operations.operations_key` of it.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    untold: dict[str, str] = {}
    for key, settings in request["workloads"].items():
        try:
            found = described_training(settings)
        except EdgebenchError as error:
            untold[key] = error.what
            continue
        tables[key] = [asdict(row) for row in found.rows]
        tables[operations_key(key)] = [asdict(one) for one in found.operations]
    return {"tables": tables, "untold": untold}
