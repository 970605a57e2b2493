"""Trainings made up: layers with so many bytes, and the operations that their steps come to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgebench.slowdown.simulator.workload import Workload, any_workload_of, table_key
from edgebench.workloads.training.step_operations import (
    BACKWARD,
    DATA,
    FORWARD,
    INIT,
    STEP,
    StepOperation,
    operations_key,
)

#: What an optimizer keeps, in multiples of what it trains.
STATE = {"sgd": 0, "momentum": 1, "adam": 2}
SETTINGS = {
    "kind": "training",
    "framework": "pytorch",
    "pipeline": "made",
    "data": "synthetic",
    "shape": "1x16x16",
    "optimizer": "sgd",
    "batch": 4,
    "accumulation": 1,
    "precision": "float32",
    "checkpointing": False,
    "trained": "all",
    "steps": 3,
    "threads": 1,
    # Memory goes back to the kernel when it is freed, however large it is.
    "malloc": "MALLOC_MMAP_THRESHOLD_=4096",
}


def row(order: int, weights: int, output: int, kept: bool = True, beside: int = 0) -> Any:
    """A layer with so many bytes of weights and of output, and saved beside it."""
    return {
        "order": order,
        "name": f"layer{order}",
        "type": "Conv2d",
        "part": f"layer{order}",
        "file_bytes": weights,
        "trained_bytes": weights,
        "output_bytes": output,
        "flops": 1e7,
        "kept": kept,
        "beside": beside,
    }


def training(*rows: Any, **changed: Any) -> Workload:
    """A training with these layers."""
    settings = {**SETTINGS, **changed}
    key = table_key(settings)
    made = _Steps(rows, STATE[str(settings["optimizer"])], int(settings["accumulation"])).made()
    operations = [asdict(one) for one in made]
    return any_workload_of(settings, {key: rows, operations_key(key): operations})


class _Steps:
    """Writes the operations of two steps."""

    def __init__(self, rows: Any, copies: int, parts: int) -> None:
        self.rows, self.copies, self.parts = rows, copies, parts
        self.operations: list[StepOperation] = []
        self.count = 0
        self.gone: list[int] = []
        self.weights: dict[int, int] = {}
        self.state: dict[int, int] = {}
        self.gradients: dict[int, int] = {}

    def made(self) -> list[StepOperation]:
        """All of them, and what is there before."""
        self.at: tuple[int, str, int] = 0, INIT, 0
        for one in self.rows:
            if one["file_bytes"]:
                self.weights[one["order"]] = self.make(one["order"], one["file_bytes"])
        for step in (0, 1):
            for part in range(self.parts):
                self.pass_over(step, part)
            self.at = step, STEP, 0
            for order, gradient in self.gradients.items():
                self.update(order, gradient)
            self.gone += self.gradients.values()
            self.gradients.clear()
            self.add(0)
        return self.operations

    def pass_over(self, step: int, part: int) -> None:
        """Forward and backward; each layer keeps what it was given."""
        self.at = step, DATA, part
        given = self.make(0, 1024)
        self.at = step, FORWARD, part
        stack = []
        for one in self.rows:
            order, read = one["order"], [given, *self.weight(one["order"])]
            beside = [self.make(order, one["beside"])] if one["beside"] else []
            kept = [given, *beside]
            if one["output_bytes"]:
                given = self.make(order, one["output_bytes"], read)
            stack.append((one, kept))
            if not one["kept"]:
                stack[-1][1].append(given)
        self.at = step, BACKWARD, part
        gradient = given
        for one, kept in reversed(stack):
            order = one["order"]
            read = [gradient, *kept, *self.weight(order)]
            before, gradient = gradient, self.make(order, one["output_bytes"] or 4096, read)
            self.gone += [before, *(k for k in kept if k != before and k not in self.gone)]
            if weights := one["trained_bytes"]:
                if order in self.gradients:
                    self.add(order, written=(self.gradients[order],))
                else:
                    self.gradients[order] = self.make(order, weights)
        self.gone.append(gradient)

    def update(self, order: int, gradient: int) -> None:
        """The weights, and what the optimizer keeps of them."""
        size = self.copies * self.rows[order]["trained_bytes"]
        if size and order not in self.state:
            self.state[order] = self.make(order, size)
        written = [self.weights[order], *([self.state[order]] if size else [])]
        self.add(order, read=(gradient,), written=tuple(written))

    def weight(self, order: int) -> list[int]:
        """Its weights, if it has any."""
        return [self.weights[order]] if order in self.weights else []

    def make(self, order: int, size: int, read: Any = ()) -> int:
        """New memory, written from what is read."""
        number, self.count = self.count, self.count + 1
        self.add(order, made=((number, size),), read=tuple(read), written=(number,))
        return number

    def add(self, order: int, **what: Any) -> None:
        """One operation, after which nothing waits to be freed."""
        step, phase, part = self.at
        freed, self.gone = tuple(dict.fromkeys(self.gone)), []
        self.operations.append(StepOperation(step, phase, part, order, freed, **what))
