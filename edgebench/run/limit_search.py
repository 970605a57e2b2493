"""The search for the least limits: each trial narrows the bracket that the answer is in.

Two limits are searched for: the least at which a trial finishes, and the least at which a phase is
slower by no more than a factor. Each trial may serve both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.limit_bracket import (
    TriedLimit,
    doubtful_limit,
    next_limit,
    slow_guess,
    slowdown_bracket,
    viable_bracket,
)
from edgebench.run.limit_trials import median_pace, pace_of_phase, trials_by_point, tried_limit
from edgebench.run.search_planner import SearchPlanner
from edgebench.scenario.points import PlannedTrial, Point, demand_of, limits_of

#: Where swap can take all of the demand, trials begin to fail somewhere below this part of it.
_SWAPPED_SHARE = 0.15


@dataclass(frozen=True)
class LimitGuess:
    """Where to begin, in bytes, as far as a prediction tells.

    Else it begins at the part of the demand that swap can't take, and goes down from the demand.
    """

    viable_bytes: float | None = None
    slowdown_bytes: float | None = None


class BracketingPlanner(SearchPlanner):
    """Chooses among the points of one workload, one trial after the other.

    Args:
        points: one unlimited point, and the candidates.
        slowdown: the factor that the phase may be slower by; None searches for viability alone.
        phase: whose slowdown; ``round`` is a whole pass on the clock.
        guess: where to begin.
        confirm: how many further trials the least viable limit must finish.
        killed: whether to search where it is killed, too, where a slowdown is asked for and swap
            can hold all of the demand.
    """

    def __init__(
        self,
        points: Sequence[Point],
        slowdown: float | None,
        phase: str,
        guess: LimitGuess,
        confirm: int = 0,
        *,
        killed: bool = True,
    ) -> None:
        self._points = {point.id: point for point in points}
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._slowdown = slowdown
        self.pace = pace_of_phase(phase)
        self._guess = guess
        self._confirm = confirm
        self._killed = killed

    def first(self) -> list[PlannedTrial]:
        """Unlimited: its demand, and its time (twice), are what all else is held against."""
        count = 1 if self._slowdown is None else 2
        return [PlannedTrial(f"{n + 1:04d}", self._unlimited.id, 0, n) for n in range(count)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next limit to try; empty once both answers are known."""
        demand = demand_of(self._unlimited, self._points, planned, records)
        if demand is None:
            return []
        candidates = {limit_of(p, demand): p.id for p in self._points.values() if not p.unlimited}
        tried = self.tried(planned, records)
        wanted = self._next(sorted(candidates), tried, demand)
        if wanted is None:
            return []
        point = candidates[wanted]
        repeat = sum(one.point_id == point for one in planned)
        return [PlannedTrial(f"{len(planned) + 1:04d}", point, len(planned), repeat)]

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """What was tried below a limit."""
        demand = demand_of(self._unlimited, self._points, planned, records) or 0
        by_point = trials_by_point(planned, records)
        base = median_pace(by_point.pop(self._unlimited.id, []), self.pace)
        return [
            tried_limit(limit_of(self._points[name], demand), own, base, self.pace)
            for name, own in by_point.items()
        ]

    def _next(
        self, candidates: Sequence[float], tried: Sequence[TriedLimit], demand_bytes: int
    ) -> float | None:
        """What is fast enough first: its trials are quick, and may answer the other question."""
        limits = self._unlimited.limits
        if self._slowdown is not None:
            found = slowdown_bracket(tried, self._slowdown)
            wanted = doubtful_limit(found, self._slowdown)
            if wanted is None:
                begin = self._guess.slowdown_bytes or slow_guess(found, demand_bytes)
                wanted = next_limit(candidates, found, begin, self._slowdown)
            only = swap_holds(limits, demand_bytes) and not self._killed
            if wanted is not None or only:
                return wanted
        found = viable_bracket(tried)
        unswapped = max(demand_bytes - (limits.swap_bytes or 0), demand_bytes * _SWAPPED_SHARE)
        wanted = next_limit(candidates, found, self._guess.viable_bytes or unswapped)
        if wanted is None and found.good and found.bad and found.good.trials <= self._confirm:
            # Until it has finished often enough; if it fails, it is none.
            return found.good.limit_bytes
        return wanted


def swap_holds(limits: LimitSetting, demand_bytes: float) -> bool:
    """Whether the swap can hold all of a demand; the system's own is taken for enough."""
    return limits.swap_kind != "none" and (limits.swap_bytes or demand_bytes) >= demand_bytes


def limit_of(point: Point, demand_bytes: int) -> float:
    """The point's limit in bytes, of a workload of that demand; 0 if it has none."""
    return float(limits_of(point, demand_bytes).memory_bytes or 0)
