"""EdgeCaffe's published totals (Brouwer), and how far a curve is from limits left out of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgebench.slowdown.curves import Curve

LIMITS_MIB = (4096, 2048, 1024, 512, 256, 128)
#: Seconds of a round at those limits.
TOTALS = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


@cache
def error() -> float:
    """Mean error of a curve through the other points, in per cent: each limit left out."""
    from edgebench.slowdown.fit import errors_of, fit_curve

    found = (fit_curve(curve(schedule)) for schedule in TOTALS)
    return 100 * errors_of([held for one in found for held in one.held_out]).mape


def curve(schedule: str) -> Curve:
    """Six points; slowdown is relative to the widest limit."""
    import numpy as np

    from edgebench.slowdown.curves import Curve

    limits = np.array(LIMITS_MIB[::-1]) * float(1 << 20)
    seconds = np.array(TOTALS[schedule])
    return Curve("four", "total", {"schedule": schedule}, limits, seconds[::-1], seconds[:1])
