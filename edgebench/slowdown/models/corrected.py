"""The model ``corrected``: physics, and ridge regression on the logarithm of its residuals.

Errors that the physical model makes in the same way for many networks are fitted to their curves,
and correct networks without trials too. For a measured network its own residuals at other limits
predict the rest (:mod:`~edgebench.slowdown.models.gaussian_process`): what they share is
an error of the unlimited time, which rests on few trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import (
    CurvePrediction,
    Fit,
    Model,
    Parameter,
    TooFewLimitsError,
    registered_model,
)
from edgebench.slowdown.models.conformal import (
    KNOWN_REACH,
    REACH,
    conformal_prediction,
    conformity_scores,
    reach_over,
    reach_parameter,
)
from edgebench.slowdown.models.gaussian_process import GaussianProcess, fit_gaussian_process
from edgebench.slowdown.models.residual_features import NAMES, features
from edgebench.slowdown.models.ridge import ErrorGroup, RidgeFit, cross_validated_ridge
from edgebench.slowdown.models.unlimited_time import (
    UnlimitedTimes,
    fit_unlimited_times,
    unlimited_times_in,
)
from edgebench.slowdown.simulator.profile import simulated_slowdown
from edgebench.slowdown.slowdown_function import SlowdownFunction
from edgebench.slowdown.splits import workload_network

_WEIGHT, _RESIDUAL, _PROCESS = "weight.", "residual@", "process."
#: Of each curve its error at limits left out.
_ERROR = "error@"
#: What no correction exceeds: the size of this share of the residuals that were seen.
_SEEN, _MOST = 0.95, "most"


@registered_model
class Corrected(Model):
    """ln S = ln S_physics + Σ weights · features (+ the curve's own residuals nearby)."""

    name = "corrected"
    formula = "physics times what ridge regression predicts of its residuals"
    rank = 60

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Ridge over all curves that have a table, its strength chosen between networks."""
        times, kept = fit_unlimited_times(curves, context)
        fitted = [found for curve in curves if (found := _residual_curve(times, curve, context))]
        if not fitted:
            raise TooFewLimitsError("needs curves of networks with layer tables")
        runs = [ErrorGroup(workload_network(g.curve), g.x, g.y) for g in fitted if len(g.y)]
        if not runs:
            raise TooFewLimitsError("needs a limit at which a trial finished")
        own, others = cross_validated_ridge(runs)
        y, used = np.concatenate([run.y for run in runs]), np.flatnonzero(own.weights)
        most = float(np.quantile(np.abs(y), _SEEN))
        fitted = [replace(one, most=most) for one in fitted]
        residuals = [one.y - one.correction(one.x, own.weights) for one in fitted]
        process = fit_gaussian_process(
            [(g.ln_limit, r) for g, r in zip(fitted, residuals, strict=True)]
        )
        return Fit(
            self.name,
            (
                *_weights(own),
                *_constants(kept, process, most),
                *_residual_parameters(fitted, residuals),
                *_unseen_reach(fitted, others),
                *_known(fitted, residuals, own, process),
            ),
            covariance=tuple(map(tuple, own.covariance[np.ix_(used, used)].tolist())),
            residual=float(np.sqrt(np.mean(np.concatenate(residuals) ** 2))),
            free=max(1, len(y) - len(used)),
        )

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """Physics, corrected; by the curve's own residuals too if it was fitted.

        The unlimited time is corrected by them and by other networks' rates.
        """
        times = unlimited_times_in(fit).seconds(curve, context)
        weights = np.array([fit.get(_WEIGHT + name) or 0.0 for name in NAMES])
        simulated = simulated_slowdown(curve, times, context)
        ln_factor = np.clip(features(curve, times, context) @ weights, -fit[_MOST], fit[_MOST])
        residuals = _residuals_in(fit, curve)
        process = GaussianProcess(*(fit[_PROCESS + f.name] for f in fields(GaussianProcess)))
        known = np.log(residuals[:, 0]), residuals[:, 1]
        function = simulated.scaled(ln_factor + process.nearby(*known, simulated.ln_limit))
        unlimited_s = times * float(np.exp(process.shared(*known)))
        reach = fit.get(KNOWN_REACH if len(residuals) else REACH)
        return conformal_prediction(unlimited_s, function, limit_bytes, reach)

    def left_out_error(self, fit: Fit, curve: Curve) -> float | None:
        """By the curve's residuals at its other limits."""
        return fit.get(f"{_ERROR}{curve.key}")


@dataclass(frozen=True)
class _ResidualCurve:
    """A curve with its residuals from physics: one row of ``x`` and ``y`` a limit.

    ``slowdown`` is of its trials, against the unlimited time ``unlimited_s``.
    """

    curve: Curve
    unlimited_s: float
    physical: SlowdownFunction
    features: FloatArray
    ln_limit: FloatArray
    x: FloatArray
    y: FloatArray
    most: float = np.inf

    @property
    def slowdown(self) -> FloatArray:
        """One a trial."""
        return self.curve.seconds / self.unlimited_s

    def correction(self, features: FloatArray, weights: FloatArray) -> FloatArray:
        """The regression's residuals, no larger than those that were seen."""
        return np.clip(features @ weights, -self.most, self.most)

    def corrected(self, weights: FloatArray) -> SlowdownFunction:
        """Physics times the correction, over all limits."""
        return self.physical.scaled(self.correction(self.features, weights))


def _residual_curve(times: UnlimitedTimes, curve: Curve, context: Context) -> _ResidualCurve | None:
    """None for a curve that physics can't predict."""
    try:
        unlimited = times.seconds(curve, context)
        found = simulated_slowdown(curve, unlimited, context)
        every = features(curve, unlimited, context)
    except CannotPredictError:
        return None
    ln_limit = np.log(curve.limits)
    nearest = np.abs(found.ln_limit[None, :] - ln_limit[:, None]).argmin(axis=1)
    measured = np.log(curve.medians * (curve.unlimited_s / unlimited))
    y = measured - np.log(found.at(curve.limits))
    return _ResidualCurve(curve, unlimited, found, every, ln_limit, every[nearest], y)


def _weights(own: RidgeFit) -> Iterable[Parameter]:
    for name, weight, variance in zip(NAMES, own.weights, np.diag(own.covariance), strict=True):
        if weight:
            yield Parameter(_WEIGHT + name, float(weight), stderr=float(np.sqrt(variance)))


def _constants(
    rates: Iterable[Parameter], process: GaussianProcess, most: float
) -> Iterable[Parameter]:
    yield from rates
    yield Parameter(_MOST, most, fixed=True)
    for name, value in vars(process).items():
        yield Parameter(_PROCESS + name, float(value), fixed=True)


def _residual_parameters(
    fitted: Sequence[_ResidualCurve], residuals: Sequence[FloatArray]
) -> Iterable[Parameter]:
    for one, residual in zip(fitted, residuals, strict=True):
        for limit, value in zip(one.curve.limits, residual, strict=True):
            yield Parameter(f"{_RESIDUAL}{one.curve.key}@{limit:.0f}", float(value), fixed=True)


def _residuals_in(fit: Fit, curve: Curve) -> FloatArray:
    """The limits at which the curve was fitted, and its residuals there: two columns."""
    found = fit.starting(f"{_RESIDUAL}{curve.key}@")
    return np.array(sorted((float(limit), value) for limit, value in found)).reshape(-1, 2)


def _unseen_reach(
    fitted: Sequence[_ResidualCurve], others: Mapping[str, FloatArray]
) -> tuple[Parameter, ...]:
    """Errors on each network by the regression of all others."""
    functions = {
        one.curve.key: one.corrected(others[name])
        for one in fitted
        if (name := workload_network(one.curve)) in others
    }
    scored = [
        replace(one.curve, unlimited_seconds=np.array([one.unlimited_s]))
        for one in fitted
        if one.curve.key in functions
    ]
    return reach_over(scored, lambda curve: functions[curve.key])


def _known(
    fitted: Sequence[_ResidualCurve],
    residuals: Sequence[FloatArray],
    own: RidgeFit,
    process: GaussianProcess,
) -> Iterable[Parameter]:
    """Errors at each limit by the curve's residuals at all others."""
    groups: dict[str, list[FloatArray]] = {}
    for one, residual in zip(fitted, residuals, strict=True):
        found = [_left_out(one, n, residual, own, process) for n in range(len(residual))]
        groups.setdefault(workload_network(one.curve), []).extend(scores for scores, _ in found)
        if found:
            error = float(np.mean([error for _, error in found]))
            yield Parameter(f"{_ERROR}{one.curve.key}", error, fixed=True)
    yield from reach_parameter(KNOWN_REACH, groups)


def _left_out(
    one: _ResidualCurve, n: int, residual: FloatArray, own: RidgeFit, process: GaussianProcess
) -> tuple[FloatArray, float]:
    """The scores of the trials at one limit, and the error of the prediction there."""
    keep = np.arange(len(residual)) != n
    known = one.ln_limit[keep], residual[keep]
    nearby = process.nearby(*known, one.physical.ln_limit)
    function = one.physical.scaled(one.correction(one.features, own.weights) + nearby)
    here = one.curve.limit_bytes == one.curve.limits[n]
    slowdown = one.slowdown[here] / np.exp(process.shared(*known))
    error = np.log(function.at(one.curve.limits[[n]])[0] / np.median(slowdown))
    return conformity_scores(function, one.curve.limit_bytes[here], slowdown), float(abs(error))
