"""How often a limit kills, and whether the way its trials were watched can have prevented kills.

Standard library alone, so it serves wherever records are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgebench.results.sweep_reader import Sweep

#: Each end of an interval is exceeded in at most this share of cases: 90 % lie within.
_TAIL = 0.05
#: Halvings until an end is as near as it can be.
_STEPS = 60
HOUR_S = 3600.0

Watched = Literal["without memory.stat", "with memory.stat", "both"]


@dataclass(frozen=True)
class KillRate:
    """``killed`` of ``trials`` of so many rounds each; ``round_s`` is None where none finished."""

    killed: int
    trials: int
    rounds: int
    round_s: float | None

    @property
    def interval(self) -> tuple[float, float]:
        """Where the probability that a trial is killed lies: 90 %, Clopper and Pearson's."""
        return binomial_interval(self.killed, self.trials)

    def holds(self, seconds: float = HOUR_S) -> tuple[float, float] | None:
        """The probability that the limit holds for so long, by the ends of :attr:`interval`.

        It takes rounds for alike and independent; None where no round was timed.
        """
        if not self.round_s:
            return None
        times = seconds / (self.round_s * self.rounds)
        low, high = self.interval
        return (1 - high) ** times, (1 - low) ** times


def binomial_interval(killed: int, trials: int) -> tuple[float, float]:
    """The exact 90 % interval of a probability, of ``killed`` in ``trials``."""
    low = 0.0 if killed == 0 else _where(lambda p: _at_most(trials - killed, trials, 1 - p))
    high = 1.0 if killed == trials else _where(lambda p: 1 - _at_most(killed, trials, p), 1 - _TAIL)
    return low, high


def _where(rising: Callable[[float], float], reaches: float = _TAIL) -> float:
    """Where a function that rises from 0 to 1 reaches a value."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < reaches else (low, middle)
    return (low + high) / 2


def _at_most(count: int, trials: int, p: float) -> float:
    """The probability of at most so many."""
    return math.fsum(
        math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(count + 1)
    )


def how_watched(sweep: Sweep) -> Watched | None:
    """How its timed trials under a memory limit were watched; None if there are none.

    A record that doesn't say so is an older one: then memory.stat was read of all.
    """
    numbers = sweep.columns.numbers
    limits, flushes = numbers.get("limit_bytes"), numbers.get("watched_flushes")
    if limits is None:
        return None
    read = {flushes is None or flushes[n] != 0 for n, size in enumerate(limits) if size == size}
    if len(read) > 1:
        return "both"
    ways: dict[bool, Watched] = {True: "with memory.stat", False: "without memory.stat"}
    return next((ways[one] for one in read), None)
