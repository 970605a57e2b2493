"""The model ``interpolation``: straight lines between measured limits, over ln M."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import (
    CurvePrediction,
    Fit,
    Model,
    Parameter,
    TooFewLimitsError,
    reach_of_errors,
    registered_model,
)

_KNOT = "slowdown@"


@registered_model
class Interpolation(Model):
    """Slowdown is piecewise linear in ln M through the median at each limit.

    Where the demand is known it is a knot with slowdown 1. Below the tightest limit the last
    line goes on; above the last knot its slowdown holds. The interval is the repeats' noise,
    pooled over limits; what lies between limits adds nothing to it.
    """

    name = "interpolation"
    formula = "S piecewise linear in ln M"
    rank = 10
    per_curve = True

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """A knot a limit; its interval is that of the repeats' mean, where there are repeats."""
        (curve,) = curves
        knots = [_knot(curve, limit) for limit in curve.limits]
        demand = curve.demand_bytes
        if demand is not None and demand > curve.limits.max(initial=0):
            knots.append(Parameter(f"{_KNOT}{demand:.0f}", 1.0, fixed=True))
        if len(knots) < 2:
            raise TooFewLimitsError("needs two limits, or one and the demand")
        groups = [np.log(curve.slowdown[curve.limit_bytes == limit]) for limit in curve.limits]
        squares = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
        free = sum(len(group) - 1 for group in groups)
        residual = float(np.sqrt(squares / free)) if free else None
        return Fit(self.name, tuple(knots), residual=residual, free=free or None)

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """Along the lines, clipped at 1."""
        knots = np.log([float(p.name.removeprefix(_KNOT)) for p in fit.parameters])
        values = np.array([p.value for p in fit.parameters])
        ln_limit = np.log(limit_bytes)
        inside = np.interp(ln_limit, knots, values)
        slope = (values[1] - values[0]) / (knots[1] - knots[0])
        below = values[0] + slope * (ln_limit - knots[0])
        slowdown = np.asarray(np.maximum(1.0, np.where(ln_limit < knots[0], below, inside)))
        unlimited_s = self.measured_unlimited_s(curve)
        return CurvePrediction(unlimited_s, slowdown, _interval(fit, slowdown))


def _interval(fit: Fit, slowdown: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The predicted slowdown times the repeats' noise."""
    if fit.residual is None or fit.free is None:
        return None
    repeats = 1 + fit.free / sum(not p.fixed for p in fit.parameters)
    reach = reach_of_errors(fit.free) * fit.residual
    factor = np.exp(reach * np.sqrt(1 + 1 / repeats))
    return np.maximum(1.0, slowdown / factor), slowdown * factor


def _knot(curve: Curve, limit: float) -> Parameter:
    repeats = curve.slowdown[curve.limit_bytes == limit]
    name, value = f"{_KNOT}{limit:.0f}", float(np.median(repeats))
    if len(repeats) < 2:
        return Parameter(name, value)
    stderr = float(np.std(repeats, ddof=1) / np.sqrt(len(repeats)))
    reach = reach_of_errors(len(repeats) - 1) * stderr
    return Parameter(name, value, stderr=stderr, low=value - reach, high=value + reach)
