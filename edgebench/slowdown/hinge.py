"""The hinge of MODEL: no slowdown down to a working set W, then a power of ln(W/M)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.hinges import search, side_by_side
from edgebench.slowdown.model import LEVEL, Fit, Parameter, Rung, TooFewLimitsError

if TYPE_CHECKING:
    from lmfit.minimizer import MinimizerResult

#: Where the search begins: shares of the way from the smallest limit to far above the largest.
_STARTS_W = (0.25, 0.45, 0.65, 0.85)
_STARTS_B = (0.7, 1.0, 1.5, 2.5)
#: How far above the largest limit the working set may lie.
_HIGHEST = 16.0
_BOUNDS_B = (0.2, 6.0)
#: How many searches are gone through with; and of the quick search before them how free its
#: parameters are.
_SEARCHES, _FREE, _FIXED = 2, 1e3, 1e-3
#: Standard deviation of ln W, ln a or b from which on nothing is known of it.
_NOT_PINNED = 5.0
_UNITS = {"W": "bytes", "a": "", "b": ""}


class Hinge(Rung):
    """``max(1, 1 + a·(ln(W/M))^b)``, fitted to the logarithms of all repeats.

    Fitted in ln W, ln a and b, which keeps W and a above 0; the covariance is of those. With two
    limits W is the measured demand; with three or more it is fitted too.
    """

    name = "hinge"
    says = "S = max(1, 1 + a·(ln(W/M))^b)"

    def fit(self, curve: Curve) -> Fit:
        """Least squares from several starts; intervals are of the linearised parameters."""
        limits = len(curve.limits)
        if limits < 2 or (limits == 2 and curve.demand_bytes is None):
            raise TooFewLimitsError("needs three limits, or two and the demand")
        working_set = curve.demand_bytes if limits == 2 else None
        found = min(_searches(curve, working_set), key=lambda result: float(result.chisqr))
        note = None if working_set is None else "two limits only: W is the measured demand"
        return _as_fit(found, note)

    def predict(self, fit: Fit, limit_bytes: FloatArray) -> FloatArray:
        """The formula."""
        return np.exp(ln_slowdown(_point(fit), np.log(limit_bytes)))

    def interval(self, fit: Fit, limit_bytes: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Parameters' and residuals' uncertainty together, carried over linearly in ln S."""
        if fit.covariance is None or fit.residual is None or not fit.free:
            return None
        slopes = _slopes(fit, np.log(limit_bytes))
        covariance = np.array(fit.covariance)
        variance = np.einsum("im,ij,jm->m", slopes, covariance, slopes) + fit.residual**2
        reach = float(stats.t.ppf((1 + LEVEL) / 2, fit.free)) * np.sqrt(variance)
        predicted = self.predict(fit, limit_bytes)
        with np.errstate(over="ignore"):
            return np.maximum(1.0, predicted * np.exp(-reach)), predicted * np.exp(reach)


def ln_slowdown(point: FloatArray, ln_limit: FloatArray) -> FloatArray:
    """The logarithm of S for ln W, ln a and b."""
    ln_w, ln_a, b = point
    depth = np.maximum(ln_w - ln_limit, 0.0)
    # A depth of 0 stays 0 under any power; the floor only keeps its logarithm finite.
    rise = np.exp(ln_a + b * np.log(np.maximum(depth, 1e-300)))
    return np.asarray(np.log1p(np.where(depth > 0, rise, 0.0)))


def _searches(curve: Curve, working_set: float | None) -> list[MinimizerResult]:
    """A search from each of the starts that lead nearest."""
    import lmfit

    ln_limit, observed = np.log(curve.limit_bytes), np.log(curve.slowdown)

    def residual(parameters: lmfit.Parameters) -> FloatArray:
        return ln_slowdown(np.array(list(parameters.valuesdict().values())), ln_limit) - observed

    starts_w = _STARTS_W if working_set is None else (0.0,)
    starts = [_start(curve, working_set, share, b) for share in starts_w for b in _STARTS_B]
    near = _cost_nearby(starts, ln_limit, observed)
    best = sorted(range(len(starts)), key=lambda n: near[n])[:_SEARCHES]
    return [lmfit.minimize(residual, starts[n], method="leastsq") for n in best]


def _cost_nearby(starts: Sequence[Any], ln_limit: FloatArray, observed: FloatArray) -> FloatArray:
    """What each start leads to, by the quick search of many hinges at once."""
    at = np.array([[*start.valuesdict().values(), 0.0] for start in starts])
    reference = ln_limit.max()
    at[:, 0] -= reference
    points = side_by_side([(ln_limit - reference, observed)]).rows([0] * len(starts))
    pinned = not starts[0]["W"].vary
    spread = np.array([_FIXED if pinned else _FREE, _FREE, _FREE, _FIXED])
    return search(points, at, at, spread)[1]


def _start(curve: Curve, working_set: float | None, share: float, b: float) -> Any:
    import lmfit

    low, high = np.log(curve.limits[0]), np.log(curve.limits[-1] * _HIGHEST)
    parameters = lmfit.Parameters()
    if working_set is None:
        parameters.add("W", low + share * (high - low), min=low + 1e-3, max=high)
    else:
        parameters.add("W", float(np.log(working_set)), vary=False)
    depth = max(float(parameters["W"].value) - low, 0.1)
    rise = max(float(curve.medians[0]) - 1, 0.01)
    parameters.add("a", float(np.clip(np.log(rise) - b * np.log(depth), -11, 11)), min=-12, max=12)
    parameters.add("b", b, min=_BOUNDS_B[0], max=_BOUNDS_B[1])
    return parameters


def _as_fit(found: MinimizerResult, note: str | None) -> Fit:
    free = int(found.nfree)
    covariance = _pinned_down(found) if free > 0 else None
    reach = float(stats.t.ppf((1 + LEVEL) / 2, free)) if free > 0 else 0.0
    return Fit(
        rung=Hinge.name,
        parameters=tuple(
            _parameter(name, found.params[name], reach if covariance else None)
            for name in ("W", "a", "b")
        ),
        covariance=covariance,
        residual=float(np.sqrt(found.chisqr / free)) if free > 0 else None,
        free=free if free > 0 else None,
        aic=float(found.aic) if free > 0 and np.isfinite(found.aic) else None,
        note=note or (None if covariance else "no intervals: the trials don't pin the hinge down"),
    )


def _pinned_down(found: MinimizerResult) -> tuple[tuple[float, ...], ...] | None:
    """The covariance, unless a parameter ran to its bound or could be anything searched."""
    covariance = getattr(found, "covar", None)
    if covariance is None or not np.isfinite(covariance).all() or _at_bound(found):
        return None
    if np.sqrt(np.diag(covariance)).max() > _NOT_PINNED:
        return None
    return tuple(tuple(float(value) for value in row) for row in covariance)


def _at_bound(found: MinimizerResult) -> bool:
    free = (p for p in found.params.values() if p.vary)
    return any(min(p.value - p.min, p.max - p.value) < 1e-3 * (p.max - p.min) for p in free)


def _parameter(name: str, found: Any, reach: float | None) -> Parameter:
    """W and a back from their logarithms, intervals and all."""
    back = np.exp if name in ("W", "a") else float
    value, stderr = float(found.value), found.stderr
    if not found.vary or reach is None or stderr is None or not np.isfinite(stderr):
        return Parameter(name, float(back(value)), _UNITS[name], fixed=not found.vary)
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
