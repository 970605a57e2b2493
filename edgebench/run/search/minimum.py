"""The least limits of a network or of a program, found by a search that is kept as a sweep."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.answers.limits import workload_answer
from edgebench.errors import UsageError, WorkloadError
from edgebench.results.facts import sweep_facts
from edgebench.results.sweep_reader import read_sweep
from edgebench.run.search.answer import Minimum
from edgebench.run.search.requests import (
    NETWORK_KEYS,
    PROGRAM_KEYS,
    MinimumRequest,
    ProgramRequest,
    minimum_scenario,
    program_scenario,
)
from edgebench.run.search.search import LimitSearch, SearchGoal, TrialRules, needs_of
from edgebench.run.search.unlimited_trials import check_throughput, check_unlimited
from edgebench.run.sweep.sweep import SweepOptions, planned_trials, run_sweep
from edgebench.run.sweep.trials import Progress
from edgebench.run.trial.command import check_command
from edgebench.run.trial.function import function_settings, name_of
from edgebench.run.trial.session import scratch_folder
from edgebench.run.walk.pace import median_pace, pace_of_program, pace_of_rounds
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario
from edgebench.units import parse_duration

#: Trials of a program without a limit: so many, and so many if their demands differ.
_UNLIMITED, _MOST_UNLIMITED = 2, 4
_REMEDY = 'edgebench.minimum("python3 train.py"), or edgebench.minimum(network="resnet18")'


@dataclass(frozen=True)
class _Search:
    """One search: what is run, who chooses the limits, and what is asked for."""

    name: str
    scenario: Scenario
    planner: LimitSearch
    goal: SearchGoal
    is_single: bool


def find_minimum(
    request: MinimumRequest | ProgramRequest,
    options: SweepOptions,
    progress: Progress,
) -> Minimum:
    """Search with as few trials as possible, and keep them as a sweep.

    Raises:
        UsageError: a value is not possible.
        WorkloadError: an unlimited trial didn't finish, so there is nothing to compare with.
        CgroupError, MachineError, ResultsError: as :func:`~edgebench.run.sweep.sweep.run_sweep`.
    """
    search = _search_of(request)
    if isinstance(request, ProgramRequest):
        check_command(request.command)
    return _found(search, run_sweep(search.scenario, options, progress, search.planner).folder)


def minimum_of(
    workload: str | Sequence[str] | Callable[[], object] | None,
    network: str | None,
    settings: dict[str, Any],
    where: SweepOptions,
    progress: Progress,
) -> Minimum:
    """Search as the verb does. ``settings`` are the request's, None for what was not given.

    Raises:
        UsageError: neither or both of a workload and a network, or a setting that does not fit.
        EdgebenchError: as :func:`find_minimum` does.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if (workload is None) == (network is None):
        raise UsageError("name a command, a function or a network", remedy=_REMEDY)
    if network is not None:
        if other := sorted(PROGRAM_KEYS & given.keys()):
            raise UsageError(f"{other[0]} is for programs only", remedy=f"leave out {other[0]}=")
        return find_minimum(MinimumRequest(network, **given), where, progress)
    if other := sorted(NETWORK_KEYS & given.keys()):
        raise UsageError(f"{other[0]} is for networks only", remedy=f"leave out {other[0]}=")
    if "files" in given:
        given["files"] = tuple(map(str, given["files"]))
    if "reset" in given:
        given["reset"] = tuple(_words(given["reset"]))
    if not callable(workload):
        command = tuple(_words(workload or ""))
        return find_minimum(ProgramRequest(command, **given), where, progress)
    with scratch_folder() as folder:
        stored = function_settings(workload, folder)
        spec = json.dumps({"argument": stored["argument"]})
        request = ProgramRequest((sys.executable, stored["script"], spec), **given)
        found = find_minimum(request, where, progress)
        return replace(found, answer=replace(found.answer, name=name_of(workload)))


def _words(command: str | Sequence[str]) -> list[str]:
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words:
        raise UsageError("the command is empty", remedy=_REMEDY)
    return words


def minimum_so_far(request: MinimumRequest | ProgramRequest, folder: Path) -> Minimum | None:
    """Return what an interrupted search found; None if no unlimited trial has finished.

    Raises:
        ResultsError: the folder can't be read.
        WorkloadError: an unlimited trial failed.
    """
    if not any(record.demand_bytes for record in read_sweep(folder).records):
        return None
    return _found(_search_of(request), folder)


def _search_of(request: MinimumRequest | ProgramRequest) -> _Search:
    is_single = request.within is not None
    if isinstance(request, MinimumRequest):
        goal = SearchGoal(request.slowdown, None, request.confirm, request.killed)
        scenario, name = minimum_scenario(request), request.network
        rules = TrialRules(pace_of_rounds, unlimited=request.rounds)
        return _Search(name, scenario, LimitSearch(points(scenario), goal, rules), goal, is_single)
    scenario, name = program_scenario(request), shlex.join(request.command)
    confirm = 0 if request.soak else request.confirm
    goal = SearchGoal(request.slowdown, request.throughput, confirm, request.killed)
    if request.soak:
        rules = TrialRules(pace_of_program, searches=False)
    elif is_single:
        is_compared = goal.slowdown is not None or goal.throughput is not None
        rules = TrialRules(pace_of_program, unlimited=2 if is_compared else 1)
    else:
        rules = TrialRules(
            pace_of_program,
            unlimited=_UNLIMITED,
            most_unlimited=_MOST_UNLIMITED,
            timeout_s=parse_duration(request.timeout) if request.timeout else None,
            is_hurried=True,
            budget_s=parse_duration(request.budget) if request.budget else None,
        )
    return _Search(name, scenario, LimitSearch(points(scenario), goal, rules), goal, is_single)


def _found(search: _Search, folder: Path) -> Minimum:
    sweep, goal = read_sweep(folder), search.goal
    records = {record.trial: record for record in sweep.records}
    unlimited = [r for r in sweep.records if r.limits.label == "max"]
    check_unlimited(sweep, search.name, unlimited)
    check_throughput(search.name, unlimited, goal.throughput)
    if not needs_of(unlimited):
        what = f"how much memory {search.name} needs is not known"
        raise WorkloadError(what, where=str(sweep.path), remedy="edgebench doctor")
    (workload, *_) = sweep_facts(sweep).workloads
    slowdown = goal.factor(median_pace(unlimited, search.planner.pace))
    answer = workload_answer(workload, search.name, slowdown)
    fits = None
    if search.is_single and not answer.growing:
        finished = any(row.limit_bytes and row.all_finished for row in answer.rows)
        fits = finished if slowdown is None else answer.give_bytes is not None
    planned = planned_trials(sweep.resolved.get("plan"), folder)
    return Minimum(
        answer=answer,
        folder=sweep.path,
        trials=len(records),
        total_s=sum((r.wall_s or 0.0) + (r.harness_s or 0.0) for r in records.values()),
        slowdown=slowdown,
        fits=fits,
        finished=not search.planner.open_question(planned, records),
        workload=workload,
    )
