"""Which model predicts which workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import TABLES, context, curve

from edgebench.errors import ResultsError
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.fitted import FittedModels
from edgebench.slowdown.splits import unseen

NETWORKS = ("alexnet", "resnet18", "mobilenet_v2", "vgg11")


def models(curves: list[Curve], known: Context) -> FittedModels:
    """All models, fitted to these curves."""
    return FittedModels(DeviceData("made-up", "file", tuple(curves), known))


def curves(**about: float) -> list[Curve]:
    """Of some networks the warm executions."""
    return [curve(name, "execute", noise=0.02, **about) for name in NETWORKS]


def hinges() -> list[Curve]:
    """The same networks, slowed down in a way that has nothing to do with their layers."""
    made = []
    for one in curves():
        depth = np.maximum(np.log(1.1 * one.demand_bytes / one.limit_bytes), 0)
        made.append(replace(one, seconds=one.unlimited_s * (1 + 2 * depth**1.2)))
    return made


def test_the_nearest_model_predicts_a_measured_workload():
    """Physics or corrected where physics holds; elsewhere a model of the curves."""
    right, wrong = curves(), hinges()
    assert models(right, context()).for_workload(right[:1], "alexnet").name in (
        "physics",
        "corrected",
    )
    for one in wrong:
        found = models(wrong, context()).for_workload([one], one.network)
        assert found.name in ("hinge", "pooled")
        predicted = found.predict(one, one.limits)
        assert predicted.slowdown * predicted.unlimited_s == pytest.approx(
            one.seconds[::2], rel=0.05
        )


def test_the_least_simple_model_predicts_an_unmeasured_workload():
    """Corrected if there is a calibration; without one a regression on layers, else the mean."""
    made = curves()
    new = unseen(curve("resnet50", "execute"))
    assert models(made, context()).for_workload([new], "resnet50").name == "corrected"
    assert models([], context()).for_workload([new], "resnet50").name == "physics"
    assert models(made, Context(TABLES)).for_workload([new], "resnet50").name == "brouwer"
    assert models(made, Context({})).for_workload([new], "resnet50").name == "pooled"


def test_an_error_says_why_no_model_can_predict():
    """The error has each model's reason, and a remedy to type."""
    new = unseen(curve("resnet50", "execute"), with_unlimited=False)
    with pytest.raises(ResultsError, match="no model can predict resnet50") as caught:
        models([], Context({})).for_workload([new], "resnet50")
    for model in ("corrected", "physics", "brouwer", "pooled"):
        assert f"{model}: " in str(caught.value)
    assert "edgebench calibrate" in str(caught.value.remedy)
