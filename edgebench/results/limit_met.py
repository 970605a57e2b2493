"""Whether a trial met its limit: one that never did can't have been slowed by it."""

from __future__ import annotations

from collections.abc import Iterable

from edgebench.records import LimitSetting
from edgebench.results.spread import Ratio

#: The slowdown of a limit that was not met: whatever the clock says.
NOT_MET = Ratio(1.0, 1.0, 1.0, 0.0)
#: A program that used less than this share of its unlimited peak behaved differently, not noisily.
ADAPTED = 0.9


def is_limit_met(limits: LimitSetting, trials: int, hits: Iterable[float | None]) -> bool:
    """Return whether usage reached the limit in one of a point's trials, as far as it is known.

    Without that the kernel reclaims nothing, so that pages which are read from a disk all the same
    are those that no trial had in memory. A walk's hits are not counted at each limit: it is met.

    Args:
        limits: the point's.
        trials: how many it has.
        hits: ``limit_hits`` of each trial where it is known.
    """
    known = [count for count in hits if count is not None]
    lowered = limits.memory_high is not None or limits.memory_high_bytes is not None
    return lowered or not trials or len(known) < trials or any(known)


def adapts(most_bytes: float | None, least_unlimited_bytes: float | None) -> bool:
    """Return whether the peaks of trials show that a limit changed what the program took.

    A JVM sizes its heap from the limit: that makes it slower, though the limit is never met.

    Args:
        most_bytes: the largest peak at the limit.
        least_unlimited_bytes: the smallest peak without one.
    """
    if not most_bytes or not least_unlimited_bytes:
        return False
    return most_bytes < ADAPTED * least_unlimited_bytes
