"""Training below a limit: the largest batch it holds, or the least memory a batch needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.plan.plan import PlannedTrial, points
from edgebench.records.records import TrialRecord
from edgebench.results.results import load
from edgebench.searching.batch_search import BatchPlanner, LargestBatch, candidates
from edgebench.searching.bracketing import BracketingPlanner, Found, Guess, viable
from edgebench.searching.minimum import shares
from edgebench.sweep.sweep import Progress, SweepOptions, run_sweep
from edgebench.training.data.names import SYNTHETIC
from edgebench.training.names import SHAPES, USUAL_SHAPE

if TYPE_CHECKING:
    from edgebench.results.reading import Sweep
    from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class Training:
    """What is trained. ``swap`` and ``timeout`` as a scenario writes them.

    ``shape`` is that of made-up images; None: what the network was made for.
    """

    network: str
    optimizer: str = "sgd"
    precision: str = "float32"
    checkpointing: bool = False
    shape: str | None = None
    steps: int = 3
    swap: Any = "none"
    timeout: str = "5m"


@dataclass(frozen=True)
class Fit:
    """The largest batch that was found, and what that took."""

    folder: Path
    found: LargestBatch
    trials: int


@dataclass(frozen=True)
class Least:
    """The least memory that was found for a batch, and what that took."""

    folder: Path
    demand_bytes: int
    found: Found
    trials: int


def largest_batch(
    training: Training, memory: str, most: int, options: SweepOptions, progress: Progress
) -> Fit:
    """The largest batch, up to ``most``, that trains below the limit; kept as a sweep.

    Raises:
        UsageError: something impossible was asked for.
        WorkloadError: the workload itself failed, so that memory can't be to blame.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.sweep.sweep.run_sweep` does.
    """
    scenario = _scenario(training, list(candidates(most)), [memory])
    limited = [point for point in points(scenario) if not point.unlimited]
    if not limited or limited[0].share is not None:
        raise UsageError(f"{memory!r} is no size", remedy="write one, as --memory 1G")
    planner = BatchPlanner(limited)
    sweep = _swept(scenario, options, progress, planner)
    found = planner.found(_planned(sweep), _by_trial(sweep))
    if found.too_large and found.too_large.outcome == "failed":
        raise WorkloadError(
            f"training failed at batch {found.too_large.batch}: {found.too_large.reason}",
            where=str(sweep.path / "trials.jsonl"),
            remedy=f"see: edgebench show {sweep.path}",
        )
    return Fit(sweep.path, found, len(sweep.records))


def least_memory(
    training: Training, batch: int, options: SweepOptions, progress: Progress
) -> Least:
    """The least limit at which training with that batch finishes; kept as a sweep.

    Raises:
        UsageError: something impossible was asked for.
        WorkloadError: the unlimited trial didn't finish.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.sweep.sweep.run_sweep` does.
    """
    scenario = _scenario(training, [batch], shares())
    planner = BracketingPlanner(points(scenario), None, "round", Guess())
    sweep = _swept(scenario, options, progress, planner)
    demand = next((r.demand_bytes for r in sweep.records if r.demand_bytes is not None), None)
    if demand is None:
        raise WorkloadError(
            f"training did not finish with no limit: {sweep.records[0].reason}",
            where=str(sweep.path / "trials.jsonl"),
            remedy="give it more time with --timeout, or a smaller batch",
        )
    found = viable(planner.tried(_planned(sweep), _by_trial(sweep)))
    return Least(sweep.path, demand, found, len(sweep.records))


def _scenario(training: Training, batches: Sequence[int], memory: Sequence[str]) -> Scenario:
    from pydantic import ValidationError

    from edgebench.scenario.faults import faults_of
    from edgebench.scenario.scenario import Scenario, scenario_of

    tables = {
        "schema": 1,
        "name": f"batch-{training.network.lower().replace('_', '-')}"[:64],
        "repeats": 1,
        "timeout": training.timeout,
        "workload": {
            "kind": "training",
            "network": training.network,
            "optimizer": training.optimizer,
            # Small, so that no loss ends a trial.
            "learning_rate": 1e-4,
            "precision": training.precision,
            "checkpointing": training.checkpointing,
            "data": SYNTHETIC,
            "shape": training.shape or SHAPES.get(training.network, USUAL_SHAPE),
            "batch": list(batches),
            "steps": training.steps,
        },
        "limits": {"memory": list(memory), "swap": training.swap},
    }
    try:
        return scenario_of(tables)
    except ValidationError as error:
        said = [f"{fault.key}: {fault.says}" for fault in faults_of(error, Scenario, tables, "")]
        raise UsageError("\n".join(said), remedy="edgebench batch --help") from error


def _swept(scenario: Scenario, options: SweepOptions, progress: Progress, planner: Any) -> Sweep:
    summary = run_sweep(scenario, options, progress, planner)
    (sweep,) = load(summary.folder).sweeps
    return sweep


def _planned(sweep: Sweep) -> list[PlannedTrial]:
    return [PlannedTrial(**one) for one in sweep.resolved["plan"]]


def _by_trial(sweep: Sweep) -> dict[str, TrialRecord]:
    return {record.trial: record for record in sweep.records}
