"""Unlimited time of layers, predicted from a layer table at a device's rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import lru_cache

import numpy as np

from edgebench.slowdown.curves import WHOLES
from edgebench.slowdown.simulator.references import FloatArray
from edgebench.slowdown.simulator.tasks import Task, path_s, tasks_of
from edgebench.slowdown.simulator.workload import Workload


@dataclass(frozen=True)
class Rates:
    """What a device takes, unlimited, in seconds a unit.

    ``file_s`` and ``load_byte_s``: to load a weights file, and each byte in it. ``call_s``,
    ``flop_s`` and ``byte_s``: to execute a layer, each FLOP and each byte of weights and output.
    """

    file_s: float
    load_byte_s: float
    call_s: float
    flop_s: float
    byte_s: float

    def seconds(self, task: Task) -> float:
        """A task's time, its weights loaded by ``copy``."""
        layer = task.layer
        if task.phase == "load":
            return self.file_s + self.load_byte_s * layer.file_bytes
        moved = layer.file_bytes + layer.output_bytes
        return self.call_s + self.flop_s * layer.flops + self.byte_s * moved


#: Of a small CPU: 10 GFLOP/s, 5 GB/s from memory, 1 GB/s from a disk. They only share a known
#: time out among layers and order overlapping tasks; no time is predicted from them.
TYPICAL_RATES = Rates(file_s=2e-4, load_byte_s=1e-9, call_s=5e-5, flop_s=1e-10, byte_s=2e-10)


def predicted_s(
    workload: Workload, rates: Rates, phase: str, network: str, ahead_bytes: float = 0.0
) -> float:
    """Unlimited seconds of one pass of a network's phase, or of a whole round.

    Of a mapped file ``ahead_bytes`` are read when it is opened, the rest when it is used.
    """
    if phase in WHOLES and workload.overlaps:
        tasks = tasks_of(workload, rates.seconds)
        amounts = np.array([_amounts(task, workload, ahead_bytes) for task in tasks])
        seconds = amounts @ astuple(rates)
        return float(path_s(tasks, seconds[:, None])[0])
    return float(_amounts_of(workload, phase, network, ahead_bytes) @ astuple(rates))


@lru_cache(maxsize=2048)
def _amounts_of(workload: Workload, phase: str, network: str, ahead_bytes: float) -> FloatArray:
    """How much of each rate a pass takes, where one task follows another."""
    tasks = typical_tasks(workload)
    if phase not in WHOLES:
        here = (workload.networks[task.network] == network for task in tasks)
        tasks = tuple(t for t, own in zip(tasks, here, strict=True) if own and t.phase == phase)
    passes = max(1, workload.passes - 1) if phase == "execute" else 1
    # A network without weights has nothing to load.
    amounts = [_amounts(task, workload, ahead_bytes) for task in tasks] or [
        [0.0] * len(fields(Rates))
    ]
    return np.asarray(np.sum(amounts, axis=0) / passes)


@lru_cache(maxsize=256)
def typical_tasks(workload: Workload) -> tuple[Task, ...]:
    """One round's tasks in the order that they have on a small CPU."""
    return tasks_of(workload, TYPICAL_RATES.seconds)


def _amounts(task: Task, workload: Workload, ahead_bytes: float) -> list[float]:
    """How much of each rate a task takes; most of a mapped file is read when it is first used."""
    layer, mapped = task.layer, workload.loader == "mmap"
    opened = min(layer.file_bytes, ahead_bytes) if mapped else layer.file_bytes
    if task.phase == "load":
        return [1.0, opened, 0.0, 0.0, 0.0]
    read = layer.file_bytes - opened if mapped and task.phase == "first" else 0.0
    return [0.0, read, 1.0, layer.flops, layer.file_bytes + layer.output_bytes]


def fit_rates(known: Sequence[tuple[Workload, str, float]]) -> Rates | None:
    """Rates from phases whose unlimited seconds are known, by least squares of relative errors.

    ``known`` holds workloads of one network with ``load``, ``first`` or ``execute`` and its
    seconds a pass. None without both a load and an execution.
    """
    loads = [(work, s) for work, phase, s in known if phase == "load"]
    runs = [(work, s) for work, phase, s in known if phase in ("first", "execute")]
    if not loads or not runs:
        return None
    return Rates(
        *relative_least_squares([_load(work) for work, _ in loads], [s for _, s in loads]),
        *relative_least_squares([_run(work) for work, _ in runs], [s for _, s in runs]),
    )


def _load(workload: Workload) -> list[float]:
    sizes = [layer.file_bytes for table in workload.tables for layer in table if layer.file_bytes]
    return [float(len(sizes)), float(sum(sizes))]


def _run(workload: Workload) -> list[float]:
    layers = [layer for table in workload.tables for layer in table]
    moved = sum(layer.file_bytes + layer.output_bytes for layer in layers)
    return [float(len(layers)), sum(layer.flops for layer in layers), float(moved)]


def relative_least_squares(
    rows: Sequence[Sequence[float]], seconds: Sequence[float]
) -> list[float]:
    """Seconds a unit of each column, none below 0; rows weigh the same, however long they took."""
    from scipy.optimize import nnls

    relative = np.array(rows, dtype=float) / np.array(seconds, dtype=float)[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-300)
    found, _ = nnls(relative / scale, np.ones(len(rows)))
    return [float(value) for value in found / scale]
