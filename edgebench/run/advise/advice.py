"""Advice: remedies tried for real under a limit, kept as a sweep, and ranked by what they buy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.distributions import fisher_tail
from edgebench.extras import need
from edgebench.records import TrialRecord
from edgebench.results.derived import TriedRemedy, keep_advice
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.unmeasured import unmeasured
from edgebench.run.advise.answer import (
    Advice,
    BestRemedy,
    by_time,
    known_bounds,
    typed_lines,
)
from edgebench.run.advise.budget import SearchClock
from edgebench.run.advise.candidates import PLAIN, Candidate, UntriedRemedy, candidates_of
from edgebench.run.advise.planner import WORTH, AdvicePlanner
from edgebench.run.advise.request import AdviceRequest, advice_scenario, both_points
from edgebench.run.advise.trials import (
    MEASURING,
    SCREENING,
    UNLIMITED,
    AdviceTrials,
    paired_ratio,
)
from edgebench.run.search.search import most_libraries, needs_of
from edgebench.run.search.unlimited_trials import check_unlimited
from edgebench.run.sweep.sweep import SweepOptions, planned_trials, run_sweep
from edgebench.run.sweep.trials import Progress
from edgebench.run.trial.command import check_command
from edgebench.run.walk.pace import Pace, pace_of_program, pace_of_rounds
from edgebench.scenario.points import Point, libraries
from edgebench.units import parse_duration

#: Confidence of intervals in the race, and of the winner's.
_SCREENED, _MEASURED = 0.9, 0.95
_LUCK = 0.1


def find_advice(request: AdviceRequest, options: SweepOptions, progress: Progress) -> Advice:
    """Try remedies under the limit, and measure the best anew.

    Raises:
        UsageError: a value is not possible.
        WorkloadError: the workload doesn't finish even without a limit.
        CgroupError, MachineError, ResultsError: as :func:`~edgebench.run.sweep.sweep.run_sweep`.
    """
    clock = SearchClock()
    scenario = advice_scenario(request)
    if request.command:
        check_command(request.command)
    unlimited, limited = both_points(scenario)
    candidates, untried = candidates_of(unlimited, limited, lossy=request.lossy)
    pace: Pace = pace_of_program if limited.settings["kind"] == "command" else pace_of_rounds
    budget_s = parse_duration(request.budget)
    planner = AdvicePlanner(candidates, pace, budget_s, scenario.seed, clock)
    every = [point for one in candidates for point in (one.unlimited, one.limited)]
    # All that is lacking at once, and before the trials rather than after them.
    need(*libraries(limited.settings))
    folder = run_sweep(scenario, options, progress, planner, every).folder
    found = _Reader(planner, candidates, untried).advice(folder, limited)
    if found.finished:
        keep_advice(folder, found.to_json())
    return found


class _Reader:
    """Reads the answer from the trials that the planner chose."""

    def __init__(
        self,
        planner: AdvicePlanner,
        candidates: Sequence[Candidate],
        untried: Sequence[UntriedRemedy],
    ) -> None:
        self._planner, self._untried = planner, untried
        self._candidates = {one.name: one for one in candidates}

    def advice(self, folder: Path, limited: Point) -> Advice:
        """Return the answer.

        Raises:
            WorkloadError: the plain workload fails without a limit.
            ResultsError: the folder can't be read.
        """
        sweep = read_sweep(folder)
        planned = planned_trials(sweep.resolved.get("plan"), folder)
        records: Mapping[str, TrialRecord] = {record.trial: record for record in sweep.records}
        seen, name = self._planner.trials(planned, records), _name_of(limited)
        unlimited = list(seen.records(PLAIN, limited=False).values())
        check_unlimited(sweep, name, unlimited)
        tried = [self._tried(seen, one) for one in self._candidates if one != PLAIN]
        shown = [one for one in tried if one.trials]
        pressed = self._planner.pressed(seen)
        return Advice(
            name=name,
            kind=str(limited.settings["kind"]),
            folder=sweep.path,
            limit_bytes=limited.limits.memory_bytes or 0,
            plain_end=seen.plain_end,
            plain_s=seen.seconds(PLAIN),
            unlimited_s=seen.seconds(PLAIN, limited=False),
            pressed=pressed,
            best=self._best(seen, limited),
            tried=by_time(shown),
            untried=tuple(self._untried),
            out_of_time=tuple(t.name for t in tried if pressed and not t.trials and _is_one(t)),
            trials=len(records),
            total_s=self._planner.budget.outside_s + seen.took_s(),
            trial_s=seen.trial_s(PLAIN),
            budget_s=self._planner.budget.seconds,
            finished=not self._planner.further(planned, records),
            unmeasured=unmeasured(unlimited),
            needed_bytes=max((n.total_bytes for n in needs_of(unlimited)), default=None),
            library_bytes=most_libraries(unlimited),
        )

    def _tried(self, seen: AdviceTrials, name: str) -> TriedRemedy:
        candidate = self._candidates[name]
        own = seen.records(name, SCREENING, MEASURING)
        found = paired_ratio(seen.logs(name, SCREENING, MEASURING), _SCREENED)
        low, high = known_bounds(found.low, found.high) if found else (None, None)
        seconds = seen.seconds(name, SCREENING, MEASURING)
        late = [one.wall_s for one in own.values() if one.outcome == "timeout" and one.wall_s]
        is_program = candidate.limited.settings["kind"] == "command"
        return TriedRemedy(
            name,
            "; ".join(one.title for one in candidate.remedies),
            seen.end(name),
            found.ratio if found else None,
            low,
            high,
            finished=sum(one.outcome == "ok" for one in own.values()),
            trials=len(own),
            seconds=seconds,
            stopped_s=max(late, default=None) if is_program and seconds is None else None,
            changes=candidate.changes,
        )

    def _best(self, seen: AdviceTrials, limited: Point) -> BestRemedy | None:
        """Return the winner; None where there is none, or it was not measured anew yet."""
        name = self._planner.winner(seen) if seen.has_begun(MEASURING) else None
        if name is None:
            return None
        candidate = self._candidates[name]
        own = list(seen.records(name, MEASURING, UNLIMITED).values())
        finished = sum(one.outcome == "ok" for one in own)
        found = paired_ratio(seen.logs(name, MEASURING, UNLIMITED), _MEASURED)
        free = paired_ratio(seen.logs(name, UNLIMITED, UNLIMITED + 100, limited=False), _MEASURED)
        low, high = known_bounds(found.low, found.high) if found else (None, None)
        plain = [r.outcome == "ok" for r in seen.records(PLAIN, MEASURING, UNLIMITED).values()]
        same = seen.end(name, MEASURING, UNLIMITED) == "ok"
        faster = found is not None and found.ratio <= WORTH and found.high < 1
        return BestRemedy(
            name=name,
            titles=tuple(one.title for one in candidate.remedies),
            typed=tuple(typed_lines(candidate, limited.settings)),
            finished=finished,
            trials=len(own),
            plain_finished=sum(plain),
            ratio=found.ratio if found else None,
            low=low,
            high=high,
            pairs=found.pairs if found else 0,
            seconds=seen.seconds(name, MEASURING, UNLIMITED),
            unlimited_ratio=free.ratio if free else None,
            changes=candidate.changes,
            costs="; ".join(one.costs for one in candidate.remedies),
            confirmed=bool(own) and same and (faster or _fits_more_often(len(own), plain)),
        )


def _fits_more_often(finished: int, plain: Sequence[bool]) -> bool:
    """Whether finishing so often, each time, is more than luck beside plain trials that did or not.

    Fisher's exact test, one-sided, at 10 %.
    """
    return fisher_tail(finished, finished, sum(plain), len(plain)) < _LUCK


def _is_one(tried: TriedRemedy) -> bool:
    """Whether it is a remedy by itself, which each is to be tried as."""
    return "+" not in tried.name


def _name_of(point: Point) -> str:
    """Return the network's or the program's name."""
    settings = point.settings
    if settings["kind"] == "command":
        return shlex.join(settings["command"])
    return "+".join(settings.get("networks") or [str(settings.get("network", settings["kind"]))])
