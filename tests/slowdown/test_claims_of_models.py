"""What is said of a model's answer goes no further than the model's own error and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from curve_making import curve

from edgebench.report.model_sentences import model_sentences
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model
from edgebench.slowdown.models.fitted import FittedModel, WorkloadModel
from edgebench.slowdown.models.fitting import CurveFits
from edgebench.slowdown.models.held_out import HeldOut, ModelFit
from edgebench.slowdown.prediction import Predictor
from edgebench.slowdown.query import QueriedWorkload
from edgebench.slowdown.viability import Viability

MIB = 1 << 20


class Drawn(Model):
    """Its slowdown has the shape that a test gives it."""

    name, formula, rank, per_curve = "drawn", "as drawn", 0, True

    def __init__(self, slowdown: Callable[[FloatArray], FloatArray]) -> None:
        self._slowdown = slowdown

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """There is nothing to learn."""
        return Fit(self.name, ())

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The shape at these limits."""
        return CurvePrediction(curve.unlimited_s, self._slowdown(limit_bytes))


class Known:
    """One model for whatever workload."""

    def __init__(self, model: WorkloadModel) -> None:
        self._model = model

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """That model."""
        return self._model


def fits(mape: float) -> CurveFits:
    """A fit whose slowdown goes from 3 at 50 MiB to 1 at 200, and errs by so much."""
    model = Drawn(lambda limits: np.interp(limits / MIB, [50, 200], [3.0, 1.0]))
    held_out = HeldOut(100.0 * MIB, predicted_s=1 + mape, measured_s=1.0, inside=True)
    found = ModelFit(model, model.fit([], Context({})), (held_out,))
    return CurveFits(curve(limits=(50.0, 200.0)), (found,))


@pytest.mark.parametrize(("mape", "told"), [(0.02, True), (0.12, False)])
def test_a_factor_within_the_fit_s_error_is_not_told(mape: float, told: bool):
    """A model that is off by 12 % doesn't tell where slowdown passes 1.1; one off by 2 % does."""
    said = model_sentences(fits(mape))[-1]
    assert (" 1.1 at about" in said) is told
    assert " 2 at about" in said


def test_from_a_limit_up_is_true_of_all_wider_ones():
    """A model that dips below the factor and rises again is within it only beyond the rise."""

    def dips(limits: FloatArray) -> FloatArray:
        x = limits / (100 * MIB)
        return np.where((x < 0.5) | ((x > 0.7) & (x < 0.9)), 2.0, 1.0)

    nothing, model = Context({}), Drawn(dips)
    asked = replace(curve(), demand_bytes=100.0 * MIB)
    known = WorkloadModel({asked.key: FittedModel(model, model.fit([], nothing), nothing)})
    data = DeviceData("board", "file", (asked,), nothing)
    predictor = Predictor(data, Viability(0.0, 0.1, 0), Known(known))
    least = predictor.least_within(QueriedWorkload((asked,)), 1.1, "total")
    assert least is not None
    assert 0.9 <= least / (100 * MIB) < 0.93
