"""The search for the least limits: trials close in from both sides, one after the other.

Two limits are searched for: the least at which a trial finishes, and the least at which a phase is
slower by no more than a factor. Each trial may serve both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.plan.adaptive import seconds_of
from edgebench.plan.plan import PlannedTrial, Point
from edgebench.plan.planner import demand_of, limits_of
from edgebench.records.records import TrialRecord

#: The bracket's ends at the end, as a ratio: the answer is known this well.
PRECISION = 1.05
#: A slowdown so near to the factor (as a logarithm) counts only when it was seen so often.
_NEAR, _CONFIRMED = 0.15, 2
#: While only one side is known, the distance from the guess grows by this power.
_GROWTH = 2.5
#: Where swap can take all of the demand, trials begin to fail somewhere below this part of it.
_SWAPPED_SHARE = 0.15
#: What is tried between two ends keeps this share of their distance from either.
_MARGIN = 0.2


@dataclass(frozen=True)
class Tried:
    """One limit that was tried: what it came to, and the phase's slowdown if it finished.

    Of several ``trials`` the median slowdown, and an outcome other than ``ok`` if there was one.
    """

    limit_bytes: float
    outcome: str
    slowdown: float | None
    trials: int = 1


@dataclass(frozen=True)
class Found:
    """A least limit: the least that was good, and the largest below it that was not.

    Either is None where none was found.
    """

    good: Tried | None
    bad: Tried | None

    @property
    def settled(self) -> bool:
        """Whether both ends are known and near enough."""
        if self.good is None or self.bad is None:
            return False
        return self.good.limit_bytes / self.bad.limit_bytes <= PRECISION


@dataclass(frozen=True)
class Guess:
    """Where to begin, in bytes, as far as a prediction tells.

    Else it begins at the part of the demand that swap can't take, and at the demand itself.
    """

    viable_bytes: float | None = None
    slowdown_bytes: float | None = None


class BracketingPlanner:
    """Chooses among the points of one workload, one trial after the other.

    Args:
        points: one unlimited point, and the candidates.
        slowdown: the factor that the phase may be slower by; None searches for viability alone.
        phase: whose slowdown; ``round`` is a whole pass on the clock.
        guess: where to begin.
    """

    def __init__(
        self, points: Sequence[Point], slowdown: float | None, phase: str, guess: Guess
    ) -> None:
        self._points = {point.id: point for point in points}
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._slowdown = slowdown
        self._phase = phase
        self._guess = guess

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
        candidates = {_bytes(p, demand): p.id for p in self._points.values() if not p.unlimited}
        tried = self.tried(planned, records)
        wanted = self._next(sorted(candidates), tried, *self._begin(demand))
        if wanted is None:
            return []
        point = candidates[wanted]
        repeat = sum(one.point_id == point for one in planned)
        return [PlannedTrial(f"{len(planned) + 1:04d}", point, len(planned), repeat)]

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[Tried]:
        """What was tried below a limit."""
        demand = demand_of(self._unlimited, self._points, planned, records) or 0
        by_point: dict[str, list[TrialRecord]] = {}
        for one in planned:
            by_point.setdefault(one.point_id, []).append(records[one.trial])
        base = self.seconds(by_point.pop(self._unlimited.id))
        return [
            self._tried(_bytes(self._points[name], demand), own, base)
            for name, own in by_point.items()
        ]

    def _tried(self, limit: float, own: Sequence[TrialRecord], base: float | None) -> Tried:
        lost = next((record.outcome for record in own if record.outcome != "ok"), None)
        seconds = None if lost else self.seconds(own)
        slowdown = seconds / base if seconds is not None and base else None
        return Tried(limit, lost or "ok", slowdown, len(own))

    def seconds(self, trials: Sequence[TrialRecord]) -> float | None:
        """The phase's median time; None if no trial finished, or none has the phase."""
        known = [s for one in trials if (s := seconds_of(one, self._phase)) is not None]
        return statistics.median(known) if known else None

    def _begin(self, demand_bytes: int) -> tuple[float, float]:
        """Where to begin, for viability and for slowdown: the guess, else what the demand says."""
        swap = self._unlimited.limits.swap_bytes or 0
        return (
            self._guess.viable_bytes or max(demand_bytes - swap, demand_bytes * _SWAPPED_SHARE),
            self._guess.slowdown_bytes or float(demand_bytes),
        )

    def _next(
        self,
        candidates: Sequence[float],
        tried: Sequence[Tried],
        viable_bytes: float,
        slowdown_bytes: float,
    ) -> float | None:
        """What is fast enough first: its trials are quick, and may answer the other question."""
        if self._slowdown is not None:
            found = within(tried, self._slowdown)
            wanted = _doubtful(found, self._slowdown)
            if wanted is None:
                wanted = _step(candidates, found, slowdown_bytes, self._slowdown)
            if wanted is not None:
                return wanted
        return _step(candidates, viable(tried), viable_bytes)


