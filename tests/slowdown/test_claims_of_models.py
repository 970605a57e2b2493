"""What is said of a model's answer goes no further than the model's own error and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from curve_making import curve

from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction
from edgebench.slowdown.models.fitted import WorkloadModel
from edgebench.slowdown.models.fitting import CurveFits, HeldOut, ModelFit
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.query import QueriedWorkload
from edgebench.slowdown.viability import Viability
from edgebench.words.model import model_sentences

MIB = 1 << 20


class Drawn:
    """Its slowdown has the shape that a test gives it."""

    name = "drawn"

    def __init__(self, slowdown: Callable[[FloatArray], FloatArray]) -> None:
        self._slowdown = slowdown

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
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
    found = ModelFit(model.name, model, (held_out,))
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
    known = WorkloadModel({asked.key: model})
    data = DeviceData("board", "file", (asked,), nothing)
    predictor = Predictor(data, Viability(0.0, 0.1, 0), Known(known))
    least = predictor.least_within(QueriedWorkload((asked,)), 1.1)
    assert least is not None
    assert 0.9 <= least / (100 * MIB) < 0.93


class Edge:
    """The same sharp edge for whatever workload: limit and swap hold what it needs."""

    def of(self, curves: Sequence[Curve]) -> Viability:
        """That edge."""
        return Viability(0.0, 0.001, 3)


def unslowed_at(
    *limits: str,
    least_bytes: float | None = None,
    tables: dict[str, Any] | None = None,
    **settings: Any,
) -> Prediction:
    """Of a network that needs 100 MiB, ran at 50 and 80, and is slowed nowhere."""
    made = curve(limits=(50.0, 80.0), **{"swap_bytes": 20.0 * MIB, **settings})
    asked, context = replace(made, demand_bytes=100.0 * MIB), Context(tables or {})
    fitted = {asked.key: Drawn(np.ones_like)}
    swap_kind = asked.settings["swap_kind"]
    data = DeviceData("board", swap_kind, (asked,), context)
    predictor = Predictor(data, Edge(), Known(WorkloadModel(fitted, least_bytes)))  # type: ignore[arg-type]
    return predictor.predict(QueriedWorkload((asked,)), limits)


def test_what_is_killed_is_not_called_unslowed():
    """From the least limit at which it finishes; with swap unknown, from the least one tried."""
    found = unslowed_at("90M")
    assert found.least_viable_bytes == pytest.approx(80 * MIB)
    assert found.unslowed_bytes == found.least_viable_bytes
    assert [at.viable for at in unslowed_at("81M", "79M").at] == [True, False]
    unknown = unslowed_at("90M", swap_bytes=None)
    assert (unknown.least_viable_bytes, unknown.unslowed_bytes) == (None, pytest.approx(50 * MIB))


def test_swap_and_mapped_weights_are_no_need_of_memory():
    """No kind of swap is no swap; weights that are mapped at once can be dropped."""
    assert unslowed_at("90M", swap_kind="none").least_viable_bytes == pytest.approx(100 * MIB)
    tables = {"alexnet": [{"part": n, "file_bytes": 15 * MIB} for n in range(2)]}
    mapped = unslowed_at("90M", loader="mmap", schedule="bulk", tables=tables)
    assert mapped.least_viable_bytes == pytest.approx(50 * MIB)
    layers = unslowed_at("90M", loader="mmap", schedule="linear", tables=tables)
    assert layers.least_viable_bytes == pytest.approx(65 * MIB)
    copied = unslowed_at("90M", schedule="bulk", tables=tables)
    assert copied.least_viable_bytes == pytest.approx(80 * MIB)


def test_a_model_answers_from_its_least_limit_up():
    """Nothing is searched below the limit from which up it holds."""
    found = unslowed_at("90M", swap_bytes=None, least_bytes=60.0 * MIB)
    assert found.unslowed_bytes is not None
    assert 60 * MIB <= found.unslowed_bytes < 62 * MIB


def test_a_limit_between_trials_is_not_extrapolated():
    """Nor one beside them by rounding, nor one above the demand, where nothing is limited."""
    inside, outside = ("49.8M", "50M", "65M", "80.3M", "101M", "150M"), ("49M", "81M", "99M")
    assert [at.extrapolated for at in unslowed_at(*inside).at] == [False] * len(inside)
    assert [at.extrapolated for at in unslowed_at(*outside).at] == [True] * len(outside)
