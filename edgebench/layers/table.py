"""The layer table of a network: what is in it, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from edgebench.layers.cut import Part, cut, watching
from edgebench.layers.liveness import Liveness
from edgebench.layers.networks import build, input_shape


@dataclass(frozen=True)
class Row:
    """One layer. Bytes at the network's own precision; ``flops`` of one forward pass.

    ``part`` names the module whose weights it uses: two layers may share one. A row of a
    container's own parameters has type ``… (own)`` and no output. ``live_…_bytes`` are the
    tensors alive before, at most during, and after its execution, the network's input among them
    and weights not; ``workspace_bytes`` is what convolutions copy beside the most of these.
    """

    order: int
    name: str
    type: str
    part: str
    parameter_bytes: int
    buffer_bytes: int
    output_bytes: int
    flops: int
    live_before_bytes: int = 0
    live_peak_bytes: int = 0
    live_after_bytes: int = 0
    workspace_bytes: int = 0
    file: str | None = None
    file_bytes: int = 0


def table(name: str, batch: int = 1, image: int | None = None) -> list[Row]:
    """The layers of a network in the order of their calls; nothing takes memory.

    FLOPs count multiplications and additions of matrix products, convolutions and attention
    (``torch.utils.flop_counter``); the rest counts nothing there.

    Raises:
        WorkloadError: no such network, or an image it was not made for.
    """
    sample = torch.empty(input_shape(name, batch, image), device="meta")
    return table_of(build(name), sample)


def table_of(model: nn.Module, sample: torch.Tensor) -> list[Row]:
    """The same of any network; both on ``meta``.

    Raises:
        WorkloadError: it can't run on an input of this shape.
    """
    parts = cut(model, sample).parts
    rows: list[Row] = []
    inside: list[tuple[int, int]] = []
    counter, alive = FlopCounterMode(display=False), Liveness(sample, model)

    def enter(part: Part) -> None:
        inside.append((len(rows), counter.get_total_flops()))
        rows.append(replace(_row(len(rows), part), live_before_bytes=alive.now_bytes))
        alive.restart()

    def leave(part: Part, output: Any) -> None:
        order, before = inside.pop()
        if not part.own_only:
            rows[order] = replace(
                rows[order],
                flops=counter.get_total_flops() - before,
                output_bytes=_nbytes(output),
                live_peak_bytes=alive.peak_bytes,
                live_after_bytes=alive.now_bytes,
                workspace_bytes=alive.working_bytes - alive.peak_bytes,
            )

    # Not inference mode: under it, operations made of others would not show what these make.
    with counter, alive, torch.no_grad(), watching(parts.values(), enter, leave):
        model(sample)
    return rows


def _row(order: int, part: Part) -> Row:
    own = " (own)" if part.own_only else ""
    recurse = not part.own_only
    return Row(
        order=order,
        name=part.name or "(network)",
        type=type(part.module).__name__ + own,
        part=part.name,
        parameter_bytes=sum(p.nbytes for p in part.module.parameters(recurse)),
        buffer_bytes=sum(b.nbytes for b in part.module.buffers(recurse)),
        output_bytes=0,
        flops=0,
    )


def _nbytes(output: Any) -> int:
    leaves = tree_leaves(output)
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
