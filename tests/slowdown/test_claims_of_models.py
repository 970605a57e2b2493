"""What is said of a model's answer goes no further than the model's own error and shape."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgebench.report.model_sentences import model_sentences
from edgebench.slowdown.prediction import Predictor

MIB = 1 << 20


def fits(mape: float) -> Any:
    """A fit whose slowdown goes from 3 at 50 MiB to 1 at 200, and errs by so much."""

    def predict(_fit: Any, _curve: Any, limits: Any, _context: Any) -> Any:
        return SimpleNamespace(slowdown=np.interp(limits / MIB, [50, 200], [3.0, 1.0]))

    model = SimpleNamespace(name="hinge", predict=predict)
    best = SimpleNamespace(model=model, fit=object(), errors=SimpleNamespace(mape=mape))
    curve = SimpleNamespace(limits=np.array([50.0, 200.0]) * MIB)
    return SimpleNamespace(best=best, curve=curve)


@pytest.mark.parametrize(("mape", "told"), [(0.02, True), (0.12, False)])
def test_a_factor_within_the_fit_s_error_is_not_told(mape: float, told: bool):
    """A model that is off by 12 % doesn't tell where slowdown passes 1.1; one off by 2 % does."""
    said = model_sentences(fits(mape))[-1]
    assert (" 1.1 at about" in said) is told
    assert " 2 at about" in said


def test_from_a_limit_up_is_true_of_all_wider_ones():
    """A model that dips below the factor and rises again is within it only beyond the rise."""

    def predict(_: Any, limits: Any) -> Any:
        x = limits / (100 * MIB)
        return SimpleNamespace(slowdown=np.where((x < 0.5) | ((x > 0.7) & (x < 0.9)), 2.0, 1.0))

    curve = SimpleNamespace(phase="total", demand_bytes=100.0 * MIB)
    subject: Any = SimpleNamespace(curves=(curve,), network="n")
    model = SimpleNamespace(predict=predict, least_bytes=None)
    models: Any = SimpleNamespace(for_workload=lambda *_: model)
    nothing: Any = SimpleNamespace()
    least = Predictor(nothing, nothing, models).least_within(subject, 1.1, "total")
    assert least is not None
    assert 0.9 <= least / (100 * MIB) < 0.93
