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

#: A bracket is settled once its ends differ by at most this ratio; that of kills below the limit to
#: give, unless they are asked for, at this one.
PRECISION, _KILL_PRECISION = 1.05, 1.2
#: The slowdown that is allowed where none is asked for; and what a short program may take longer.
USUAL_SLOWDOWN, USUAL_LATER_S = 1.1, 0.1
#: A slowdown so near to the factor (as a logarithm, and a part of the factor's) needs two trials.
_NEAR, _NEAR_PART = 0.15, 0.5
#: While only one end is known, the distance from the guess grows by this power.
_GROWTH = 2.5
#: With swap each limit is this part of the last one that was fast enough; above one that was too
#: slow, so many times it.
_DOWN, _UP = 0.7, 1.2
#: What is tried between two ends keeps this share of their distance from either.
_MARGIN = 0.2
#: Where swap can take all of the demand, trials begin to fail somewhere below this part of it.
_SWAPPED_SHARE = 0.15
#: No limit above so many times the demand is tried.
_MOST = 4.0
#: A trial at a limit may take so many times as long as without one, or so much of the factor; and
#: always this much longer, so that a short program isn't stopped for noise.
_STOP, _STOP_PART, _STOP_EXTRA_S = 3.0, 1.5, 1.0
#: What a search may take: as long as so many unlimited trials, and at least so many seconds.
_BUDGET_TRIALS, _BUDGET_S = 12, 45.0
#: The given limit is confirmed this often, unless it is asked for; fewer times, but once, after so
#: many seconds.
_CONFIRM, _CONFIRM_S = 3, 12.0
#: A search for a network ends after so many trials at most, if they don't contradict each other;
#: and after so many, where both a kill and a slowdown are searched for.
_MOST_TRIALS, _MOST_OF_BOTH = 22, 24
#: Demands that differ by more than this share, and by more than the kernel's batches of pages.
_DEMAND_SPREAD, _SAME_BYTES = 0.05, MIB
#: A huge page: where memory comes in these, a limit that is no multiple may kill at any size.
HUGE_PAGE = 2 * MIB
#: From here on, multiples of it are as close as the search gets.
_HUGE_FROM = 20 * HUGE_PAGE


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
        reason: why the first trial that did not finish ended; None: all finished.
    """

    limit_bytes: float
    outcome: str
    slowdown: float | None
    trials: int = 1
    swap_free_bytes: int | None = None
    killed: int = 0
    stopped_s: float | None = None
    reason: str | None = None

    @property
    def huge_multiple(self) -> int | None:
        """The multiple of a huge page below a kill at a limit that is none; None: no such kill."""
        below = int(self.limit_bytes // HUGE_PAGE) * HUGE_PAGE
        is_odd = self.outcome == "oom-killed" and below < self.limit_bytes
        return below if is_odd and below else None


@dataclass(frozen=True)
class LimitBracket:
    """The least limit that was enough, and the largest below it that was not; None: not found."""

    good: TriedLimit | None
    bad: TriedLimit | None

    @property
    def settled(self) -> bool:
        """Whether both ends are known and near enough."""
        return self.is_known_to(PRECISION)

    def is_known_to(self, ratio: float) -> bool:
        """Whether both ends are known and differ by at most this ratio."""
        if self.good is None or self.bad is None:
            return False
        return self.good.limit_bytes / self.bad.limit_bytes <= ratio


def _bracket(tried: Sequence[TriedLimit], is_good: Callable[[TriedLimit], bool]) -> LimitBracket:
    """The least good limit, and the largest bad one.

    A good limit below a bad one was luck, and does not count. A kill does not, either, whose next
    smaller multiple of a huge page finished.
    """
    finished = {one.limit_bytes for one in tried if one.outcome == "ok"}
    tried = [one for one in tried if one.huge_multiple not in finished]
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


def slowdown_bracket(
    tried: Sequence[TriedLimit], slowdown: float | None, unlimited_s: float | None = None
) -> LimitBracket:
    """The least limit at which it is not slower than the factor, or than usual."""
    return _bracket(
        tried, lambda one: one.outcome == "ok" and not is_slow(one, slowdown, unlimited_s)
    )


def is_slow(one: TriedLimit, slowdown: float | None, unlimited_s: float | None) -> bool:
    """Whether it takes longer at a limit than the factor allows; None: by more than usual."""
    if slowdown is not None:
        return one.slowdown is None or one.slowdown > slowdown
    if one.slowdown is None or one.slowdown <= USUAL_SLOWDOWN:
        return False
    return unlimited_s is None or (one.slowdown - 1) * unlimited_s >= USUAL_LATER_S


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


@dataclass(frozen=True)
class SearchGoal:
    """What is searched for, beside the least viable limit.

    Args:
        slowdown: the factor that it may be slower by; None: the usual one.
        throughput: the least that it must get done in a second, instead of a slowdown.
        confirm: how many further trials the given limit must finish; None: as many as usual.
        killed: whether the least viable limit is searched for, too, where swap can hold all of the
            demand.
    """

    slowdown: float | None = None
    throughput: float | None = None
    confirm: int | None = None
    killed: bool = True

    def factor(self, unlimited_pace: float | None) -> float | None:
        """The slowdown that is asked for; below 1: even the unlimited trials are too slow."""
        if self.throughput is not None:
            return 1 / unlimited_pace / self.throughput if unlimited_pace else None
        return self.slowdown


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
    """

    def __init__(self, points: Sequence[Point], goal: SearchGoal, rules: TrialRules) -> None:
        self._points = {point.id: point for point in points}
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._goal, self._rules = goal, rules
        self._single = len(points) == 2
        self.pace = rules.pace

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, there is nothing to search for."""
        return [plan_trial([], self._unlimited.id, self._rules.timeout_s)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial; empty once the answers are known, or at the end of the time."""
        own = trials_by_point(planned, records).get(self._unlimited.id, [])
        base_s = _wall_s(own) or 0.0
        if self._rules.is_hurried and len(own) >= self._rules.unlimited:
            budget_s = self._rules.budget_s or usual_budget_s(base_s)
            if _spent_s(records) + 2 * base_s > budget_s:
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
        varies = differs(*demand) and not hidden
        wanted_trials = rules.most_unlimited if varies else rules.unlimited
        if len(unlimited) < wanted_trials:
            return [plan_trial(planned, self._unlimited.id, rules.timeout_s)]
        if hidden or not (rules.searches or self._single):
            # No limit says anything about a need that isn't known.
            return []
        base = median_pace(unlimited, self.pace)
        factor = self._goal.factor(base)
        own_demand = self._own_demand(planned, records)
        limited = (point for point in self._points.values() if not point.unlimited)
        candidates = {limit_of(point, own_demand): point.id for point in limited}
        held = max((r.undroppable_bytes or demand[1] for r in unlimited), default=demand[1])
        asked = _Question([*candidates], tried, demand[1], held, factor, base, _spent_s(records))
        wanted = self._next(asked)
        if wanted is None:
            return []
        timeout_s = rules.timeout_s or self._stop_s(_wall_s(unlimited), factor)
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

    def _stop_s(self, base_s: float | None, factor: float | None) -> float | None:
        """When a trial at a limit is stopped; None: at the scenario's time limit."""
        if base_s is None or not self._rules.is_hurried:
            return None
        return max(base_s * max(_STOP, _STOP_PART * (factor or 1.0)), base_s + _STOP_EXTRA_S)

    def given(
        self, tried: Sequence[TriedLimit], factor: float | None, base_s: float | None
    ) -> LimitBracket:
        """The least limit to give, and the largest below it that is too small or too slow."""
        is_viability = factor is None and self._single
        # More than the unlimited trials do can't be had at any limit.
        if is_viability or (factor is not None and factor <= 1):
            return viable_bracket(tried)
        return slowdown_bracket(tried, factor, base_s)

    def _next(self, asked: _Question) -> float | None:
        """First the limit to give, then confirm it, then where it is killed."""
        given = self.given(asked.tried, asked.factor, asked.base_s)
        if self._single:
            (limit,) = asked.candidates
            wanted = limit if given.good is None and given.bad is None else None
        else:
            wanted = self._next_given(asked, given)
        wanted = wanted or _doubtful_limit(given, asked.factor or USUAL_SLOWDOWN)
        if wanted is None and given.good and self._confirms(given.good, asked):
            wanted = given.good.limit_bytes
        is_swappable = swap_holds(self._unlimited.limits, asked.demand_bytes)
        if wanted or self._single or (is_swappable and not self._goal.killed):
            return wanted
        return self._next_viable(asked, is_swappable=is_swappable)

    def _confirms(self, good: TriedLimit, asked: _Question) -> bool:
        """Whether the given limit is tried again."""
        if self._goal.confirm is not None:
            return good.trials <= self._goal.confirm
        # A kill above a limit that finished may have been luck.
        is_doubtful = any(
            one.huge_multiple and one.limit_bytes > good.limit_bytes for one in asked.tried
        )
        is_late = self._rules.is_hurried and asked.spent_s > _CONFIRM_S and not is_doubtful
        return good.trials <= (1 if is_late else _CONFIRM)

    def _next_given(self, asked: _Question, found: LimitBracket) -> float | None:
        """Without swap the need itself and the step below it; with swap large steps down."""
        if (again := asked.second_look(found)) is not None:
            return again
        if self._unlimited.limits.swap_kind != "none":
            guess = _slow_guess(found, asked.demand_bytes)
            return asked.between(found, guess, asked.factor or USUAL_SLOWDOWN)
        need = min((one for one in asked.candidates if one >= asked.demand_bytes), default=None)
        if need is None:
            return None
        tried = {one.limit_bytes for one in asked.tried}
        step = max((one for one in asked.candidates if one < need), default=need)
        if need not in tried:
            return need
        if step not in tried and found.bad is None:
            return step
        return asked.between(found, need, asked.factor or USUAL_SLOWDOWN)

    def _next_viable(self, asked: _Question, *, is_swappable: bool) -> float | None:
        """From what can't be dropped, or what swap can't take."""
        found, swap, begin = viable_bracket(asked.tried), self._unlimited.limits, asked.held_bytes
        if swap.swap_kind != "none":
            swap_bytes = asked.demand_bytes if is_swappable else swap.swap_bytes or 0
            begin = max(asked.demand_bytes - swap_bytes, asked.demand_bytes * _SWAPPED_SHARE)
        is_slow_below = found.bad is not None and found.bad.outcome == "timeout"
        if not self._goal.killed and (is_slow_below or found.is_known_to(_KILL_PRECISION)):
            return None
        again = asked.second_look(found)
        return again if again is not None else asked.between(found, begin)


