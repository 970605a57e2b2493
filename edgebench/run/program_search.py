"""The search for the least limits of any program: few trials, none of which takes long.

The first trials are unlimited: their demand is where the search begins, and their time is what a
trial at a limit may take at most a few times as long as.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.record_view import needed_bytes
from edgebench.records import TrialRecord
from edgebench.run.limit_bracket import (
    TriedLimit,
    doubtful_limit,
    next_limit,
    slow_guess,
    slowdown_bracket,
    viable_bracket,
)
from edgebench.run.limit_search import limit_of, swap_holds
from edgebench.run.limit_trials import (
    Pace,
    median_pace,
    pace_of_program,
    trials_by_point,
    tried_limit,
)
from edgebench.scenario.points import PlannedTrial, Point
from edgebench.units import MIB

#: A trial at a limit may take so many times as long as without one, or so much of the factor.
_STOP, _STOP_AGAIN = (5.0, 2.5), (3.0, 1.5)
#: It may always take this much longer, so that a short program isn't stopped for noise.
_STOP_EXTRA_S = 1.0
#: What a search may take: as long as so many unlimited trials, and at least so many seconds.
_BUDGET_TRIALS, _BUDGET_S = 12, 45.0
#: Unlimited trials whose demand differs by more than this share are repeated, to so many.
_DEMAND_SPREAD, _UNLIMITED, _MOST_UNLIMITED = 0.05, 2, 4
#: Demand that differs by less is the same: the kernel counts pages in batches.
_SAME_BYTES = MIB
#: No limit above so many times the demand is tried for what is slow, or for what is viable.
_SLOW_MOST, _VIABLE_MOST = 1.3, 4.0
#: Where swap can take all of the demand, trials begin to fail somewhere below this part of it.
_SWAPPED_SHARE = 0.15


@dataclass(frozen=True)
class ProgramGoal:
    """What is searched for, beside the least viable limit.

    ``slowdown`` is the factor that it may be slower by; ``throughput`` is the least that it must
    get done in a second. ``timeout_s`` and ``budget_s`` (of all trials together) are derived from
    the unlimited time where they are None. ``confirm``: how many further trials the least viable
    limit must finish. ``killed``: also where it is killed, though the swap can hold all that it
    needs and a slowdown is asked for.
    """

    slowdown: float | None = None
    throughput: float | None = None
    confirm: int = 3
    timeout_s: float | None = None
    budget_s: float | None = None
    killed: bool = True

    def factor(self, unlimited_pace: float | None) -> float | None:
        """The slowdown that is allowed; below 1: even the unlimited trials are too slow."""
        if self.throughput is not None:
            return 1 / unlimited_pace / self.throughput if unlimited_pace else None
        return self.slowdown


def demand_range(unlimited: Sequence[TrialRecord]) -> tuple[int, int] | None:
    """The least and the most that unlimited trials needed; None if none of them tells."""
    told = [needed_bytes(r) or r.peak_bytes for r in unlimited if r.outcome == "ok"]
    sizes = [size for size in told if size]
    return (min(sizes), max(sizes)) if sizes else None


def differs(least_bytes: float, most_bytes: float) -> bool:
    """Whether a program's demand is another one each time."""
    return most_bytes - least_bytes > max(_DEMAND_SPREAD * least_bytes, _SAME_BYTES)


