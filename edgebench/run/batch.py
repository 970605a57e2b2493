"""Training below a limit: the largest batch that fits, or the least memory that a batch needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.boards.storage import AS_IS
from edgebench.errors import UsageError, WorkloadError
from edgebench.run.minimum import run_search
from edgebench.run.minimum_requests import shares
from edgebench.run.pace import pace_of_rounds
from edgebench.run.search import (
    BatchSearch,
    LargestBatch,
    LimitBracket,
    LimitSearch,
    SearchGoal,
    TrialRules,
    most_libraries,
    viable_bracket,
)
from edgebench.run.sweep import SweepOptions
from edgebench.run.trial_loop import Progress
from edgebench.scenario.flag_scenario import requested_limits, scenario_from_flags
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario
from edgebench.workloads.training.names import PYTORCH, SHAPES, SYNTHETIC, USUAL_SHAPE


@dataclass(frozen=True)
class BatchRequest:
    """What is trained. ``swap``, ``storage``, ``board`` and ``timeout`` as in a scenario.

    ``shape`` is that of made-up images; None: what the network was made for. ``loss`` and ``data``
    are functions of the user's own, as ``file.py:function``.
    """

    network: str
    framework: str = PYTORCH
    loss: str | None = None
    data: str | None = None
    classes: int | None = None
    optimizer: str = "sgd"
    precision: str = "float32"
    checkpointing: bool = False
    shape: str | None = None
    steps: int = 3
    swap: str = "none"
    storage: str = AS_IS
    board: str | None = None
    timeout: str = "5m"


@dataclass(frozen=True)
class BatchFit:
    """The largest batch that was found, and what that took."""

    folder: Path
    found: LargestBatch
    trials: int


@dataclass(frozen=True)
class LeastMemory:
    """The least memory that was found for a batch, and what that took.

    ``library_bytes``: what it maps of libraries, which no limit counts; None: not known.
    """

    folder: Path
    demand_bytes: int
    found: LimitBracket
    trials: int
    library_bytes: int | None = None


def candidates(most: int) -> Iterator[int]:
    """Every batch up to 64, and from there on in steps of at most 3 %."""
    batch = 1
    while batch <= most:
        yield batch
        batch += max(1, batch // 32)


def largest_batch(
    training: BatchRequest, memory: str, most: int, options: SweepOptions, progress: Progress
) -> BatchFit:
    """The largest batch, up to ``most``, that trains below the limit; kept as a sweep.

    Raises:
        UsageError: a value is not possible.
        WorkloadError: the workload failed for another reason than memory.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.run.sweep.run_sweep` does.
    """
    scenario = _scenario(training, list(candidates(most)), [memory])
    limited = [point for point in points(scenario) if not point.unlimited]
    if not limited or limited[0].share is not None:
        raise UsageError(f"{memory!r} is not a size", remedy="write a size, as --memory 1G")
    planner = BatchSearch(limited)
    sweep, planned, records = run_search(scenario, options, progress, planner)
    found = planner.found(planned, records)
    if found.too_large and found.too_large.outcome == "failed":
        raise WorkloadError(
            f"training failed at batch {found.too_large.batch}: {found.too_large.reason}",
            where=str(sweep.path / "trials.jsonl"),
            remedy=f"see: edgebench show {sweep.path}",
        )
    return BatchFit(sweep.path, found, len(sweep.records))


def least_memory(
    training: BatchRequest, batch: int, options: SweepOptions, progress: Progress
) -> LeastMemory:
    """The least limit at which training with that batch finishes; kept as a sweep.

    Raises:
        UsageError: a value is not possible.
        WorkloadError: the unlimited trial didn't finish.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.run.sweep.run_sweep` does.
    """
    scenario = _scenario(training, [batch], shares())
    planner = LimitSearch(points(scenario), SearchGoal(), TrialRules(pace_of_rounds))
    sweep, planned, records = run_search(scenario, options, progress, planner)
    demand = next((r.demand_bytes for r in sweep.records if r.demand_bytes is not None), None)
    if demand is None:
        record = sweep.records[0]
        own = record.notes.get("error", {}).get("remedy")
        raise WorkloadError(
            f"training did not finish with no limit: {record.reason}",
            where=str(sweep.path / "trials.jsonl"),
            remedy=own or "give it more time with --timeout, or a smaller batch",
        )
    found = viable_bracket(planner.tried(planned, records))
    libraries = most_libraries(sweep.records)
    return LeastMemory(sweep.path, demand, found, len(sweep.records), libraries)


def _data(training: BatchRequest) -> dict[str, str | int | None]:
    if training.data is None:
        shape = training.shape or SHAPES.get(training.network, USUAL_SHAPE)
        return {"data": SYNTHETIC, "shape": shape, "classes": training.classes}
    for flag, value in (("--shape", training.shape), ("--classes", training.classes)):
        if value is not None:
            raise UsageError(
                f"{flag} is of made-up images, and --data names your own", remedy="leave one out"
            )
    return {"data": training.data}


def _scenario(training: BatchRequest, batches: Sequence[int], memory: Sequence[str]) -> Scenario:
    workload = {
        "kind": "training",
        "network": training.network,
        "framework": training.framework,
        "optimizer": training.optimizer,
        # Small, so that no loss ends a trial.
        "learning_rate": 1e-4,
        "precision": training.precision,
        "checkpointing": training.checkpointing,
        "loss": training.loss,
        **_data(training),
        "batch": list(batches),
        "steps": training.steps,
    }
    limits = requested_limits(training, list(memory))
    return scenario_from_flags("batch", workload, limits, repeats=1, timeout=training.timeout)
