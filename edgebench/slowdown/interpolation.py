"""Straight lines between the measured limits, in the logarithm of the limit."""

from __future__ import annotations

import numpy as np
from scipy import stats

from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.model import LEVEL, Fit, Parameter, Rung, TooFewLimitsError

_KNOT = "slowdown@"


class Interpolation(Rung):
    """Slowdown is piecewise linear in ln M through the median at each limit.

    Where the demand is known it is a knot with slowdown 1. Below the tightest limit the last
    line goes on; above the last knot its slowdown holds. The interval is the repeats' noise,
    pooled over limits: it says nothing of what lies between them.
    """

    name = "interpolation"
    says = "S piecewise linear in ln M"

    def fit(self, curve: Curve) -> Fit:
        """A knot a limit; its interval is that of the repeats' mean, where there are repeats."""
        knots = [_knot(curve, limit) for limit in curve.limits]
        demand = curve.demand_bytes
        if demand is not None and demand > curve.limits.max(initial=0):
            knots.append(Parameter(f"{_KNOT}{demand:.0f}", 1.0, fixed=True))
        if len(knots) < 2:
            raise TooFewLimitsError("needs two limits, or one and the demand")
        squares, free = _noise(curve)
        residual = float(np.sqrt(squares / free)) if free else None
        return Fit(self.name, tuple(knots), residual=residual, free=free or None)

    def predict(self, fit: Fit, limit_bytes: FloatArray) -> FloatArray:
        """Along the lines, clipped at 1."""
        known = np.log([float(p.name.removeprefix(_KNOT)) for p in fit.parameters])
        values = np.array([p.value for p in fit.parameters])
        wanted = np.log(limit_bytes)
        inside = np.interp(wanted, known, values)
        slope = (values[1] - values[0]) / (known[1] - known[0])
        below = values[0] + slope * (wanted - known[0])
        return np.asarray(np.maximum(1.0, np.where(wanted < known[0], below, inside)))

    def interval(self, fit: Fit, limit_bytes: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The predicted slowdown times the repeats' noise."""
        if fit.residual is None or fit.free is None:
            return None
        repeats = 1 + fit.free / sum(not p.fixed for p in fit.parameters)
        reach = float(stats.t.ppf((1 + LEVEL) / 2, fit.free)) * fit.residual
        factor = np.exp(reach * np.sqrt(1 + 1 / repeats))
        predicted = self.predict(fit, limit_bytes)
        return np.maximum(1.0, predicted / factor), predicted * factor


def _noise(curve: Curve) -> tuple[float, int]:
    """Squares of the logarithms' distance from their limit's mean, and how many are free."""
    groups = [np.log(curve.slowdown[curve.limit_bytes == limit]) for limit in curve.limits]
    squares = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
    return squares, sum(len(group) - 1 for group in groups)


def _knot(curve: Curve, limit: float) -> Parameter:
    repeats = curve.slowdown[curve.limit_bytes == limit]
    name, value = f"{_KNOT}{limit:.0f}", float(np.median(repeats))
    if len(repeats) < 2:
        return Parameter(name, value)
    stderr = float(np.std(repeats, ddof=1) / np.sqrt(len(repeats)))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, len(repeats) - 1)) * stderr
    return Parameter(name, value, stderr=stderr, low=value - reach, high=value + reach)
