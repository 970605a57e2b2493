"""The rung ``corrected``: physics, and ridge regression on the logarithm of its residuals.

What the physical model misses in the same way for many networks is learnt from their curves, and
tells of networks never run. Of a network that was run, its own residuals at other limits tell the
rest (:mod:`~edgebench.slowdown.kriging`): what they share is an error of the unlimited time, which
rests on few trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from edgebench.slowdown import conformal
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.features import NAMES, features
from edgebench.slowdown.kriging import Kinship, kinship
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
from edgebench.slowdown.physics import REACH, reach_over, within
from edgebench.slowdown.profile import physical
from edgebench.slowdown.regression import Regression, Run, between_groups
from edgebench.slowdown.splits import workload_network
from edgebench.slowdown.unlimited import Mixture, mixture, mixture_in

#: The reach for networks that were fitted, at other limits.
KNOWN_REACH = "reach.known"
_WEIGHT, _KNOT, _KIN = "weight.", "residual@", "kinship."
#: Of each curve how far it is from limits left out.
_ERROR = "error@"
#: What no correction exceeds: the size of this share of the residuals that were seen.
_SEEN, _MOST = 0.95, "most"


class Corrected(SetRung):
    """ln S = ln S_physics + Σ weights · features (+ the curve's own residuals nearby)."""

    name = "corrected"
    says = "physics times what ridge regression tells of its residuals"

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Ridge over all curves that have a table, its strength chosen between networks."""
        unlimited, kept = mixture(curves, context)
        ground = [found for curve in curves if (found := _ground(unlimited, curve, context))]
        if not ground:
            raise TooFewLimitsError("needs curves of networks with layer tables")
        runs = [Run(workload_network(g.curve), g.x, g.y) for g in ground if len(g.y)]
        if not runs:
            raise TooFewLimitsError("needs a limit at which a trial finished")
        own, others = between_groups(runs)
        y = np.concatenate([run.y for run in runs])
        most = float(np.quantile(np.abs(y), _SEEN))
        ground = [replace(one, most=most) for one in ground]
        residuals = [one.y - one.told(one.x, own.weights) for one in ground]
        kin = kinship([(g.ln_limit, r) for g, r in zip(ground, residuals, strict=True)])
        return Fit(
            self.name,
            (
                *_weights(own),
                *_constants(kept, kin, most),
                *_knots(ground, residuals),
                *_unseen_reach(ground, others),
                *_known(ground, residuals, own, kin),
            ),
            covariance=_used(own),
            residual=float(np.sqrt(np.mean(np.concatenate(residuals) ** 2))),
            free=max(1, len(y) - int(np.count_nonzero(own.weights))),
        )

    def predict(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> FloatArray:
        """Physics, corrected; the network's own residuals too, if it was fitted."""
        return _landscape(fit, asked, context).at(limit_bytes)

    def interval(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> tuple[FloatArray, FloatArray] | None:
        """A conformal band, of errors on networks or limits left out of the fit."""
        reach = fit.get(KNOWN_REACH if len(_knots_of(fit, asked)) else REACH)
        return within(reach, _landscape(fit, asked, context), limit_bytes)

    def left_out(self, fit: Fit, asked: Curve) -> float | None:
        """By the curve's residuals at its other limits."""
        return fit.get(f"{_ERROR}{asked.mark}")

    def unlimited_s(self, fit: Fit, asked: Curve, context: Context) -> float:
        """Measured, with what other networks' rates and its own other limits say of it."""
        knots = _knots_of(fit, asked)
        shared = _kinship_of(fit).shared(np.log(knots[:, 0]), knots[:, 1])
        return mixture_in(fit).seconds(asked, context) * float(np.exp(shared))


@dataclass(frozen=True)
class _Ground:
    """A curve beside what physics says of it: one row of ``x`` and ``y`` a limit.

    ``slowdown`` is of its trials, against the unlimited time ``unlimited_s``.
    """

    curve: Curve
    unlimited_s: float
    physical: Landscape
    features: FloatArray
    ln_limit: FloatArray
    x: FloatArray
    y: FloatArray
    most: float = np.inf

    @property
    def slowdown(self) -> FloatArray:
        """One a trial."""
        return self.curve.seconds / self.unlimited_s

    def told(self, features: FloatArray, weights: FloatArray) -> FloatArray:
        """What the regression tells of residuals, no more than was ever seen."""
        return np.clip(features @ weights, -self.most, self.most)

    def corrected(self, weights: FloatArray) -> Landscape:
        """Physics times the correction, over all limits."""
        return self.physical.times(self.told(self.features, weights))


def _ground(mixture: Mixture, curve: Curve, context: Context) -> _Ground | None:
    """None for what physics can't be asked of."""
    try:
        unlimited = mixture.seconds(curve, context)
        found, every = physical(curve, unlimited, context), features(curve, unlimited, context)
    except CannotTellError:
        return None
    ln_limit = np.log(curve.limits)
    nearest = np.abs(found.ln_limit[None, :] - ln_limit[:, None]).argmin(axis=1)
    if not len(ln_limit):
        return _Ground(curve, unlimited, found, every, ln_limit, every[nearest], ln_limit)
    measured = np.log(curve.medians * (curve.unlimited_s / unlimited))
    y = measured - np.log(found.at(curve.limits))
    return _Ground(curve, unlimited, found, every, ln_limit, every[nearest], y)


def _landscape(fit: Fit, asked: Curve, context: Context) -> Landscape:
    unlimited = mixture_in(fit).seconds(asked, context)
    weights = np.array([fit.get(_WEIGHT + name) or 0.0 for name in NAMES])
    found = physical(asked, unlimited, context)
    ln_factor = np.clip(features(asked, unlimited, context) @ weights, -fit[_MOST], fit[_MOST])
    knots = _knots_of(fit, asked)
    nearby = _kinship_of(fit).nearby(np.log(knots[:, 0]), knots[:, 1], found.ln_limit)
    return found.times(ln_factor + nearby)


def _weights(own: Regression) -> Iterable[Parameter]:
    for name, weight, variance in zip(NAMES, own.weights, np.diag(own.covariance), strict=True):
        if weight:
            yield Parameter(_WEIGHT + name, float(weight), stderr=float(np.sqrt(variance)))


def _used(own: Regression) -> tuple[tuple[float, ...], ...]:
    used = np.flatnonzero(own.weights)
    return tuple(tuple(map(float, row)) for row in own.covariance[np.ix_(used, used)])


def _constants(rates: Iterable[Parameter], kin: Kinship, most: float) -> Iterable[Parameter]:
    yield from rates
    yield Parameter(_MOST, most, fixed=True)
    for name, value in vars(kin).items():
        yield Parameter(_KIN + name, float(value), fixed=True)


def _knots(ground: Sequence[_Ground], residuals: Sequence[FloatArray]) -> Iterable[Parameter]:
    for one, residual in zip(ground, residuals, strict=True):
        for limit, value in zip(one.curve.limits, residual, strict=True):
            yield Parameter(f"{_KNOT}{one.curve.mark}@{limit:.0f}", float(value), fixed=True)


def _knots_of(fit: Fit, asked: Curve) -> FloatArray:
    """The limits at which the curve was fitted, and its residuals there: two columns."""
    found = fit.starting(f"{_KNOT}{asked.mark}@")
    return np.array(sorted((float(limit), value) for limit, value in found)).reshape(-1, 2)


def _kinship_of(fit: Fit) -> Kinship:
    return Kinship(*(fit[_KIN + field.name] for field in fields(Kinship)))


def _unseen_reach(
    ground: Sequence[_Ground], others: Mapping[str, FloatArray]
) -> tuple[Parameter, ...]:
    """Errors on each network by the regression of all others."""
    told = {
        one.curve.mark: one.corrected(others[name])
        for one in ground
        if (name := workload_network(one.curve)) in others
    }
    steadied = [
        replace(one.curve, unlimited_seconds=np.array([one.unlimited_s]))
        for one in ground
        if one.curve.mark in told
    ]
    return reach_over(steadied, lambda curve: told[curve.mark])


def _known(
    ground: Sequence[_Ground], residuals: Sequence[FloatArray], own: Regression, kin: Kinship
) -> Iterable[Parameter]:
    """Errors at each limit by the curve's residuals at all others."""
    groups: dict[str, list[FloatArray]] = {}
    for one, residual in zip(ground, residuals, strict=True):
        found = [_left_out(one, n, residual, own, kin) for n in range(len(residual))]
        groups.setdefault(workload_network(one.curve), []).extend(scores for scores, _ in found)
        if found:
            error = float(np.mean([error for _, error in found]))
            yield Parameter(f"{_ERROR}{one.curve.mark}", error, fixed=True)
    every = [np.concatenate(group) for group in groups.values() if group]
    if every:
        yield Parameter(KNOWN_REACH, conformal.reach_of(every, LEVEL))


def _left_out(
    one: _Ground, n: int, residual: FloatArray, own: Regression, kin: Kinship
) -> tuple[FloatArray, float]:
    """Of the trials at one limit the scores, and the error of what is told of them."""
    keep = np.arange(len(residual)) != n
    known = one.ln_limit[keep], residual[keep]
    nearby = kin.nearby(*known, one.physical.ln_limit)
    landscape = one.physical.times(one.told(one.features, own.weights) + nearby)
    here = one.curve.limit_bytes == one.curve.limits[n]
    slowdown = one.slowdown[here] / np.exp(kin.shared(*known))
    error = np.log(landscape.at(one.curve.limits[[n]])[0] / np.median(slowdown))
    return conformal.scores(landscape, one.curve.limit_bytes[here], slowdown), float(abs(error))
