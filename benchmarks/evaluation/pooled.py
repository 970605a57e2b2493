"""The model ``pooled``: a hinge for each curve, each drawn to what its like have in common.

Curves of the same phase and loader differ in where they rise and how steeply, but not without
bounds. So ln(W / reference), ln a and b of each are taken to scatter about a common mean, and the
few limits of one curve are helped out by all others (partial pooling; Gelman and Hill, 2007). The
reference is the demand; where it is unknown, the largest limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import (
    CurvePrediction,
    Fit,
    Model,
    Parameter,
    TooFewLimitsError,
)
from edgebench.slowdown.models.conformal import (
    KNOWN_REACH,
    REACH,
    conformal_prediction,
    conformity_scores,
    reach_parameter,
)
from edgebench.slowdown.slowdown_function import SlowdownFunction
from evaluation.hinge import ln_slowdown
from evaluation.hinge_search import NOISE, HingePoints, search_hinges, stack_points

#: How far curves scatter about their mean in ln W, ln a and b. An unlimited time is as far off as
#: any other.
_SPREAD = np.array([0.5, 0.5, 0.3, NOISE])
#: Where the search for a mean begins; it settles in a few rounds.
_STARTS = np.array([(w, 0.5, b, 0.0) for w in (-1.0, -0.3, 0.2) for b in (1.0, 2.0)])
_ROUNDS = 6
_GRID = np.log(np.geomspace(0.02, 8.0, 240))
_NAMES = ("W", "a", "b")
#: Of each curve what its unlimited time is off by, and its error at limits left out.
_OFF, _ERROR = "off", "error"


class Pooled(Model):
    """``max(1, 1 + a·(ln(W/M))^b)`` for each curve, W, a and b scattered about a common mean.

    The unlimited trials are one point of many, and the other points correct it.
    """

    name = "pooled"
    formula = "hinges whose W/demand, a and b are drawn to those of like curves"
    rank = 30

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """By turns: each curve given the mean, the mean given the curves."""
        groups: dict[str, list[Curve]] = {}
        for curve in curves:
            if len(curve.limits):
                groups.setdefault(_kind(curve), []).append(curve)
        if not groups:
            raise TooFewLimitsError("needs a limit at which a trial finished")
        fits = {like: _pool(own) for like, own in groups.items()}
        means = [p for like, group in fits.items() for p in _parameters(like, group.mean, 0.0)]
        owns = [p for group in fits.values() for one in group.own for p in _parameters_of(one)]
        return Fit(self.name, (*means, *owns, *_reaches(fits.values())))

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The curve's own hinge; that of the mean if the curve was not fitted.

        The unlimited time is the measured one, corrected by the curve's other points.
        """
        known = fit.get(f"W@{curve.key}") is not None
        unlimited_s = self.measured_unlimited_s(curve) * (fit.get(f"{_OFF}@{curve.key}") or 1.0)
        reach = fit.get(KNOWN_REACH if known else REACH)
        return conformal_prediction(unlimited_s, _hinge_of(fit, curve), limit_bytes, reach)

    def left_out_error(self, fit: Fit, curve: Curve) -> float | None:
        """By the curve's other limits, the mean being what it is."""
        return fit.get(f"{_ERROR}@{curve.key}")


@dataclass(frozen=True)
class _Own:
    """One curve's hinge; ``without`` has, a row a limit, what it would be without that limit."""

    curve: Curve
    at: FloatArray
    without: FloatArray


@dataclass(frozen=True)
class _Group:
    mean: FloatArray
    own: tuple[_Own, ...]


def _ln_reference(curve: Curve) -> float:
    if curve.demand_bytes is not None:
        return float(np.log(curve.demand_bytes))
    if not len(curve.limits):
        raise CannotPredictError(f"the demand of {curve.network} is unknown")
    return float(np.log(curve.limits[-1]))


def _pool(curves: Sequence[Curve]) -> _Group:
    """The mean of like curves, and each drawn to it: the best of several starts."""
    xy = [(np.log(c.limits) - _ln_reference(c), np.log(c.medians)) for c in curves]
    points, count = stack_points(xy), len(curves)
    starts = np.repeat(_STARTS, count, axis=0)
    every, own, mean = points.rows([*range(count)] * len(_STARTS)), starts, starts
    for _ in range(_ROUNDS):
        own, cost = search_hinges(every, mean, own, _SPREAD)
        means = own.reshape(len(_STARTS), count, 4).mean(axis=1)
        means[:, 3] = 0.0
        mean = np.repeat(means, count, axis=0)
    best = int(cost.reshape(len(_STARTS), count).sum(axis=1).argmin())
    found = own.reshape(len(_STARTS), count, 4)[best]
    without = _left_out(points, means[best], found)
    return _Group(means[best], tuple(map(_Own, curves, found, without)))


