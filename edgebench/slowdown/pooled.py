"""The rung ``pooled``: a hinge for each curve, each drawn to what its like have in common.

Curves of the same phase and loader differ in where they rise and how steeply, but not without
bounds. So ln(W / reference), ln a and b of each are taken to scatter about a common mean, and the
few limits of one curve are helped out by all others (partial pooling; Gelman and Hill, 2007). The
reference is the demand; where it is unknown, the largest limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown import conformal
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.hinge import ln_slowdown
from edgebench.slowdown.hinges import NOISE, Points, search, side_by_side
from edgebench.slowdown.landscape import Landscape
from edgebench.slowdown.model import (
    LEVEL,
    CannotTellError,
    Context,
    Fit,
    Parameter,
    SetRung,
    TooFewLimitsError,
)
from edgebench.slowdown.physics import REACH
from edgebench.slowdown.splits import workload_network

#: How far curves scatter about their mean in ln W, ln a and b. An unlimited time is as far off as
#: any other.
_SPREAD = np.array([0.5, 0.5, 0.3, NOISE])
#: Where the search for a mean begins; it settles in a few rounds.
_STARTS = np.array([(w, 0.5, b, 0.0) for w in (-1.0, -0.3, 0.2) for b in (1.0, 2.0)])
_ROUNDS = 6
_GRID = np.log(np.geomspace(0.02, 8.0, 240))
_NAMES = ("W", "a", "b")
#: The reach for curves that were fitted, at other limits; of each what its unlimited time is off
#: by, and how far it is from limits left out.
_KNOWN_REACH, _OFF, _ERROR = "reach.known", "off", "error"


class Pooled(SetRung):
    """``max(1, 1 + a·(ln(W/M))^b)`` for each curve, W, a and b scattered about a common mean.

    The unlimited trials are one point of many: what the others say of it, corrects it.
    """

    name = "pooled"
    says = "hinges whose W/demand, a and b are drawn to those of like curves"

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """By turns: each curve given the mean, the mean given the curves."""
        groups: dict[str, list[Curve]] = {}
        for curve in curves:
            if len(curve.limits):
                groups.setdefault(_like(curve), []).append(curve)
        if not groups:
            raise TooFewLimitsError("needs a limit at which a trial finished")
        fits = {like: _pool(own) for like, own in groups.items()}
        means = [p for like, group in fits.items() for p in _parameters(like, group.mean, 0.0)]
        owns = [p for group in fits.values() for one in group.own for p in _parameters_of(one)]
        return Fit(self.name, (*means, *owns, *_reaches(fits.values())))

    def predict(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> FloatArray:
        """The curve's own hinge; of one not fitted, that of the mean."""
        return _landscape(*_told(fit, asked)).at(limit_bytes)

    def interval(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> tuple[FloatArray, FloatArray] | None:
        """A conformal band of errors at limits left out, or on curves left out."""
        known = fit.get(f"W@{asked.mark}") is not None
        reach = fit.get(_KNOWN_REACH if known else REACH)
        if reach is None:
            return None
        return conformal.band(_landscape(*_told(fit, asked)), limit_bytes, reach)

    def left_out(self, fit: Fit, asked: Curve) -> float | None:
        """By the curve's other limits, the mean being what it is."""
        return fit.get(f"{_ERROR}@{asked.mark}")

    def unlimited_s(self, fit: Fit, asked: Curve, context: Context) -> float:
        """The measured one, corrected by what the curve's other points say of it."""
        return super().unlimited_s(fit, asked, context) * (fit.get(f"{_OFF}@{asked.mark}") or 1.0)


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
        raise CannotTellError(f"the demand of {curve.network} is unknown")
    return float(np.log(curve.limits[-1]))


def _pool(curves: Sequence[Curve]) -> _Group:
    """The mean of like curves, and each drawn to it: the best of several starts."""
    xy = [(np.log(c.limits) - _ln_reference(c), np.log(c.medians)) for c in curves]
    points, count = side_by_side(xy), len(curves)
    starts = np.repeat(_STARTS, count, axis=0)
    every, own, mean = points.rows([*range(count)] * len(_STARTS)), starts, starts
    for _ in range(_ROUNDS):
        own, cost = search(every, mean, own, _SPREAD)
        means = own.reshape(len(_STARTS), count, 4).mean(axis=1)
        means[:, 3] = 0.0
        mean = np.repeat(means, count, axis=0)
    best = int(cost.reshape(len(_STARTS), count).sum(axis=1).argmin())
    found = own.reshape(len(_STARTS), count, 4)[best]
    without = _left_out(points, means[best], found)
    return _Group(means[best], tuple(map(_Own, curves, found, without)))


def _left_out(points: Points, mean: FloatArray, own: FloatArray) -> list[FloatArray]:
    """Each curve's hinges without each of its limits in turn."""
    pairs = [(row, n) for row, weights in enumerate(points.weight) for n in np.flatnonzero(weights)]
    rows = [row for row, _ in pairs]
    rest = points.rows(rows)
    rest.weight[range(len(pairs)), [n for _, n in pairs]] = 0.0
    found, _ = search(rest, np.tile(mean, (len(pairs), 1)), own[rows], _SPREAD)
    return [found[np.array(rows) == row] for row in range(len(own))]


def _reaches(groups: Iterable[_Group]) -> Iterable[Parameter]:
    known: dict[str, list[FloatArray]] = {}
    unseen: dict[str, list[FloatArray]] = {}
    for group in groups:
        for one in group.own:
            curve, name = one.curve, workload_network(one.curve)
            others = [o.at for o in group.own if workload_network(o.curve) != name]
            if others:
                mean = _landscape(np.mean(others, axis=0), _ln_reference(curve))
                score = conformal.scores(mean, curve.limit_bytes, curve.slowdown)
                unseen.setdefault(name, []).append(score)
            known.setdefault(name, []).extend(_known_scores(one))
    for name, found in ((REACH, unseen), (_KNOWN_REACH, known)):
        if found:
            scores = [np.concatenate(each) for each in found.values()]
            yield Parameter(name, conformal.reach_of(scores, LEVEL))


def _known_scores(one: _Own) -> Iterable[FloatArray]:
    curve = one.curve
    for limit, at in zip(curve.limits, one.without, strict=True):
        here = curve.limit_bytes == limit
        landscape = _landscape(at, _ln_reference(curve))
        slowdown = curve.slowdown[here] / np.exp(at[3])
        yield conformal.scores(landscape, curve.limit_bytes[here], slowdown)


def _landscape(at: FloatArray, ln_reference: float) -> Landscape:
    return Landscape(_GRID + ln_reference, ln_slowdown(at[:3], _GRID))


def _told(fit: Fit, asked: Curve) -> tuple[FloatArray, float]:
    """The hinge that tells of a curve, W as a share of a reference, and the reference's logarithm.

    Of a curve that was fitted W itself is the reference.
    """
    own = [fit.get(f"{name}@{asked.mark}") for name in _NAMES]
    if None not in own:
        w, a, b = (float(value) for value in own if value is not None)
        return np.array([0.0, np.log(a), b]), float(np.log(w))
    mean = [fit.get(f"{name}@{_like(asked)}") for name in _NAMES]
    if None in mean:
        raise CannotTellError(f"no curve like {asked.label} was fitted")
    w, a, b = (float(value) for value in mean if value is not None)
    return np.array([np.log(w), np.log(a), b]), _ln_reference(asked)


def _parameters_of(one: _Own) -> Iterable[Parameter]:
    yield from _parameters(one.curve.mark, one.at, _ln_reference(one.curve))
    yield Parameter(f"{_OFF}@{one.curve.mark}", float(np.exp(one.at[3])))
    yield Parameter(f"{_ERROR}@{one.curve.mark}", _error_of(one), fixed=True)


def _error_of(one: _Own) -> float:
    """Mean size of ln(predicted / measured) at limits left out."""
    x = np.log(one.curve.limits) - _ln_reference(one.curve)
    pairs = zip(one.without, x, np.log(one.curve.medians), strict=True)
    return float(np.mean([abs(ln_slowdown(at[:3], m) + at[3] - y) for at, m, y in pairs]))


def _parameters(of: str, at: FloatArray, ln_reference: float) -> Iterable[Parameter]:
    """W in bytes, or as a share of whatever the reference is; a and b."""
    yield Parameter(f"W@{of}", float(np.exp(at[0] + ln_reference)), "bytes" if ln_reference else "")
    yield Parameter(f"a@{of}", float(np.exp(at[1])))
    yield Parameter(f"b@{of}", float(at[2]))


def _like(curve: Curve) -> str:
    """Curves of one kind."""
    return f"{curve.phase}/{curve.settings.get('loader', '')}"