@dataclass(frozen=True)
class _Question:
    """What is known before the next limit is chosen; sizes in bytes.

    ``held_bytes`` can't be dropped; ``base_s`` is the unlimited pace, ``spent_s`` what all trials
    took.
    """

    candidates: Sequence[float]
    tried: Sequence[TriedLimit]
    demand_bytes: float
    held_bytes: float
    factor: float | None
    base_s: float | None
    spent_s: float

    def second_look(self, found: LimitBracket) -> float | None:
        """The multiple of a huge page below a kill that is to bound the search, if untried."""
        below = found.bad.huge_multiple if found.bad else None
        known = {one.limit_bytes for one in self.tried}
        return below if below in self.candidates and below not in known else None

    def between(
        self, found: LimitBracket, guess: float, slowdown: float | None = None
    ) -> float | None:
        """The candidate to try next; None if there is nothing more to learn among them."""
        if found.settled:
            return None
        low = found.bad.limit_bytes if found.bad else 0.0
        high = found.good.limit_bytes if found.good else math.inf
        aim = guess if low < guess < high else _aim(found, guess, slowdown)
        most, known = _MOST * self.demand_bytes, {one.limit_bytes for one in self.tried}
        left = [one for one in self.candidates if low < one < high and one <= most]
        left = [one for one in left if one not in known]
        finished = {one.limit_bytes for one in self.tried if one.outcome == "ok"}
        if aim >= _HUGE_FROM or any(one.huge_multiple in finished for one in self.tried):
            left = [one for one in left if one % HUGE_PAGE == 0]
        return min(left, key=lambda one: abs(math.log(one / aim)), default=None)


