"""A training as a workload: its settings, the layer table of one of its steps, its operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.slowdown.simulator.allocator import malloc_of
from edgebench.slowdown.simulator.workload import STEPS, Layer, TrainingShape, Workload, workload_of
from edgebench.workloads.training.step_operations import operation_of, operations_key

KIND = "training"
#: Settings that a step's layer table depends on, and what it holds.
SHAPING = (
    *("framework", "data", "shape", "image", "depth", "width", "activation", "batch"),
    *("accumulation", "precision", "checkpointing", "trained", "optimizer"),
)


def table_key(settings: Mapping[str, Any]) -> str:
    """What a training's layer table is kept under, beside those of networks that are only run.

    ``settings`` are a trial's, a curve's or a row's of a frame: they write numbers differently.
    """
    shaping = [f"{k}={_plain(settings[k])}" for k in SHAPING if _is_known(settings.get(k))]
    network = settings.get("pipeline") or settings["network"]
    return " ".join([KIND, str(network), *shaping])


def is_training(settings: Mapping[str, Any]) -> bool:
    """Whether a workload's settings are of a training."""
    return settings.get("kind") == KIND


def any_workload_of(
    settings: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Workload:
    """The workload of a trial's settings, a training's or one of networks that are only run.

    Raises:
        KeyError: no table of it, or these are no settings of networks.
    """
    if _is_known(settings.get("accelerator")):
        raise KeyError("computing on an accelerator, which is not simulated")
    return (training_of if is_training(settings) else workload_of)(settings, tables)


def training_of(
    settings: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Workload:
    """The workload of a training's settings; ``tables`` has its rows under :func:`table_key`.

    The rows are those of :mod:`edgebench.workloads.training.description`.

    Raises:
        KeyError: no table of it.
    """
    key = table_key(settings)
    rows, operations = tables[key], tables[operations_key(key)]
    threads = settings.get("threads") or settings.get("cores")
    return Workload(
        networks=(str(settings["pipeline"]),),
        tables=(tuple(_layer(row) for row in rows),),
        schedule=STEPS,
        loader="",
        rounds=int(settings.get("steps") or 1),
        threads=int(threads) if threads else None,
        training=TrainingShape(
            parts=int(settings.get("accumulation") or 1),
            operations=tuple(map(operation_of, operations)),
        ),
        malloc=malloc_of(settings),
    )


def _layer(row: Mapping[str, Any]) -> Layer:
    return Layer(
        order=int(row["order"]),
        part=str(row["part"]),
        file_bytes=int(row["file_bytes"]),
        output_bytes=int(row["output_bytes"]),
        flops=float(row["flops"]),
        until=int(row["order"]),
        connected=False,
        name=str(row["name"]),
        trained_bytes=int(row["trained_bytes"]),
    )


def _is_known(value: Any) -> bool:
    # NaN is not itself.
    return value is not None and value == value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{float(value):g}"
