"""How uncertain slowdown is at a limit, from what was measured at others.

Slowdown never rises with memory and is 1 at the demand, so between two measured limits it lies
between their slowdowns. Within that, the line through both and the lines that come in from further
out differ where the curve bends or jumps: how far they lie apart is
the uncertainty, which falls to 0 towards the limits that were measured. All is in logarithms: 0.05
is 5 % of the time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Seconds of a phase at a limit, one a trial.
Times = Mapping[float, Sequence[float]]


@dataclass(frozen=True)
class Knot:
    """What is known at one limit: ``x`` = ln M, ``y`` = ln S, its standard error."""

    x: float
    y: float
    error: float


def knots(
    times: Times, unlimited: Sequence[float], demand_bytes: float, noise: float
) -> list[Knot]:
    """What was measured, from tight to wide, and the demand, where slowdown is 1.

    ``noise`` is the standard deviation of one trial's ln t.
    """
    base = statistics.median(unlimited)
    known = [
        Knot(
            math.log(limit),
            math.log(statistics.median(seconds) / base),
            noise / math.sqrt(len(seconds)),
        )
        for limit, seconds in times.items()
    ]
    if demand_bytes > max(times, default=0):
        known.append(Knot(math.log(demand_bytes), 0.0, 0.0))
    return sorted(known, key=lambda knot: knot.x)


def uncertainty(known: Sequence[Knot], limit_bytes: float) -> float:
    """How far ln S at this limit may be from what the knots on both sides say.

    At a knot it is the knot's own error. Below the tightest knot nothing bounds slowdown: the
    uncertainty is how far it would rise if it went on as it does there.
    """
    x = math.log(limit_bytes)
    at = next((knot for knot in known if math.isclose(knot.x, x, abs_tol=1e-9)), None)
    if at:
        return at.error
    tighter = [knot for knot in known if knot.x < x]
    wider = [knot for knot in known if knot.x > x]
    if not wider:
        return 0.0
    if not tighter:
        return _slope(wider) * (wider[0].x - x)
    low, high = wider[0], tighter[-1]
    part = (x - high.x) / (low.x - high.x)
    chord = high.y + part * (low.y - high.y)
    # Coming from wide limits, S rises as it did there; from tight ones, it falls as it did there.
    from_wide = low.y + _slope(wider) * (low.x - x)
    from_tight = high.y - _slope(tighter[::-1]) * (x - high.x) if len(tighter) > 1 else chord
    least, most = sorted((low.y, high.y))
    values = [chord, *(min(max(value, least), most) for value in (from_wide, from_tight))]
    # Half of what they disagree by, in the middle; near a knot the knot is right.
    return (max(values) - min(values)) * 2 * part * (1 - part)


def noise_of(groups: Sequence[Sequence[float]], least: float = 0.01) -> float:
    """Standard deviation of ln t over repeats, pooled over groups of them; robust to outliers.

    ``least`` where there are no repeats, or fewer differences than that.
    """
    distances = [
        abs(math.log(seconds / statistics.median(group))) * math.sqrt(len(group) / (len(group) - 1))
        for group in groups
        if len(group) > 1
        for seconds in group
    ]
    # 1.4826 makes a standard deviation of the median distance of normal values.
    return max(least, 1.4826 * statistics.median(distances)) if distances else least


def _slope(outward: Sequence[Knot]) -> float:
    """How fast ln S rises per falling ln M beyond the first knot, told from the next one.

    Beyond the widest knot slowdown is flat.
    """
    if len(outward) < 2:
        return 0.0
    run = outward[0].x - outward[1].x
    return max(0.0, -(outward[0].y - outward[1].y) / run)
