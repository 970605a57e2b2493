"""The models that predictions are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model, all_models
from evaluation.brouwer import Brouwer
from evaluation.hinge import Hinge
from evaluation.pooled import Pooled


class Unslowed(Model):
    """Slowdown is 1 at every limit."""

    name = "unslowed"
    formula = "S = 1"
    rank = 0
    per_curve = True

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Nothing to fit; the AIC is that of the logarithms' distance from 0."""
        (curve,) = curves
        squares = float(np.sum(np.log(curve.slowdown) ** 2))
        count = len(curve.slowdown)
        return Fit(self.name, (), aic=float(count * np.log(squares / count)) if squares else None)

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """One, everywhere."""
        return CurvePrediction(self.measured_unlimited_s(curve), np.ones(len(limit_bytes)))


#: By name; `fit` and `predict` know none of them.
BASELINES: dict[str, Model] = {
    model.name: model for model in (Unslowed(), Hinge(), Pooled(), Brouwer())
}


@cache
def compared_models() -> tuple[Model, ...]:
    """Baselines and models that predict, the simplest first."""
    return tuple(sorted([*BASELINES.values(), *all_models()], key=lambda model: model.rank))