def _left_out(points: HingePoints, mean: FloatArray, own: FloatArray) -> list[FloatArray]:
    """Each curve's hinges without each of its limits in turn."""
    pairs = [(row, n) for row, weights in enumerate(points.weight) for n in np.flatnonzero(weights)]
    rows = [row for row, _ in pairs]
    rest = points.rows(rows)
    rest.weight[range(len(pairs)), [n for _, n in pairs]] = 0.0
    found, _ = search_hinges(rest, np.tile(mean, (len(pairs), 1)), own[rows], _SPREAD)
    return [found[np.array(rows) == row] for row in range(len(own))]


def _reaches(groups: Iterable[_Group]) -> Iterable[Parameter]:
    known: dict[str, list[FloatArray]] = {}
    unseen: dict[str, list[FloatArray]] = {}
    for group in groups:
        for one in group.own:
            curve, name = one.curve, one.curve.workload_network
            others = [o.at for o in group.own if o.curve.workload_network != name]
            if others:
                mean = _slowdown_function(np.mean(others, axis=0), _ln_reference(curve))
                found = conformity_scores(mean, curve.limit_bytes, curve.slowdown)
                unseen.setdefault(name, []).append(found)
            known.setdefault(name, []).extend(_known_scores(one))
    return (*reach_parameter(REACH, unseen), *reach_parameter(KNOWN_REACH, known))


def _known_scores(one: _Own) -> Iterable[FloatArray]:
    curve = one.curve
    for limit, at in zip(curve.limits, one.without, strict=True):
        here = curve.limit_bytes == limit
        function = _slowdown_function(at, _ln_reference(curve))
        slowdown = curve.slowdown[here] / np.exp(at[3])
        yield conformity_scores(function, curve.limit_bytes[here], slowdown)


def _slowdown_function(at: FloatArray, ln_reference: float) -> SlowdownFunction:
    return SlowdownFunction(_GRID + ln_reference, ln_slowdown(at[:3], _GRID))


def _hinge_of(fit: Fit, curve: Curve) -> SlowdownFunction:
    """The curve's hinge if it was fitted, else the mean of its kind."""
    own = [fit.get(f"{name}@{curve.key}") for name in _NAMES]
    if None not in own:
        w, a, b = (float(value) for value in own if value is not None)
        # W itself is the reference.
        return _slowdown_function(np.array([0.0, np.log(a), b]), float(np.log(w)))
    mean = [fit.get(f"{name}@{_kind(curve)}") for name in _NAMES]
    if None in mean:
        raise CannotPredictError(f"no curve like {curve.label} was fitted")
    w, a, b = (float(value) for value in mean if value is not None)
    return _slowdown_function(np.array([np.log(w), np.log(a), b]), _ln_reference(curve))


def _parameters_of(one: _Own) -> Iterable[Parameter]:
    curve, reference = one.curve, _ln_reference(one.curve)
    pairs = zip(one.without, np.log(curve.limits) - reference, np.log(curve.medians), strict=True)
    error = float(np.mean([abs(ln_slowdown(at[:3], m) + at[3] - y) for at, m, y in pairs]))
    yield from _parameters(curve.key, one.at, reference)
    yield Parameter(f"{_OFF}@{curve.key}", float(np.exp(one.at[3])))
    yield Parameter(f"{_ERROR}@{curve.key}", error, fixed=True)


def _parameters(of: str, at: FloatArray, ln_reference: float) -> Iterable[Parameter]:
    """W in bytes, or as a share of whatever the reference is; a and b."""
    yield Parameter(f"W@{of}", float(np.exp(at[0] + ln_reference)), "bytes" if ln_reference else "")
    yield Parameter(f"a@{of}", float(np.exp(at[1])))
    yield Parameter(f"b@{of}", float(at[2]))


def _kind(curve: Curve) -> str:
    return f"{curve.phase}/{curve.settings.get('loader', '')}"
