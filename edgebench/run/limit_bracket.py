"""Brackets of a least limit: their ends, from the limits that were tried, and what to try next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.results.kill_rate import KillRate

#: The bracket's ends at the end, as a ratio: the answer is known this well.
PRECISION = 1.05
#: A slowdown so near to the factor (as a logarithm) counts only when it was seen so often.
_NEAR, _CONFIRMED = 0.15, 2
#: While only one side is known, the distance from the guess grows by this power.
_GROWTH = 2.5
#: Without a guess: going down to find where it gets slow, each limit is this part of the one
#: before; going up, of the one before so many times.
_DOWN, _UP = 0.7, 1.2
#: What is tried between two ends keeps this share of their distance from either.
_MARGIN = 0.2


@dataclass(frozen=True)
class TriedLimit:
    """One limit that was tried: what it came to, and the phase's slowdown if it finished.

    Of several ``trials`` the median slowdown, and an outcome other than ``ok`` if there was one.
    ``swap_free_bytes`` is the least swap that was free at kills which a lack of it can't explain;
    None: there were none. ``killed`` of the trials were killed for memory. A trial has ``rounds``
    rounds of ``round_s`` seconds (the median of those that finished). ``stopped_s`` is how long
    one ran that was stopped at its time limit; None: none was.
    """

    limit_bytes: float
    outcome: str
    slowdown: float | None
    trials: int = 1
    swap_free_bytes: int | None = None
    killed: int = 0
    rounds: int = 1
    round_s: float | None = None
    stopped_s: float | None = None

    @property
    def kill_rate(self) -> KillRate | None:
        """How often the limit kills; None if a trial ended in neither way."""
        if self.outcome not in ("ok", "oom-killed"):
            return None
        return KillRate(self.killed, self.trials, self.rounds, self.round_s)


@dataclass(frozen=True)
class LimitBracket:
    """A least limit: the least that was good, and the largest below it that was not.

    Either is None where none was found.
    """

    good: TriedLimit | None
    bad: TriedLimit | None

    @property
    def settled(self) -> bool:
        """Whether both ends are known and near enough."""
        if self.good is None or self.bad is None:
            return False
        return self.good.limit_bytes / self.bad.limit_bytes <= PRECISION


def viable_bracket(tried: Sequence[TriedLimit]) -> LimitBracket:
    """The least limit at which a trial finished."""
    return _found(tried, [one for one in tried if one.outcome == "ok"])


def slowdown_bracket(tried: Sequence[TriedLimit], slowdown: float) -> LimitBracket:
    """The least limit at which the phase is slower by no more than the factor."""
    good = [one for one in tried if one.slowdown is not None and one.slowdown <= slowdown]
    return _found(tried, good)


def _found(tried: Sequence[TriedLimit], good: Sequence[TriedLimit]) -> LimitBracket:
    bad = [one for one in tried if one not in good]
    edge = max(bad, key=lambda one: one.limit_bytes, default=None)
    # Above what was bad: a good one below it was luck.
    safe = [one for one in good if edge is None or one.limit_bytes > edge.limit_bytes]
    return LimitBracket(min(safe, key=lambda one: one.limit_bytes, default=None), edge)


def next_limit(
    candidates: Sequence[float], found: LimitBracket, guess: float, slowdown: float | None = None
) -> float | None:
    """The candidate to try next; None if there is nothing more to learn among them."""
    low = found.bad.limit_bytes if found.bad else 0.0
    high = found.good.limit_bytes if found.good else math.inf
    between = [limit for limit in candidates if low < limit < high]
    if found.settled or not between:
        return None
    aim = guess if low < guess < high else _aim(found, guess, slowdown)
    return min(between, key=lambda limit: abs(math.log(limit / aim)))


def slow_guess(found: LimitBracket, demand_bytes: float) -> float:
    """Where it may get slow: large steps down from the demand, and back up; 0: between the ends."""
    if found.bad is None:
        return _DOWN * (found.good.limit_bytes if found.good else demand_bytes)
    return _UP * found.bad.limit_bytes if found.good is None else 0.0


def doubtful_limit(found: LimitBracket, slowdown: float) -> float | None:
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
