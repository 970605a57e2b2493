"""A curve through what was measured of a workload, and its error at limits that are left out.

ln S is a monotone cubic in ln M (Fritsch and Carlson, "Monotone piecewise cubic interpolation",
SIAM Journal on Numerical Analysis 17(2), 1980) through the median at each limit. Medians that rise
with memory are evened out first, by isotonic regression, as far as their repeats allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.computed import CannotPredictError
from edgebench.slowdown.curves import Curve, FloatArray

#: Of the intervals that are reported.
LEVEL = 0.9
#: Version of the JSON that ``fit`` and ``predict`` print.
MODEL_SCHEMA = 7
LEAST_LIMITS = 2
#: Of more curves than this the others are counted, not named.
_MOST_NAMES = 3
#: Each turn halves at least what is left of a rise that repeats allow to be evened out.
_TURNS = 40


@dataclass(frozen=True)
class HeldOut:
    """One limit that was left out of the fit: predicted and measured median seconds."""

    limit_bytes: float
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Signed, as a share of what was measured."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve through its measured points, in order of limits.

    ``ln_limit`` and ``ln_slowdown`` are logarithms of bytes and of slowdowns.
    """

    curve: Curve
    ln_limit: FloatArray
    ln_slowdown: FloatArray

    def slowdown(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the slowdown at limits; beyond the outermost points it stays what it is there."""
        from scipy.interpolate import PchipInterpolator

        at = np.clip(np.log(limit_bytes), self.ln_limit[0], self.ln_limit[-1])
        return np.exp(PchipInterpolator(self.ln_limit, self.ln_slowdown)(at))

    @cached_property
    def held_out(self) -> tuple[HeldOut, ...]:
        """Each limit predicted by the others; empty where they are too few to leave one out."""
        curve, held = self.curve, []
        for limit in curve.limits:
            x, y = measured_points(curve.without(limit))
            if len(x) < LEAST_LIMITS:
                return ()
            slowdown = float(Fit(curve, x, y).slowdown(np.array([limit]))[0])
            measured_s = float(np.median(curve.seconds[curve.limit_bytes == limit]))
            held.append(HeldOut(float(limit), slowdown * curve.unlimited_s, measured_s))
        return tuple(held)

    @property
    def error(self) -> float | None:
        """Mean error over limits that are left out, as a share; None where they are too few."""
        return float(np.mean([abs(one.error) for one in self.held_out])) if self.held_out else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        curve = self.curve
        return {
            "schema": MODEL_SCHEMA,
            "network": curve.network,
            "phase": curve.phase,
            "settings": curve.settings,
            "data": {
                "limits_bytes": curve.limits.tolist(),
                "median_slowdowns": curve.medians.tolist(),
                "trials": len(curve.seconds),
                "unlimited_s": curve.unlimited_s,
                "demand_bytes": curve.demand_bytes,
                "lost_bytes": {outcome: list(at) for outcome, at in curve.lost_bytes.items()},
            },
            "fit": {
                "limits_bytes": np.exp(self.ln_limit).round().tolist(),
                "slowdowns": np.exp(self.ln_slowdown).tolist(),
            },
            "mean_error": self.error,
            "held_out": [asdict(one) | {"error": one.error} for one in self.held_out],
        }


@lru_cache(maxsize=1024)
def fit_curve(curve: Curve) -> Fit:
    """Return the curve through its points; the same one for the same curve.

    Raises:
        CannotPredictError: it has no two points, the demand included.
    """
    ln_limit, ln_slowdown = measured_points(curve)
    if len(ln_limit) < LEAST_LIMITS:
        raise CannotPredictError("a curve needs two limits, or one and the demand")
    return Fit(curve, ln_limit, ln_slowdown)


def fit_all(curves: Sequence[Curve], where: str | None = None) -> tuple[list[Fit], list[str]]:
    """Fit every curve of two limits or more; name the others in warnings.

    Raises:
        ResultsError: no curve has two limits.
    """
    fits = [fit_curve(curve) for curve in curves if len(curve.limits) >= LEAST_LIMITS]
    if not fits:
        raise ResultsError(
            f"too few limits: a fit needs {LEAST_LIMITS} at which a trial finished, "
            "beside the unlimited ones",
            where=where,
            remedy='add limits, as memory = {from = "100%", to = "25%", steps = 6}',
        )
    lone = [curve.label for curve in curves if len(curve.limits) < LEAST_LIMITS]
    if len(lone) > _MOST_NAMES + 1:
        lone = [*lone[:_MOST_NAMES], f"{len(lone) - _MOST_NAMES} more"]
    words = f"not fitted, since trials finished at only one limit: {', '.join(lone)}"
    return fits, [words] if lone else []


def measured_points(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of limits and slowdowns, ascending; the demand is the last, with S = 1.

    Medians that rise with memory are evened out as far as their repeats allow: a point with
    repeats is never moved past the fastest or the slowest of them. None lies below S = 1.
    """
    from scipy.optimize import isotonic_regression

    x, y = np.log(curve.limits), np.log(curve.medians)
    groups = [np.log(curve.slowdown[curve.limit_bytes == limit]) for limit in curve.limits]
    counts = [float(len(group)) for group in groups]
    # A single trial confirms nothing.
    low = np.array([group.min() if len(group) > 1 else -np.inf for group in groups])
    high = np.array([group.max() if len(group) > 1 else np.inf for group in groups])
    for _ in range(_TURNS if len(groups) > 1 else 0):
        even = np.asarray(isotonic_regression(y, weights=counts, increasing=False).x)
        y = np.clip(even, low, high)
        if np.array_equal(y, even):
            break
    if curve.demand_bytes is not None and curve.demand_bytes > curve.limits.max(initial=0):
        x, y = np.append(x, np.log(curve.demand_bytes)), np.append(y, 0.0)
    return x, np.maximum(y, 0.0)
