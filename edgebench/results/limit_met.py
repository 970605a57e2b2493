"""Whether a trial met its limit: one that never did can't have been slowed by it."""

from __future__ import annotations

from collections.abc import Iterable

from edgebench.records import LimitSetting
from edgebench.results.spread import Ratio

#: The slowdown of a limit that was not met: whatever the clock says.
NOT_MET = Ratio(1.0, 1.0, 1.0, 0.0)


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
