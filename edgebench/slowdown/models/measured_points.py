"""The points of a curve that a line through it must meet."""

from __future__ import annotations

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.isotonic import falling_values

Points = tuple[FloatArray, FloatArray]
#: Each turn halves at least what is left of a rise that repeats allow to be evened out.
_TURNS = 40
#: Logarithms of limits that differ by less are the same limit.
_SAME = 1e-9
#: Nine of ten normal values are nearer than so many times their median distance; of a median that
#: is of few trials itself, and of no less noise than this.
_WIDER, _LEAST_NOISE = 2.44 * 1.4, 0.01


def measured_points(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Logarithms of limits and slowdowns, in order of limits; the demand is the last, with S = 1.

    Medians that rise with memory are evened out as far as their repeats allow: a point with
    repeats is never moved past the fastest or the slowest of them. None lies below S = 1.
    """
    x, y = np.log(curve.limits), _evened(np.log(curve.medians), _repeats(curve))
    if curve.demand_bytes is not None and curve.demand_bytes > curve.limits.max(initial=0):
        x, y = np.append(x, np.log(curve.demand_bytes)), np.append(y, 0.0)
    return x, np.maximum(y, 0.0)


def _repeats(curve: Curve) -> list[FloatArray]:
    """The logarithms of the slowdowns at each limit."""
    ln_slowdown = np.log(curve.slowdown)
    return [ln_slowdown[curve.limit_bytes == limit] for limit in curve.limits]


def _evened(y: FloatArray, groups: list[FloatArray]) -> FloatArray:
    """Values that never rise, near to the medians ``y`` and within the repeats as far as can be."""
    counts = [float(len(group)) for group in groups]
    # A single trial confirms nothing.
    low = np.array([group.min() if len(group) > 1 else -np.inf for group in groups])
    high = np.array([group.max() if len(group) > 1 else np.inf for group in groups])
    for _ in range(_TURNS if len(groups) > 1 else 0):
        even = falling_values(y, counts)
        y = np.clip(even, low, high)
        if np.array_equal(y, even):
            break
    return y


def bracket_reach(curve: Curve) -> float:
    """How far trials lie outside of what their limit's neighbours leave, as a logarithm.

    The farthest of the curve's own, each limit left out in turn; no less than repeats differ by.
    """
    farthest = _WIDER * max(curve.noise or 0.0, _LEAST_NOISE)
    for limit in curve.limits:
        points, here = measured_points(curve.without(limit)), curve.limit_bytes == limit
        low, high = bracket(points, 0.0, curve.limit_bytes[here])
        ratios = [low / curve.slowdown[here], curve.slowdown[here] / high]
        farthest = max(farthest, float(np.log(np.max(ratios))))
    return farthest


def bracket(points: Points, reach: float, limit_bytes: FloatArray) -> Points:
    """The lowest and highest slowdown that measured neighbours leave, as slowdown never rises.

    Args:
        points: as :func:`measured_points` has them.
        reach: how far a trial may be from its limit's median, as a logarithm.
        limit_bytes: the limits.
    """
    x, y = points
    at = np.log(limit_bytes)
    wider = np.searchsorted(x, at - _SAME)
    tighter = np.searchsorted(x, at + _SAME) - 1
    low = np.append(y, 0.0)[wider]
    high = np.append(np.inf, y)[tighter + 1]
    return np.exp(np.minimum(low, high) - reach), np.exp(np.maximum(low, high) + reach)
