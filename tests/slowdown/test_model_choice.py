"""Which model predicts which workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import TABLES, calibration, context, curve

from edgebench.errors import ResultsError
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import all_models
from edgebench.slowdown.models.fitted import FittedModels

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


def test_three_models_predict():
    """The simplest first."""
    assert [model.name for model in all_models()] == ["interpolated", "simulated", "combined"]


def test_the_nearest_model_predicts_a_measured_workload():
    """Combined where the simulation holds; and any that does is right at the points themselves."""
    right, wrong = curves(), hinges()
    assert models(right, context()).for_workload(right[:1], "alexnet").name == "combined"
    fitted = models(wrong, context())
    for one in wrong:
        found = fitted.for_workload([one], one.network)
        assert found.name in ("interpolated", "combined")
        predicted = found.predict(one, one.limits)
        assert predicted.slowdown * predicted.unlimited_s == pytest.approx(one.seconds[::2])


def test_one_limit_and_the_demand_are_a_curve():
    """Without layers and constants a single limit is told by the line to the demand."""
    (one, *_) = curves()
    lone = replace(one, limit_bytes=one.limit_bytes[:2], seconds=one.seconds[:2])
    found = models([lone], Context({})).for_workload([lone], lone.network)
    assert found.name == "interpolated"
    assert found.predict(lone, lone.limits).slowdown == pytest.approx(lone.medians)


def test_the_least_simple_model_predicts_an_unmeasured_workload():
    """Combined if networks were run below limits; what was calibrated alone is simulated."""
    made = curves()
    new = curve("resnet50", "execute").unseen()
    assert models(made, context()).for_workload([new], "resnet50").name == "combined"
    assert models([], context()).for_workload([new], "resnet50").name == "simulated"


def test_a_sweep_alone_is_enough_to_simulate():
    """Nothing was calibrated: costs come from the trials, the rest is assumed."""
    made = curves()
    assumed = Context(TABLES, assumed=calibration())
    new = curve("resnet50", "execute").unseen()
    model = models(made, assumed).for_workload([new], "resnet50")
    assert model.name == "combined"
    truth = curve("resnet50", "execute")
    assert model.predict(new, truth.limits).slowdown == pytest.approx(truth.medians, rel=0.3)
    with pytest.raises(ResultsError, match="not calibrated"):
        models([], assumed).for_workload([new], "resnet50")


def test_an_error_says_why_no_model_can_predict():
    """The error has each model's reason, and a remedy to type."""
    new = curve("resnet50", "execute").unseen(with_unlimited=False)
    with pytest.raises(ResultsError, match="no model can predict resnet50") as caught:
        models([], Context({})).for_workload([new], "resnet50")
    for model in ("combined", "simulated"):
        assert f"{model}: " in str(caught.value)
    assert "edgebench calibrate" in str(caught.value.remedy)
