"""Start and steady: which rounds of a process are its start, and which of them repeat.

The first round after an import pays for what happens once: under a limit, the idle runtime is
written out to swap. Later rounds repeat, at once or after some more. The test for that is stated
here, and here alone: rounds repeat where at least `LEAST` of them in a row, up to the last one,

- lie within `TOLERANCE` of their own median, but for one in four (a round that met a disturbance),
- and have no trend: the medians of the earlier and the later half of those that lie near differ by
  at most `TOLERANCE` too.

Rounds shorter than some milliseconds may differ by `CLOCK_S` as well.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: Fewer rounds than this show nothing about whether they repeat.
LEAST = 3
#: How far a round may lie from the median of the rounds that repeat, as a share of it.
TOLERANCE = 0.1
#: How far it may lie in any case, seconds: what a scheduler's tick does to a short round.
CLOCK_S = 0.0005
#: Of so many rounds in a row one may lie farther away.
_ONE_IN = 4


@dataclass(frozen=True)
class Steadiness:
    """What the rounds of one process, in their order, come to.

    Args:
        start_s: the first round's seconds.
        rounds: the places of the steady rounds, never 0: those that repeat; where none do, all
            after the first. Empty where there is only one round.
        repeats: whether those rounds passed the test. False also where they are too few for it.
    """

    start_s: float
    rounds: tuple[int, ...]
    repeats: bool


def steadiness(times_s: Sequence[float], tolerance: float = TOLERANCE) -> Steadiness:
    """Which of the rounds repeat: the longest row of them, up to the last one, that does.

    Args:
        times_s: each round's seconds, in the order in which they ran.
        tolerance: how far a round may lie from the median, as a share of it.

    Raises:
        ValueError: there is no round.
    """
    if not times_s:
        raise ValueError("no rounds: there is neither a start nor a steady time")
    count = len(times_s)
    # Kept in order from row to row: a training has thousands of rounds.
    ordered = sorted(times_s[1:])
    for begin in range(1, count - LEAST + 1):
        if _repeat(times_s[begin:], ordered, tolerance):
            return Steadiness(times_s[0], tuple(range(begin, count)), repeats=True)
        del ordered[bisect_left(ordered, times_s[begin])]
    return Steadiness(times_s[0], tuple(range(1, count)), repeats=False)


def _repeat(times_s: Sequence[float], ordered: Sequence[float], tolerance: float) -> bool:
    """Whether a row of rounds passes; ``ordered`` are the same times, the shortest first."""
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    allowed_s = max(tolerance * middle, CLOCK_S)
    first = bisect_left(ordered, True, key=lambda time_s: time_s - middle >= -allowed_s)
    last = bisect_left(ordered, True, lo=first, key=lambda time_s: time_s - middle > allowed_s)
    if count - (last - first) > count // _ONE_IN:
        return False
    near = [time_s for time_s in times_s if abs(time_s - middle) <= allowed_s]
    half = len(near) // 2
    return abs(statistics.median(near[:half]) - statistics.median(near[-half:])) <= allowed_s
