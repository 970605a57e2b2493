"""The search for a least limit, by trials.

It keeps two values: the hardest that was enough, and the easiest that was not. Each trial brings
them nearer to each other. The planners are pure: the same records give the same next trial, so that
an interrupted search can be resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgebench.need import need_of
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.limit_met import is_limit_met
from edgebench.results.unmeasured import unmeasured
from edgebench.run.pace import Pace, median_pace, trials_by_point
from edgebench.scenario.planner import Planner
from edgebench.scenario.points import PlannedTrial, Point, demand_of, limits_of
from edgebench.units import MIB

#: A bracket is settled once its ends differ by at most this ratio.
PRECISION = 1.05
#: A slowdown so near to the factor (as a logarithm) counts only when it was seen so often.
_NEAR, _CONFIRMED = 0.15, 2
#: While only one end is known, the distance from the guess grows by this power.
_GROWTH = 2.5
#: Without a guess for what is slow: each limit is this part of the last one that was fast enough;
#: above one that was too slow, so many times it.
_DOWN, _UP = 0.7, 1.2
#: What is tried between two ends keeps this share of their distance from either.
_MARGIN = 0.2
#: Where swap can take all of the demand, trials begin to fail somewhere below this part of it.
_SWAPPED_SHARE = 0.15
#: No limit above so many times the demand is tried for what is slow, or for what is viable.
_SLOW_MOST, _VIABLE_MOST = 1.3, 4.0
#: A trial at a limit may take so many times as long as without one, or so much of the factor; less
#: once one was stopped.
_STOP, _STOP_AGAIN = (5.0, 2.5), (3.0, 1.5)
#: It may always take this much longer, so that a short program isn't stopped for noise.
_STOP_EXTRA_S = 1.0
#: What a search may take: as long as so many unlimited trials, and at least so many seconds.
_BUDGET_TRIALS, _BUDGET_S = 12, 45.0
#: A search for a network ends after so many trials at most, if they don't contradict each other;
#: and after so many, where both a kill and a slowdown are searched for.
_MOST_TRIALS, _MOST_OF_BOTH = 16, 24
#: Demands that differ by more than this share, and by more than the kernel's batches of pages.
_DEMAND_SPREAD, _SAME_BYTES = 0.05, MIB
#: A kill at so many times the demand shows that another run needs more, if it is more by so much:
#: what is being read ahead can't be dropped.
_KILLED_ABOVE, _READ_AHEAD = 1.1, 32 * MIB


@dataclass(frozen=True)
class TriedLimit:
    """What the trials at one limit came to.

    Args:
        limit_bytes: the limit.
        outcome: ``ok`` if all finished, else the first other outcome.
        slowdown: the median of the trials; None unless all finished.
        trials: how many there were.
        swap_free_bytes: the least swap that was free at kills which a lack of it can't explain;
            None: there were none.
        killed: how many of the trials were killed for memory.
        stopped_s: how long a trial ran that was stopped at its time limit; None: none was.
    """

    limit_bytes: float
    outcome: str
    slowdown: float | None
    trials: int = 1
    swap_free_bytes: int | None = None
    killed: int = 0
    stopped_s: float | None = None


@dataclass(frozen=True)
class LimitBracket:
    """The least limit that was enough, and the largest below it that was not; None: not found."""

    good: TriedLimit | None
    bad: TriedLimit | None

    @property
    def settled(self) -> bool:
        """Whether both ends are known and near enough."""
        if self.good is None or self.bad is None:
            return False
        return self.good.limit_bytes / self.bad.limit_bytes <= PRECISION


def _bracket(tried: Sequence[TriedLimit], is_good: Callable[[TriedLimit], bool]) -> LimitBracket:
    """The least good limit, and the largest bad one.

    A good limit below a bad one was luck, and does not count.
    """
    bad = max((one for one in tried if not is_good(one)), key=_limit_bytes, default=None)
    low = bad.limit_bytes if bad else 0.0
    good = [one for one in tried if is_good(one) and one.limit_bytes > low]
    return LimitBracket(min(good, key=_limit_bytes, default=None), bad)


def plan_trial(
    planned: Sequence[PlannedTrial], point: str, timeout_s: float | None = None
) -> PlannedTrial:
    """The next trial of a search: one of this point, in a block of its own."""
    number, repeat = len(planned), sum(one.point_id == point for one in planned)
    return PlannedTrial(f"{number + 1:04d}", point, number, repeat, timeout_s=timeout_s)


def viable_bracket(tried: Sequence[TriedLimit]) -> LimitBracket:
    """The least limit at which trials finish."""
    return _bracket(tried, lambda one: one.outcome == "ok")


def slowdown_bracket(tried: Sequence[TriedLimit], slowdown: float) -> LimitBracket:
    """The least limit at which the slowdown is at most the factor."""

    def is_fast(one: TriedLimit) -> bool:
        return one.slowdown is not None and one.slowdown <= slowdown

    return _bracket(tried, is_fast)


def _limit_bytes(one: TriedLimit) -> float:
    return one.limit_bytes


def demand_range(unlimited: Sequence[TrialRecord]) -> tuple[int, int] | None:
    """The least and the most that unlimited trials needed; None if none of them tells."""
    sizes = demands_of(unlimited)
    return (min(sizes), max(sizes)) if sizes else None


def demands_of(unlimited: Sequence[TrialRecord]) -> list[int]:
    """Bytes that each unlimited trial needed, of those that finished and tell it."""
    found = ((need_of(r), r.peak_bytes) for r in unlimited if r.outcome == "ok")
    sizes = (round(need.total_bytes) if need else peak for need, peak in found)
    return [size for size in sizes if size]


def most_libraries(unlimited: Sequence[TrialRecord]) -> int | None:
    """The most that one of them mapped of libraries, in bytes; None: not known."""
    return max((r.library_bytes for r in unlimited if r.library_bytes is not None), default=None)


def differs(least_bytes: float, most_bytes: float) -> bool:
    """Whether two demands differ by more than noise."""
    return most_bytes - least_bytes > max(_DEMAND_SPREAD * least_bytes, _SAME_BYTES)


def is_killed_above(one: TriedLimit, demand_bytes: float) -> bool:
    """Whether a trial was killed at a limit at which no other run needs so much."""
    most_bytes = max(_KILLED_ABOVE * demand_bytes, demand_bytes + _READ_AHEAD)
    return one.outcome == "oom-killed" and one.limit_bytes > most_bytes


@dataclass(frozen=True)
class SearchGoal:
    """What is searched for, beside the least viable limit.

    Args:
        slowdown: the factor that it may be slower by; None: only viability.
        throughput: the least that it must get done in a second, instead of a slowdown.
        confirm: how many further trials the least viable limit must finish.
        killed: whether the least viable limit is searched for, too, where a slowdown is asked for
            and swap can hold all of the demand.
    """

    slowdown: float | None = None
    throughput: float | None = None
    confirm: int = 0
    killed: bool = True

    def factor(self, unlimited_pace: float | None) -> float | None:
        """The slowdown that is allowed; below 1: even the unlimited trials are too slow."""
        if self.throughput is not None:
            return 1 / unlimited_pace / self.throughput if unlimited_pace else None
        return self.slowdown


@dataclass(frozen=True)
class LimitGuess:
    """Where to begin, in bytes, as far as a prediction tells.

    Else it begins at the part of the demand that swap can't take, and goes down from the demand.
    """

    viable_bytes: float | None = None
    slowdown_bytes: float | None = None


@dataclass(frozen=True)
class TrialRules:
    """How the trials of a kind of workload are made and read.

    Args:
        pace: the time that the slowdown is of.
        unlimited: how many trials without a limit are made.
        most_unlimited: as many, if their demands differ.
        timeout_s: the time limit of a trial; None: the scenario's.
        is_hurried: whether a trial at a limit is stopped at a few times the unlimited time (unless
            ``timeout_s`` is given), and the search ends with its budget.
        budget_s: of all trials together; None: derived from the unlimited time.
        searches: whether limits are tried; a single candidate always is.
    """

    pace: Pace
    unlimited: int = 1
    most_unlimited: int = 1
    timeout_s: float | None = None
    is_hurried: bool = False
    budget_s: float | None = None
    searches: bool = True


def most_network_trials(*, both: bool) -> int:
    """How many trials a search for a network takes at most; ``both``: where it is killed, too."""
    return _MOST_OF_BOTH if both else _MOST_TRIALS


def usual_budget_s(unlimited_s: float) -> float:
    """What a search for a program may take, from what the program takes without a limit."""
    return max(_BUDGET_S, _BUDGET_TRIALS * unlimited_s)


class LimitSearch(Planner):
    """Searches the least limits of one workload, one trial after the other.

    With a single candidate, that limit is tried until a trial fails or enough have finished.

    Args:
        points: one unlimited point, and the candidates.
        goal: what is searched for.
        rules: how trials are made and read.
        guess: where to begin.
    """

    def __init__(
        self,
        points: Sequence[Point],
        goal: SearchGoal,
        rules: TrialRules,
        guess: LimitGuess | None = None,
    ) -> None:
        self._points = {point.id: point for point in points}
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._goal, self._rules, self._guess = goal, rules, guess or LimitGuess()
        self._single = len(points) == 2
        self.pace = rules.pace

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, there is nothing to search for."""
        return [plan_trial([], self._unlimited.id, self._rules.timeout_s)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial; empty once the answers are known, or at the end of the time."""
        by_point = trials_by_point(planned, records)
        base_s = _wall_s(by_point.get(self._unlimited.id, [])) or 0.0
        trials = [record for own in by_point.values() for record in own]
        if self._rules.is_hurried and len(trials) >= self._rules.unlimited:
            spent_s = sum((one.wall_s or 0.0) + (one.harness_s or 0.0) for one in trials)
            budget_s = self._rules.budget_s or usual_budget_s(base_s)
            if spent_s + 2 * base_s > budget_s:
                return []
        return self.open_question(planned, records)

    def open_question(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial, whatever time is left; empty once the answers are known."""
        rules = self._rules
        unlimited = trials_by_point(planned, records).get(self._unlimited.id, [])
        demand = demand_range(unlimited)
        if any(record.outcome != "ok" for record in unlimited) or demand is None:
            return []
        hidden, tried = unmeasured(unlimited).growth, self.tried(planned, records)
        varies = differs(*demand) or any(is_killed_above(one, demand[1]) for one in tried)
        wanted_trials = rules.most_unlimited if varies and not hidden else rules.unlimited
        if len(unlimited) < wanted_trials:
            return [plan_trial(planned, self._unlimited.id, rules.timeout_s)]
        if hidden or not (rules.searches or self._single):
            # No limit says anything about a need that isn't known.
            return []
        factor = self._goal.factor(median_pace(unlimited, self.pace))
        own_demand = self._own_demand(planned, records)
        limited = (point for point in self._points.values() if not point.unlimited)
        candidates = {limit_of(point, own_demand): point.id for point in limited}
        wanted = self._next(_Question([*candidates], tried, demand[1], factor))
        if wanted is None:
            return []
        timeout_s = rules.timeout_s or self._stop_s(tried, _wall_s(unlimited), factor)
        return [plan_trial(planned, candidates[wanted], timeout_s)]

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """What was tried below a limit."""
        demand = self._own_demand(planned, records)
        by_point = trials_by_point(planned, records)
        base = median_pace(by_point.pop(self._unlimited.id, []), self.pace)
        return [
            _tried_limit(limit_of(self._points[name], demand), own, base, self.pace)
            for name, own in by_point.items()
        ]

    def _own_demand(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> int:
        """What limits are shares of, as a sweep resolves them, in bytes."""
        return demand_of(self._unlimited, self._points, planned, records) or 0

    def _stop_s(
        self, tried: Sequence[TriedLimit], base_s: float | None, factor: float | None
    ) -> float | None:
        """When a trial at a limit is stopped; None: at the scenario's time limit."""
        if base_s is None or not self._rules.is_hurried:
            return None
        # Once one was slow enough to be stopped, others need to show no more than that.
        is_again = any(one.outcome == "timeout" for one in tried)
        least, of_factor = _STOP_AGAIN if is_again else _STOP
        return max(base_s * max(least, of_factor * (factor or 1.0)), base_s + _STOP_EXTRA_S)

    def _next(self, asked: _Question) -> float | None:
        """Kills first where little or no swap makes them likely: such trials are short."""
        is_swappable = swap_holds(self._unlimited.limits, asked.demand_bytes)
        is_slow_asked = asked.factor is not None and asked.factor > 1
        slow = self._next_slow(asked) if is_slow_asked else None
        if is_slow_asked and is_swappable and not (self._goal.killed or self._single):
            return slow
        viable = self._next_viable(asked, is_swappable=is_swappable)
        first, second = (slow, viable) if is_swappable else (viable, slow)
        return second if first is None else first

    def _next_slow(self, asked: _Question) -> float | None:
        """Down in large steps until it is too slow, then between the two last limits."""
        factor = asked.factor or 1.0
        found = slowdown_bracket(asked.tried, factor)
        if (near := _doubtful_limit(found, factor)) is not None:
            return near
        guess = self._guess.slowdown_bytes or _slow_guess(found, asked.demand_bytes)
        return _next_limit(self._up_to(asked, _SLOW_MOST), found, guess, factor)

    def _next_viable(self, asked: _Question, *, is_swappable: bool) -> float | None:
        """From the demand, or from what swap can't take; then often enough at the same limit."""
        found, demand_bytes = viable_bracket(asked.tried), asked.demand_bytes
        swap, begin = self._unlimited.limits, demand_bytes
        if swap.swap_kind != "none":
            swap_bytes = demand_bytes if is_swappable else swap.swap_bytes or 0
            begin = max(demand_bytes - swap_bytes, demand_bytes * _SWAPPED_SHARE)
        guess = self._guess.viable_bytes or begin
        wanted = _next_limit(self._up_to(asked, _VIABLE_MOST), found, guess)
        if wanted is None and found.good and (found.bad or self._single):
            # Until it has finished often enough; if it fails, it is not viable.
            return found.good.limit_bytes if found.good.trials <= self._goal.confirm else None
        return wanted

    def _up_to(self, asked: _Question, times: float) -> list[float]:
        """The candidates up to so many times the demand; the only one in any case."""
        most = times * asked.demand_bytes
        return [limit for limit in asked.candidates if self._single or limit <= most]


@dataclass(frozen=True)
class _Question:
    """What is known before the next limit is chosen; sizes in bytes."""

    candidates: Sequence[float]
    tried: Sequence[TriedLimit]
    demand_bytes: float
    factor: float | None


def swap_holds(limits: LimitSetting, demand_bytes: float) -> bool:
    """Whether the swap can hold all of a demand; the system's own is taken for enough."""
    return limits.swap_kind != "none" and (limits.swap_bytes or demand_bytes) >= demand_bytes


def limit_of(point: Point, demand_bytes: int) -> float:
    """The point's limit in bytes, of a workload of that demand; 0 if it has none."""
    return float(limits_of(point, demand_bytes).memory_bytes or 0)


def _wall_s(trials: Sequence[TrialRecord]) -> float | None:
    return median_pace(trials, lambda record: record.wall_s)


def _tried_limit(
    limit_bytes: float, own: Sequence[TrialRecord], base: float | None, pace: Pace
) -> TriedLimit:
    """What the trials at one limit came to; ``base`` is the unlimited pace."""
    lost = next((record.outcome for record in own if record.outcome != "ok"), None)
    seconds = None if lost else median_pace(own, pace)
    if seconds and not is_limit_met(own[0].limits, len(own), (r.limit_hits for r in own)):
        seconds = base
    # Swap that was free at kills which a lack of it can't explain.
    free = [r.kill.swap_free_bytes for r in own if r.killed_with_swap_free and r.kill]
    return TriedLimit(
        limit_bytes,
        lost or "ok",
        seconds / base if seconds is not None and base else None,
        len(own),
        min((size for size in free if size is not None), default=None),
        killed=sum(record.outcome == "oom-killed" for record in own),
        stopped_s=max((r.wall_s or 0.0 for r in own if r.outcome == "timeout"), default=None),
    )


def _next_limit(
    candidates: Sequence[float], found: LimitBracket, guess: float, slowdown: float | None = None
) -> float | None:
    """The candidate to try next; None if there is nothing more to learn among them."""
    if found.settled:
        return None
    low = found.bad.limit_bytes if found.bad else 0.0
    high = found.good.limit_bytes if found.good else math.inf
    aim = guess if low < guess < high else _aim(found, guess, slowdown)
    between = [one for one in candidates if low < one < high]
    return min(between, key=lambda one: abs(math.log(one / aim)), default=None)


def _slow_guess(found: LimitBracket, demand_bytes: float) -> float:
    """Where it may get slow: large steps down from the demand, and back up; 0: between the ends."""
    if found.bad is None:
        return _DOWN * (found.good.limit_bytes if found.good else demand_bytes)
    return _UP * found.bad.limit_bytes if found.good is None else 0.0


def _doubtful_limit(found: LimitBracket, slowdown: float) -> float | None:
    """An end of a settled bracket that one trial alone, near the factor, made good or bad."""
    for one in (found.good, found.bad) if found.settled else ():
        near = one and one.slowdown and abs(math.log(one.slowdown / slowdown)) < _NEAR
        if one and near and one.trials < _CONFIRMED:
            return one.limit_bytes
    return None


def _aim(found: LimitBracket, guess: float, slowdown: float | None) -> float:
    """The most likely answer, in bytes, once the guess was tried."""
    if found.good and found.bad:
        return _between(found.good, found.bad, slowdown)
    known = found.good or found.bad
    assert known is not None
    # While only one side is known, the steps away from the guess grow.
    ratio = math.pow(known.limit_bytes / guess, _GROWTH)
    if found.good:
        return min(guess * ratio, known.limit_bytes / PRECISION)
    return max(guess * ratio, known.limit_bytes * PRECISION)


def _between(good: TriedLimit, bad: TriedLimit, slowdown: float | None) -> float:
    """The middle; or where the line through both slowdowns meets the factor."""
    part = 0.5
    if slowdown is not None and good.slowdown and bad.slowdown:
        rise = math.log(bad.slowdown / good.slowdown)
        part = math.log(slowdown / good.slowdown) / rise if rise > 0 else 0.5
    part = min(max(part, _MARGIN), 1 - _MARGIN)
    return math.exp(math.log(good.limit_bytes) * (1 - part) + math.log(bad.limit_bytes) * part)
