"""The model ``combined``: what is simulated, corrected, and moved to where trials are.

What the simulation misses in the same way in all networks is learnt from their curves
(:mod:`~edgebench.slowdown.models.simulated`). A curve that was measured is met at its own limits;
between them the simulation gives the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    UNRUN_REACH,
    conformal_prediction,
    conformity_scores,
    reach_over,
    reach_parameter,
)
from edgebench.slowdown.models.interpolated import bracket, bracket_reach, measured_points
from edgebench.slowdown.models.simulated import Learnt, learn, learnt_in, left_out

_POINT, _NOISE, _ERROR = "slowdown@", "noise@", "error@"


@registered_model
class Combined(Model):
    """ln S = ln S_simulated + its kind's correction; through the curve's own points, if any."""

    name = "combined"
    formula = "the simulated curve, corrected, and moved to what was measured"
    rank = 60
    meets_points = True

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Costs and corrections, the points, and the reaches of errors."""
        own, others = learn(curves, context)
        points = tuple(_points(curves, own, context))
        if not points:
            raise TooFewLimitsError("needs limits of networks with layer tables")
        reaches = [
            reach_over(
                name, left_out(curves, others, Learnt.predict_corrected, context, unrun=unrun)
            )
            for name, unrun in ((REACH, False), (UNRUN_REACH, True))
        ]
        every = (parameter for reach in reaches for parameter in reach)
        return Fit(self.name, (*own.parameters(), *points, *every, *_known(curves, own, context)))

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The corrected simulation; through the curve's own points if it was fitted."""
        unlimited_s, function = learnt_in(fit).predict_corrected(curve, context)
        points = sorted((float(at), s) for at, s in fit.starting(f"{_POINT}{curve.key}@"))
        if points:
            limits, values = np.array(points).T
            known = np.log(limits), values
            bounds = bracket(known, fit[f"{_NOISE}{curve.key}"], limit_bytes)
            function, reach = function.through(*known), fit.get(KNOWN_REACH)
            return conformal_prediction(unlimited_s, function, limit_bytes, reach, bounds)
        reach = fit.get(REACH if len(curve.unlimited_seconds) else UNRUN_REACH)
        return conformal_prediction(unlimited_s, function, limit_bytes, reach)

    def left_out_error(self, fit: Fit, curve: Curve) -> float | None:
        """By the curve's other limits."""
        return fit.get(f"{_ERROR}{curve.key}")


def _points(curves: Iterable[Curve], own: Learnt, context: Context) -> Iterable[Parameter]:
    """The logarithms of what was measured, of each curve that can be simulated."""
    for curve in curves:
        if len(curve.limits) and own.can_predict(curve, context):
            yield Parameter(f"{_NOISE}{curve.key}", bracket_reach(curve), fixed=True)
            for at, value in zip(*measured_points(curve), strict=True):
                name = f"{_POINT}{curve.key}@{np.exp(at):.0f}"
                yield Parameter(name, float(value), fixed=True)


def _known(curves: Iterable[Curve], own: Learnt, context: Context) -> Iterable[Parameter]:
    """Errors at each limit of a curve, by its other limits."""
    groups: dict[str, list[FloatArray]] = {}
    for curve in curves:
        try:
            _, shape = own.predict_corrected(curve, context)
        except CannotPredictError:
            continue
        errors = []
        for limit in curve.limits:
            points = measured_points(curve.without(limit))
            if not len(points[0]):
                continue
            function, here = shape.through(*points), curve.limit_bytes == limit
            found = conformity_scores(function, curve.limit_bytes[here], curve.slowdown[here])
            groups.setdefault(curve.workload_network, []).append(found)
            told = float(np.log(function.at(np.array([limit]))[0]))
            errors.append(abs(told - float(np.log(np.median(curve.slowdown[here])))))
        if errors:
            yield Parameter(f"{_ERROR}{curve.key}", float(np.mean(errors)), fixed=True)
    yield from reach_parameter(KNOWN_REACH, groups)
