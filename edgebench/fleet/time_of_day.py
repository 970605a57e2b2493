"""The time of day, which a fleet needs: Dask dates heartbeats with it, and clocks are compared."""

from __future__ import annotations

import time


def time_of_day_s() -> float:
    """Seconds since the epoch, by this machine's clock, which may jump."""
    return time.time()


def seconds_since(moment_s: float) -> float:
    """Seconds from a time of day until now; 0 for one in the future."""
    return max(0.0, time.time() - moment_s)