def swap_holds(limits: LimitSetting, demand_bytes: float) -> bool:
    """Whether the swap can hold all of a demand; the system's own is taken for enough."""
    return limits.swap_kind != "none" and (limits.swap_bytes or demand_bytes) >= demand_bytes


def limit_of(point: Point, demand_bytes: int) -> float:
    """The point's limit in bytes, of a workload of that demand; 0 if it has none."""
    return float(limits_of(point, demand_bytes).memory_bytes or 0)


def _spent_s(records: Mapping[str, TrialRecord]) -> float:
    return sum((one.wall_s or 0.0) + (one.harness_s or 0.0) for one in records.values())


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
        reason=next((r.reason for r in own if r.outcome != "ok"), None),
    )


def _slow_guess(found: LimitBracket, demand_bytes: float) -> float:
    """Where it may get slow: large steps down from the demand, and back up; 0: between the ends."""
    if found.bad is None:
        return _DOWN * (found.good.limit_bytes if found.good else demand_bytes)
    return _UP * found.bad.limit_bytes if found.good is None else 0.0


def _doubtful_limit(found: LimitBracket, slowdown: float) -> float | None:
    """An end of a settled bracket that one trial alone, near the factor, made good or bad."""
    near = min(_NEAR, _NEAR_PART * math.log(slowdown)) if slowdown > 1 else 0.0
    for one in (found.good, found.bad) if found.settled else ():
        if not one or one.trials > 1 or not one.slowdown:
            continue
        if abs(math.log(one.slowdown / slowdown)) < near:
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
