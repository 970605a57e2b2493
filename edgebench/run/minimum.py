"""The least limits of a network or of a program, found by a search that is kept as a sweep."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.errors import UsageError, WorkloadError
from edgebench.need import need_of
from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.unmeasured import unmeasured
from edgebench.run.command import check_command
from edgebench.run.function import function_settings, name_of
from edgebench.run.minimum_answer import Minimum
from edgebench.run.minimum_requests import (
    PROGRAM_KEYS,
    MinimumRequest,
    ProgramRequest,
    minimum_scenario,
    program_scenario,
)
from edgebench.run.pace import median_pace, pace_of_program, pace_of_rounds, start_of_rounds
from edgebench.run.scratch import scratch_folder
from edgebench.run.search import (
    USUAL_SLOWDOWN,
    LimitBracket,
    LimitSearch,
    SearchGoal,
    TrialRules,
    demands_of,
    most_libraries,
    viable_bracket,
)
from edgebench.run.sweep import SweepOptions, planned_trials, run_sweep
from edgebench.run.trial_loop import Progress
from edgebench.run.unlimited_trials import check_throughput, check_unlimited
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario
from edgebench.throughput import throughput_unit
from edgebench.units import parse_duration, parse_size

#: Trials of a program without a limit: so many, and so many if their demands differ.
_UNLIMITED, _MOST_UNLIMITED = 2, 4
#: What Python's callers can set of a network alone.
_PYTHON_NETWORK_KEYS = ("prompt", "new_tokens")
_REMEDY = 'edgebench.minimum("python3 train.py"), or edgebench.minimum(network="resnet18")'


@dataclass(frozen=True)
class _Search:
    """One search: what is run, who chooses the limits, and what is asked for."""

    name: str
    scenario: Scenario
    planner: LimitSearch
    goal: SearchGoal
    stop_after_s: float | None = None
    size_bytes: int | None = None


def find_minimum(
    request: MinimumRequest | ProgramRequest,
    options: SweepOptions,
    progress: Progress,
) -> Minimum:
    """Search with as few trials as possible, and keep them as a sweep.

    Raises:
        UsageError: a value is not possible.
        WorkloadError: an unlimited trial didn't finish, so there is nothing to compare with.
        CgroupError, MachineError, ResultsError: as :func:`edgebench.run.sweep.run_sweep` does.
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
        if other := sorted(set(PROGRAM_KEYS) & given.keys()):
            raise UsageError(f"{other[0]} is for programs only", remedy=f"leave out {other[0]}=")
        return find_minimum(MinimumRequest(network, **given), where, progress)
    if other := sorted(set(_PYTHON_NETWORK_KEYS) & given.keys()):
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
        return replace(find_minimum(request, where, progress), name=name_of(workload))


def _words(command: str | Sequence[str]) -> list[str]:
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words:
        raise UsageError("the command is empty", remedy=_REMEDY)
    return words


def minimum_so_far(request: MinimumRequest | ProgramRequest, folder: Path) -> Minimum | None:
    """What an interrupted search found; None if no unlimited trial has finished.

    Raises:
        ResultsError: the folder can't be read.
        WorkloadError: an unlimited trial failed.
    """
    if not any(record.demand_bytes for record in read_sweep(folder).records):
        return None
    return _found(_search_of(request), folder)


def _search_of(request: MinimumRequest | ProgramRequest) -> _Search:
    size_bytes = parse_size(request.within) if request.within else None
    if isinstance(request, ProgramRequest):
        return _program_search(request, size_bytes)
    goal = SearchGoal(request.slowdown, None, request.confirm, request.killed)
    scenario = minimum_scenario(request)
    rules = TrialRules(pace_of_rounds, unlimited=request.rounds)
    planner = LimitSearch(points(scenario), goal, rules)
    return _Search(request.network, scenario, planner, goal, size_bytes=size_bytes)