class ProgramPlanner:
    """Chooses among the points of one program, one trial after the other.

    Args:
        points: one unlimited point, and the candidates.
        goal: what is searched for.
    """

    def __init__(self, points: Sequence[Point], goal: ProgramGoal) -> None:
        self._points = {point.id: point for point in points}
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._goal = goal
        self.pace: Pace = pace_of_program

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, there is nothing to search for."""
        return [PlannedTrial("0001", self._unlimited.id, 0, 0, timeout_s=self._goal.timeout_s)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial; empty once the answers are known, or at the end of the time."""
        by_point = trials_by_point(planned, records)
        base = median_pace(by_point.get(self._unlimited.id, []), lambda record: record.wall_s)
        trials = [record for own in by_point.values() for record in own]
        spent = sum((one.wall_s or 0.0) + (one.harness_s or 0.0) for one in trials)
        budget_s = self._goal.budget_s or max(_BUDGET_S, _BUDGET_TRIALS * (base or 0.0))
        if len(trials) >= _UNLIMITED and spent + 2 * (base or 0.0) > budget_s:
            return []
        return self.open_question(planned, records)

    def open_question(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial, whatever time is left; empty once the answers are known."""
        unlimited = trials_by_point(planned, records).get(self._unlimited.id, [])
        base = median_pace(unlimited, lambda record: record.wall_s)
        demand = demand_range(unlimited)
        if any(record.outcome != "ok" for record in unlimited) or not (base and demand):
            return []
        if len(unlimited) < _wanted_unlimited(demand):
            return [self._planned(planned, self._unlimited.id, self._goal.timeout_s)]
        factor = self._goal.factor(median_pace(unlimited, self.pace))
        tried = self.tried(planned, records)
        wanted = self._next(tried, demand[1], factor)
        if wanted is None:
            return []
        # Once one was slow enough to be stopped, others need to show no more than that.
        seen = any(one.outcome == "timeout" for one in tried)
        least, of_factor = _STOP_AGAIN if seen else _STOP
        stop = base * max(least, of_factor * (factor or 1.0))
        timeout_s = self._goal.timeout_s or max(stop, base + _STOP_EXTRA_S)
        return [self._planned(planned, self._candidates()[wanted], timeout_s)]

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """What was tried below a limit."""
        by_point = trials_by_point(planned, records)
        base = median_pace(by_point.pop(self._unlimited.id, []), self.pace)
        return [
            tried_limit(limit_of(self._points[name], 0), own, base, self.pace)
            for name, own in by_point.items()
        ]

    def _planned(
        self, planned: Sequence[PlannedTrial], point: str, timeout_s: float | None
    ) -> PlannedTrial:
        number, repeat = len(planned), sum(one.point_id == point for one in planned)
        return PlannedTrial(f"{number + 1:04d}", point, number, repeat, timeout_s=timeout_s)

    def _candidates(self) -> dict[float, str]:
        limited = (point for point in self._points.values() if not point.unlimited)
        return {limit_of(point, 0): point.id for point in limited}

    def _next(
        self, tried: Sequence[TriedLimit], demand_bytes: float, factor: float | None
    ) -> float | None:
        """Kills first where little or no swap makes them likely: such trials are short."""
        swappable = swap_holds(self._unlimited.limits, demand_bytes)
        asked = factor is not None and factor > 1
        slow = self._next_slow(tried, demand_bytes, factor) if factor and asked else None
        if asked and swappable and not self._goal.killed:
            return slow
        viable = self._next_viable(tried, demand_bytes, swappable)
        first, second = (slow, viable) if swappable else (viable, slow)
        return second if first is None else first

    def _next_slow(
        self, tried: Sequence[TriedLimit], demand_bytes: float, factor: float
    ) -> float | None:
        """Down in large steps until it is too slow, then between the two last limits."""
        found = slowdown_bracket(tried, factor)
        if (near := doubtful_limit(found, factor)) is not None:
            return near
        most = [limit for limit in self._candidates() if limit <= _SLOW_MOST * demand_bytes]
        return next_limit(most, found, slow_guess(found, demand_bytes), factor)

    def _next_viable(
        self, tried: Sequence[TriedLimit], demand_bytes: float, swappable: bool
    ) -> float | None:
        """From the demand, or from what swap can't take; then often enough at the same limit."""
        found = viable_bracket(tried)
        swap = self._unlimited.limits
        begin = demand_bytes
        if swap.swap_kind != "none":
            swap_bytes = demand_bytes if swappable else swap.swap_bytes or 0
            begin = max(demand_bytes - swap_bytes, demand_bytes * _SWAPPED_SHARE)
        most = [limit for limit in self._candidates() if limit <= _VIABLE_MOST * demand_bytes]
        wanted = next_limit(most, found, begin)
        good, bad = found.good, found.bad
        if wanted is None and good and bad and good.trials <= self._goal.confirm:
            return good.limit_bytes
        return wanted


def _wanted_unlimited(demand: tuple[int, int]) -> int:
    return _MOST_UNLIMITED if differs(*demand) else _UNLIMITED
