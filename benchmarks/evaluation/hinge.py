"""The model ``hinge``: no slowdown down to a working set W, then a power of ln(W/M)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import (
    LEVEL,
    CurvePrediction,
    Fit,
    Model,
    Parameter,
    TooFewLimitsError,
)
from evaluation.bounded_fit import BoundedFit, fit_bounded
from evaluation.hinge_search import search_hinges, stack_points

#: Where the search begins: shares of the way from the smallest limit to far above the largest.
_STARTS_W = (0.25, 0.45, 0.65, 0.85)
_STARTS_B = (0.7, 1.0, 1.5, 2.5)
#: How far above the largest limit the working set may lie.
_HIGHEST = 16.0
#: What ln a and b can be; a search starts inside.
_BOUNDS_A, _BOUNDS_B = (-12.0, 12.0), (0.2, 6.0)
_BOUNDS_START_A = (-11.0, 11.0)
#: How many searches are finished; and how far parameters may move in the quick search before.
_SEARCHES, _FREE, _FIXED = 2, 1e3, 1e-3
#: Standard deviation of ln W, ln a or b from which on nothing is known of it.
_NOT_PINNED = 5.0
_NO_DEPTH = 1e-300
_UNITS = {"W": "bytes", "a": "", "b": ""}


class Hinge(Model):
    """``max(1, 1 + a·(ln(W/M))^b)``, fitted to the logarithms of all repeats.

    Fitted in ln W, ln a and b, which keeps W and a above 0; the covariance is of those. With two
    limits W is the measured demand; with three or more it is fitted too.
    """

    name = "hinge"
    formula = "S = max(1, 1 + a·(ln(W/M))^b)"
    rank = 20
    per_curve = True

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Least squares from several starts; intervals are of the linearised parameters."""
        (curve,) = curves
        limits = len(curve.limits)
        if limits < 2 or (limits == 2 and curve.demand_bytes is None):
            raise TooFewLimitsError("needs three limits, or two and the demand")
        working_set = curve.demand_bytes if limits == 2 else None
        starts = _starts(curve, working_set)
        note = None if working_set is None else "two limits only: W is the measured demand"
        return _as_fit(_search(curve, starts), starts, note)

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The formula."""
        slowdown = np.exp(ln_slowdown(_point(fit), np.log(limit_bytes)))
        unlimited_s = self.measured_unlimited_s(curve)
        return CurvePrediction(unlimited_s, slowdown, _interval(fit, limit_bytes, slowdown))


def _interval(
    fit: Fit, limit_bytes: FloatArray, slowdown: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Parameters' and residuals' uncertainty together, carried over linearly in ln S."""
    if fit.covariance is None or fit.residual is None or not fit.free:
        return None
    slopes = _slopes(fit, np.log(limit_bytes))
    covariance = np.array(fit.covariance)
    variance = np.einsum("im,ij,jm->m", slopes, covariance, slopes) + fit.residual**2
    reach = _reach_of_errors(fit.free) * np.sqrt(variance)
    with np.errstate(over="ignore"):
        return np.maximum(1.0, slowdown * np.exp(-reach)), slowdown * np.exp(reach)


def _reach_of_errors(free: int) -> float:
    """How many standard errors an interval of :data:`LEVEL` reaches to either side (Student)."""
    from scipy.special import stdtrit

    return float(stdtrit(free, (1 + LEVEL) / 2))


def ln_slowdown(point: Iterable[float], ln_limit: FloatArray) -> FloatArray:
    """The logarithm of S for ln W, ln a and b."""
    ln_w, ln_a, b = point
    # The floor keeps a logarithm finite; any power of it is 0 beside 1.
    depth = np.maximum(ln_w - ln_limit, _NO_DEPTH)
    return np.asarray(np.log1p(np.exp(ln_a + b * np.log(depth))))


@dataclass(frozen=True)
class _Starts:
    """Where searches begin: a row of ln W, ln a and b for each, and the bounds of these.

    ``varied`` are the parameters that are fitted.
    """

    points: FloatArray
    low: FloatArray
    high: FloatArray
    varied: slice


def _search(curve: Curve, starts: _Starts) -> BoundedFit:
    """The nearest end of the searches from the starts that lead nearest."""
    ln_limit, observed, varied = np.log(curve.limit_bytes), np.log(curve.slowdown), starts.varied

    def ended(start: FloatArray) -> BoundedFit:
        def residuals(values: FloatArray) -> FloatArray:
            return ln_slowdown((*start[: varied.start], *values), ln_limit) - observed

        return fit_bounded(residuals, start[varied], starts.low[varied], starts.high[varied])

    near = np.argsort(_cost_nearby(starts, ln_limit, observed), kind="stable")
    found = [ended(starts.points[n]) for n in near[:_SEARCHES]]
    return min(found, key=lambda one: one.chi_square)


