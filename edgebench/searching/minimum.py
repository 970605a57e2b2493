"""The least limits of a network, found by a search of real trials that is kept as a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.plan.plan import PlannedTrial, points
from edgebench.records.records import TrialRecord
from edgebench.results.results import load
from edgebench.searching.bracketing import BracketingPlanner, Found, Guess, viable, within
from edgebench.sweep.sweep import Progress, SweepOptions, run_sweep

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario

#: The candidates: from this share of the demand down, each so much of the last.
_WIDEST, _STEP, _COUNT = 1.3, 1.024, 150
#: What the phases are called on the command line, and in a record.
PHASES = {"total": "round", "load": "load", "first": "first", "execute": "execute"}


def shares() -> list[str]:
    """The limits that may be tried, as shares of the demand."""
    return [f"{100 * _WIDEST / _STEP**n:.2f}%" for n in range(_COUNT)]


@dataclass(frozen=True)
class Asked:
    """Whose least limits. ``swap`` and ``timeout`` as a scenario writes them.

    ``slowdown``: the factor that ``phase`` may be slower by; None asks for viability alone.
    """

    network: str
    slowdown: float | None = None
    phase: str = "total"
    schedule: str = "bulk"
    loader: str = "copy"
    batch: int = 1
    image: int | None = None
    swap: Any = "none"
    timeout: str = "2m"


@dataclass(frozen=True)
class Minimum:
    """What the search found, and what it took.

    ``within`` is None if no slowdown was asked for. ``trials`` counts unlimited ones too.
    """

    folder: Path
    demand_bytes: int
    unlimited_s: float | None
    viable: Found
    within: Found | None
    trials: int


def find_minimum(
    asked: Asked, options: SweepOptions, progress: Progress, guess: Guess | None = None
) -> Minimum:
    """Search with as few trials as the guess allows, and keep them as a sweep.

    Raises:
        UsageError: something impossible was asked for.
        WorkloadError: the unlimited trial didn't finish, so there is nothing to compare with.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.sweep.sweep.run_sweep` does.
    """
    if asked.phase == "execute" and asked.schedule != "bulk":
        raise UsageError(
            f"the schedule {asked.schedule} has no warm executions",
            remedy="ask for --phase first, or for --schedule bulk",
        )
    scenario = minimum_scenario(asked)
    phase = PHASES[asked.phase]
    planner = BracketingPlanner(points(scenario), asked.slowdown, phase, guess or Guess())
    summary = run_sweep(scenario, options, progress, planner)
    return _minimum(summary.folder, asked, planner)


def minimum_scenario(asked: Asked) -> Scenario:
    """One workload, and every limit that may be tried as a share of its demand.

    Raises:
        UsageError: something impossible, in the words of a scenario.
    """
    from pydantic import ValidationError

    from edgebench.scenario.faults import faults_of
    from edgebench.scenario.scenario import Scenario, scenario_of

    tables = _tables(asked)
    try:
        return scenario_of(tables)
    except ValidationError as error:
        said = [f"{fault.key}: {fault.says}" for fault in faults_of(error, Scenario, tables, "")]
        raise UsageError("\n".join(said), remedy="edgebench minimum --help") from error


def _tables(asked: Asked) -> dict[str, Any]:
    image = {} if asked.image is None else {"image": asked.image}
    return {
        "schema": 1,
        "name": f"minimum-{asked.network.lower().replace('_', '-')}"[:64],
        "repeats": 1,
        "timeout": asked.timeout,
        "workload": {
            "kind": "inference",
            "network": asked.network,
            "schedule": asked.schedule,
            "loader": asked.loader,
            "batch": asked.batch,
            # Two rounds, so that no time rests on a single one.
            "rounds": 1 if asked.slowdown is None else 2,
            "warm": 1,
            **image,
        },
        "limits": {
            "memory": shares(),
            "swap": asked.swap,
        },
    }


def _minimum(folder: Path, asked: Asked, planner: BracketingPlanner) -> Minimum:
    (sweep,) = load(folder).sweeps
    records = {record.trial: record for record in sweep.records}
    planned = [PlannedTrial(**one) for one in sweep.resolved["plan"]]
    unlimited = [record for record in sweep.records if record.limits.memory_bytes is None]
    demand = next((r.demand_bytes for r in unlimited if r.demand_bytes is not None), None)
    if demand is None:
        raise _nothing_to_compare(asked, unlimited[0], folder)
    tried = planner.tried(planned, records)
    return Minimum(
        folder=folder,
        demand_bytes=demand,
        unlimited_s=planner.seconds(unlimited),
        viable=viable(tried),
        within=None if asked.slowdown is None else within(tried, asked.slowdown),
        trials=len(records),
    )


def _nothing_to_compare(asked: Asked, unlimited: TrialRecord, folder: Path) -> WorkloadError:
    return WorkloadError(
        f"{asked.network} did not finish with no limit: {unlimited.outcome}"
        + (f" ({unlimited.reason})" if unlimited.reason else ""),
        where=str(folder / "trials.jsonl"),
        remedy=f"give it more time with --timeout, or see: edgebench show {folder}",
    )