def _program_search(request: ProgramRequest, size_bytes: int | None) -> _Search:
    scenario = program_scenario(request)
    timeout_s, budget_s, stop_after_s = (
        parse_duration(text) if text else None
        for text in (request.timeout, request.budget, request.stop_after or request.soak)
    )
    confirm = 0 if request.soak else request.confirm
    goal = SearchGoal(request.slowdown, request.throughput, confirm, request.killed)
    if request.soak:
        rules = TrialRules(pace_of_program, searches=False)
    elif size_bytes is None:
        rules = TrialRules(
            pace_of_program,
            unlimited=_UNLIMITED,
            most_unlimited=_MOST_UNLIMITED,
            timeout_s=timeout_s,
            is_hurried=True,
            budget_s=budget_s,
        )
    else:
        is_compared = goal.slowdown is not None or goal.throughput is not None
        rules = TrialRules(pace_of_program, unlimited=2 if is_compared else 1)
    planner = LimitSearch(points(scenario), goal, rules)
    return _Search(shlex.join(request.command), scenario, planner, goal, stop_after_s, size_bytes)


def _found(search: _Search, folder: Path) -> Minimum:
    sweep = read_sweep(folder)
    planned = planned_trials(sweep.resolved.get("plan"), folder)
    records = {record.trial: record for record in sweep.records}
    planner, goal = search.planner, search.goal
    unlimited = [
        r for r in sweep.records if r.limits.memory_bytes is None and r.limits.label == "max"
    ]
    check_unlimited(sweep, search.name, unlimited)
    check_throughput(search.name, unlimited, goal.throughput)
    demands = demands_of(unlimited)
    if not demands:
        what = f"how much memory {search.name} needs is not known"
        raise WorkloadError(what, where=str(sweep.path), remedy="edgebench doctor")
    pace = median_pace(unlimited, planner.pace)
    asked = goal.factor(pace)
    tried = planner.tried(planned, records)
    given = planner.given(tried, asked, pace)
    has_swap = unlimited[0].limits.swap_kind != "none" and search.size_bytes is None
    factor = asked or (USUAL_SLOWDOWN if has_swap else None)
    rates = [r.throughput_per_s for r in unlimited if r.throughput_per_s]
    fast = given if factor and pace else None
    later_s, later_trials = _later_start(fast, unlimited, list(records.values()))
    return Minimum(
        name=search.name,
        folder=sweep.path,
        demand_bytes=max(demands),
        demand_least_bytes=min(demands),
        demands_bytes=tuple(demands),
        unlimited_s=None if rates else pace,
        viable=viable_bracket(tried),
        given=given,
        fast=fast,
        trials=len(records),
        total_s=sum((r.wall_s or 0.0) + (r.harness_s or 0.0) for r in records.values()),
        tried=tuple(tried),
        slowdown=factor,
        throughput=goal.throughput,
        unit=throughput_unit(unlimited[0].settings),
        unlimited_per_s=statistics.median(rates) if rates else None,
        stop_after_s=search.stop_after_s,
        later_start_s=later_s,
        later_start_trials=later_trials,
        size_bytes=search.size_bytes,
        finished=not planner.open_question(planned, records),
        unmeasured=unmeasured(unlimited),
        **_parts(unlimited),
        swap_kind=unlimited[0].limits.swap_kind,
        swap_ram_bytes=max(
            (r.swap_ram.peak_bytes for r in records.values() if r.swap_ram), default=None
        ),
    )


def _parts(unlimited: Sequence[TrialRecord]) -> dict[str, Any]:
    """What of the largest need can't be dropped or was charged elsewhere; the most of libraries."""
    needs = [need for need in map(need_of, unlimited) if need]
    most = max(needs, key=lambda need: need.total_bytes, default=None)
    return {
        "undroppable_bytes": most.undroppable_bytes if most else None,
        "elsewhere_bytes": most.elsewhere_bytes if most else 0,
        "library_bytes": most_libraries(unlimited),
    }


def _later_start(
    fast: LimitBracket | None, unlimited: Sequence[TrialRecord], records: Sequence[TrialRecord]
) -> tuple[float | None, int]:
    """Median seconds from a trial's beginning to the end of its first round, less unlimited.

    And how many trials at the limit say so.
    """
    if fast is None or fast.good is None:
        return None, 0
    size = fast.good.limit_bytes
    here = [r for r in records if size in (r.limit_bytes, r.limits.memory_bytes)]
    medians = [median_pace(trials, start_of_rounds) for trials in (here, unlimited)]
    if None in medians:
        return None, 0
    known = sum(start_of_rounds(record) is not None for record in here)
    return (medians[0] or 0.0) - (medians[1] or 0.0), known
