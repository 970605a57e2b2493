"""The model ``interpolated``: a smooth curve through what was measured, and nothing else.

Medians that rise with memory are evened out (isotonic regression). Between them runs a cubic that
rises nowhere (Fritsch and Carlson, "Monotone piecewise cubic interpolation", SIAM Journal on
Numerical Analysis 17(2), 1980).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, TooFewLimitsError
from edgebench.slowdown.models.intervals import (
    SLOWED,
    conformity_scores,
    reach_of,
    with_interval,
)
from edgebench.slowdown.slowdown_function import SlowdownFunction, falling_values
from edgebench.slowdown.workload import CannotPredictError

INTERPOLATED = "interpolated"
Points = tuple[FloatArray, FloatArray]
#: Each turn halves at least what is left of a rise that repeats allow to be evened out.
_TURNS = 40
#: Logarithms of limits that differ by less are the same limit.
_SAME = 1e-9
#: Nine of ten normal values are nearer than so many times their median distance; of a median that
#: is of few trials itself, and of no less noise than this.
_WIDER, _LEAST_NOISE = 2.44 * 1.4, 0.01
#: Limits between two that were measured, at which the cubic is computed.
_STEPS = 16


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


@dataclass(frozen=True)
class Interpolated:
    """ln S is a monotone cubic in ln M through the median at each limit.

    Medians that rise are evened out within their repeats. Where the demand is known it is a point
    with slowdown 1. Below the tightest limit it stays what it was there: the least that it can be.
    The interval is that of the curve's own limits, each left out in turn, and no wider than the
    neighbours on both sides leave it.

    Attributes:
        points: logarithms of limits in bytes and of slowdowns, in order of limits.
        noise: how far a trial may lie outside of what its neighbours leave (a logarithm); None:
            unknown, so nothing bounds the interval.
        reach: of the interval; None: it has none.
    """

    points: Points
    noise: float | None = None
    reach: float | None = None
    name: str = INTERPOLATED

    @classmethod
    def of(cls, curve: Curve) -> Interpolated:
        """A point a limit, and the reach of errors at limits left out.

        Raises:
            TooFewLimitsError: it has no two points.
        """
        x, y = measured_points(curve)
        if len(x) < 2:
            raise TooFewLimitsError("needs two limits, or one and the demand")
        reach = reach_of(_left_out_scores(curve, SLOWED) or _left_out_scores(curve, 0.0))
        return cls((x, y), bracket_reach(curve), reach)

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """Along the cubic.

        Raises:
            CannotPredictError: it has no unlimited trial.
        """
        if not len(curve.unlimited_seconds):
            raise CannotPredictError(f"{self.name} needs an unlimited trial of {curve.network}")
        bounds = None if self.noise is None else bracket(self.points, self.noise, limit_bytes)
        function = _cubic(*self.points)
        return with_interval(curve.unlimited_s, function, limit_bytes, self.reach, bounds)


def _left_out_scores(curve: Curve, least: float) -> list[FloatArray]:
    """Of each limit that is slowed so much, by the curve's others."""
    found = []
    for limit in curve.limits[curve.medians >= least]:
        at, value = measured_points(curve.without(limit))
        if len(at) > 1:
            here = curve.limit_bytes == limit
            slowdown = curve.slowdown[here]
            found.append(conformity_scores(_cubic(at, value), curve.limit_bytes[here], slowdown))
    return found


def _cubic(ln_limit: FloatArray, ln_slowdown: FloatArray) -> SlowdownFunction:
    """Through the points, close enough to be straight between."""
    from scipy.interpolate import PchipInterpolator

    parts = [np.linspace(*ends, _STEPS + 1) for ends in itertools.pairwise(ln_limit)]
    at = np.unique(np.concatenate(parts))
    return SlowdownFunction(at, np.asarray(PchipInterpolator(ln_limit, ln_slowdown)(at)))
