"""The operations of training steps: which memory each makes, touches and frees; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: What is there before the first step; a step's phases.
INIT, DATA, FORWARD, BACKWARD, STEP = "init", "data", "forward", "backward", "step"


def operations_key(table_key: str) -> str:
    """Where a training's operations are kept, beside its layer table."""
    return f"{table_key} operations"


@dataclass(frozen=True)
class StepOperation:
    """One operator of one step. Memory is known by numbers, which no two pieces of it share.

    Attributes:
        step: 0 is the first step, in which the optimizer's state is made; 1 is like all later ones.
        phase, number, layer: of the task that it belongs to; ``number`` is the part of the batch.
        freed: memory that was given back since the operation before.
        made: new memory, as (number, bytes).
        read, written: what it touches. Memory can be made and not written yet.
        workspace: bytes that a kernel takes beside these, in stages: each stage's memory is freed
            before that of the next is taken.
    """

    step: int
    phase: str
    number: int
    layer: int
    freed: tuple[int, ...] = ()
    made: tuple[tuple[int, int], ...] = ()
    read: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    workspace: tuple[tuple[int, ...], ...] = ()


def operation_of(row: Mapping[str, Any]) -> StepOperation:
    """An operation back from a row, whose tuples JSON made lists of."""
    return StepOperation(
        step=int(row["step"]),
        phase=str(row["phase"]),
        number=int(row["number"]),
        layer=int(row["layer"]),
        freed=tuple(row["freed"]),
        made=tuple((number, size) for number, size in row["made"]),
        read=tuple(row["read"]),
        written=tuple(row["written"]),
        workspace=tuple(map(tuple, row["workspace"])),
    )