def viable(tried: Sequence[Tried]) -> Found:
    """The least limit at which a trial finished."""
    return _found(tried, [one for one in tried if one.outcome == "ok"])


def within(tried: Sequence[Tried], slowdown: float) -> Found:
    """The least limit at which the phase is slower by no more than the factor."""
    good = [one for one in tried if one.slowdown is not None and one.slowdown <= slowdown]
    return _found(tried, good)


def _found(tried: Sequence[Tried], good: Sequence[Tried]) -> Found:
    bad = [one for one in tried if one not in good]
    edge = max(bad, key=lambda one: one.limit_bytes, default=None)
    # Above what was bad: a good one below it was luck.
    safe = [one for one in good if edge is None or one.limit_bytes > edge.limit_bytes]
    return Found(min(safe, key=lambda one: one.limit_bytes, default=None), edge)


def _step(
    candidates: Sequence[float], found: Found, guess: float, slowdown: float | None = None
) -> float | None:
    """The candidate to try next; None if there is nothing more to learn among them."""
    low = found.bad.limit_bytes if found.bad else 0.0
    high = found.good.limit_bytes if found.good else math.inf
    between = [limit for limit in candidates if low < limit < high]
    if found.settled or not between:
        return None
    aim = guess if low < guess < high else _aim(found, guess, slowdown)
    return min(between, key=lambda limit: abs(math.log(limit / aim)))


def _doubtful(found: Found, slowdown: float) -> float | None:
    """An end of a settled bracket that one trial alone, near the factor, made good or bad."""
    for one in (found.good, found.bad) if found.settled else ():
        near = one and one.slowdown and abs(math.log(one.slowdown / slowdown)) < _NEAR
        if one and near and one.trials < _CONFIRMED:
            return one.limit_bytes
    return None


def _aim(found: Found, guess: float, slowdown: float | None) -> float:
    """Where the answer is most likely, in bytes, once the guess is behind."""
    if found.good and found.bad:
        return _between(found.good, found.bad, slowdown)
    known = found.good or found.bad
    assert known is not None
    # While only one side is known, the steps away from the guess grow.
    ratio = math.pow(known.limit_bytes / guess, _GROWTH)
    if found.good:
        return min(guess * ratio, known.limit_bytes / PRECISION)
    return max(guess * ratio, known.limit_bytes * PRECISION)


def _between(good: Tried, bad: Tried, slowdown: float | None) -> float:
    """The middle; or where the line through both slowdowns meets the factor."""
    part = 0.5
    if slowdown is not None and good.slowdown and bad.slowdown:
        rise = math.log(bad.slowdown / good.slowdown)
        part = math.log(slowdown / good.slowdown) / rise if rise > 0 else 0.5
    part = min(max(part, _MARGIN), 1 - _MARGIN)
    return math.exp(math.log(good.limit_bytes) * (1 - part) + math.log(bad.limit_bytes) * part)


def _bytes(point: Point, demand_bytes: int) -> float:
    return float(limits_of(point, demand_bytes).memory_bytes or 0)