def _cost_nearby(starts: _Starts, ln_limit: FloatArray, observed: FloatArray) -> FloatArray:
    """What each start leads to, by the quick search of many hinges at once."""
    count, reference = len(starts.points), ln_limit.max()
    at = np.column_stack([starts.points, np.zeros(count)])
    at[:, 0] -= reference
    points = stack_points([(ln_limit - reference, observed)]).rows([0] * count)
    spread = np.array([_FIXED if starts.varied.start else _FREE, _FREE, _FREE, _FIXED])
    return search_hinges(points, at, at, spread)[1]


def _starts(curve: Curve, working_set: float | None) -> _Starts:
    """Several, unless W is known."""
    low, high = np.log(curve.limits[0]), np.log(curve.limits[-1] * _HIGHEST)
    if working_set is None:
        at_w = [low + share * (high - low) for share in _STARTS_W]
    else:
        at_w = [np.log(working_set)]
    rise = np.log(max(float(curve.medians[0]) - 1, 0.01))
    points = [
        (w, np.clip(rise - b * np.log(max(w - low, 0.1)), *_BOUNDS_START_A), b)
        for w in at_w
        for b in _STARTS_B
    ]
    lowest, highest = np.array([(low + 1e-3, high), _BOUNDS_A, _BOUNDS_B]).T
    varied = slice(0 if working_set is None else 1, None)
    return _Starts(np.array(points), lowest, highest, varied)


def _as_fit(found: BoundedFit, starts: _Starts, note: str | None) -> Fit:
    free = found.free
    covariance = _pinned_down(found, starts) if free > 0 else None
    reach = _reach_of_errors(free) if free > 0 else 0.0
    fixed = starts.varied.start
    errors: list[float | None] = [None] * 3
    if covariance is not None:
        with np.errstate(invalid="ignore"):
            errors[fixed:] = np.sqrt(np.diag(covariance))
    values = np.array([*starts.points[0][:fixed], *found.values])
    aic = found.aic
    return Fit(
        model=Hinge.name,
        parameters=tuple(
            _parameter(name, value, error, reach, fixed=n < fixed)
            for n, (name, value, error) in enumerate(zip(_UNITS, values, errors, strict=True))
        ),
        covariance=covariance,
        residual=float(np.sqrt(found.chi_square / free)) if free > 0 else None,
        free=free if free > 0 else None,
        aic=aic if free > 0 and np.isfinite(aic) else None,
        note=note or (None if covariance else "no intervals: the trials don't pin the hinge down"),
    )


def _pinned_down(found: BoundedFit, starts: _Starts) -> tuple[tuple[float, ...], ...] | None:
    """The covariance, unless a parameter ran to its bound or could be anything searched."""
    covariance = found.covariance
    low, high = starts.low[starts.varied], starts.high[starts.varied]
    to_bound = np.minimum(found.values - low, high - found.values)
    if covariance is None or not np.isfinite(covariance).all():
        return None
    if (to_bound < 1e-3 * (high - low)).any():
        return None
    if np.sqrt(np.diag(covariance)).max() > _NOT_PINNED:
        return None
    return tuple(map(tuple, covariance.tolist()))


def _parameter(
    name: str, value: float, stderr: float | None, reach: float, *, fixed: bool
) -> Parameter:
    """W and a back from their logarithms, intervals and all."""
    back = np.exp if name in ("W", "a") else float
    if stderr is None or not np.isfinite(stderr):
        return Parameter(name, float(back(value)), _UNITS[name], fixed=fixed)
    with np.errstate(over="ignore"):
        ends = [float(back(value + side * reach * stderr)) for side in (-1, 1)]
    scale = float(back(value)) if name in ("W", "a") else 1.0
    known = [end if np.isfinite(end) else None for end in ends]
    return Parameter(
        name, float(back(value)), _UNITS[name], float(stderr * scale), known[0], known[1]
    )


def _point(fit: Fit) -> FloatArray:
    return np.array([np.log(fit["W"]), np.log(fit["a"]), fit["b"]])


def _slopes(fit: Fit, ln_limit: FloatArray) -> FloatArray:
    """Derivatives of ln S by each parameter that was fitted."""
    point, step = _point(fit), 1e-5
    free = [i for i, parameter in enumerate(fit.parameters) if not parameter.fixed]
    ahead = [ln_slowdown(point + step * np.eye(3)[i], ln_limit) for i in free]
    back = [ln_slowdown(point - step * np.eye(3)[i], ln_limit) for i in free]
    return (np.array(ahead) - np.array(back)) / (2 * step)
