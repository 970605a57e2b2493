"""Which model predicts which workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import TABLES, calibration, context, curve

from edgebench.errors import ResultsError
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.fitted import FittedModels

NETWORKS = ("alexnet", "resnet18", "mobilenet_v2", "vgg11")


def models(curves: list[Curve], known: Context) -> FittedModels:
    """All models, fitted to these curves."""
    return FittedModels(DeviceData("made-up", "file", tuple(curves), known))


def curves(**about: float) -> list[Curve]:
    """Of some networks the warm executions."""
    return [curve(name, "execute", noise=0.02, **about) for name in NETWORKS]


def test_the_nearest_model_predicts_a_measured_workload():
    """The simulation where it holds; either meets the points that were measured."""
    for one in (curve("alexnet"), curve("alexnet", factor=3.0)):
        found = models([one], context()).for_workload([one], "alexnet")
        assert found.name == "simulated"
        assert found.predict(one, one.limits).slowdown == pytest.approx(one.medians, rel=1e-6)
    depth = np.maximum(np.log(1.1 * one.demand_bytes / one.limit_bytes), 0)
    steady = replace(one, seconds=one.unlimited_s * (1 + 2 * depth**1.2))
    found = models([steady], context()).for_workload([steady], "alexnet")
    assert found.name == "interpolated"
    assert found.predict(steady, steady.limits).slowdown == pytest.approx(steady.medians)


def test_tighter_than_all_points_the_simulation_goes_on():
    """Moved to what was measured: as slow at the tightest limit, slower below it."""
    whole = curve("alexnet")
    tight = whole.limits[0]
    known = whole.without(tight)
    asked = np.array([tight, known.limits[0]])
    found = models([known], context()).for_workload([known], known.network).predict(known, asked)
    assert found.slowdown[1] == pytest.approx(known.medians[0])
    assert found.slowdown[0] == pytest.approx(whole.medians[0], rel=0.1)


def test_one_limit_and_the_demand_are_a_curve():
    """Without layers and constants a single limit is told by the line to the demand."""
    (one, *_) = curves()
    lone = replace(one, limit_bytes=one.limit_bytes[:2], seconds=one.seconds[:2])
    found = models([lone], Context({})).for_workload([lone], lone.network)
    assert found.name == "interpolated"
    assert found.predict(lone, lone.limits).slowdown == pytest.approx(lone.medians)


def test_an_unmeasured_workload_is_simulated():
    """With others' trials below limits, or by a calibration alone."""
    new = curve("resnet50", "execute").unseen()
    for known in (curves(), []):
        assert models(known, context()).for_workload([new], "resnet50").name == "simulated"


def test_a_sweep_alone_is_enough_to_simulate():
    """Nothing was calibrated: trials show how far assumed costs are off."""
    made = [replace(one, seconds=one.unlimited_s * (3 * one.slowdown - 2)) for one in curves()]
    assumed = Context(TABLES, assumed=calibration())
    new = curve("resnet50", "execute").unseen()
    model = models(made, assumed).for_workload([new], "resnet50")
    truth = curve("resnet50", "execute")
    assert model.predict(new, truth.limits).slowdown == pytest.approx(
        3 * truth.medians - 2, rel=0.3
    )
    with pytest.raises(ResultsError, match="not calibrated"):
        models([], assumed).for_workload([new], "resnet50")


def test_an_error_says_why_no_model_can_predict():
    """The error has the reason, and a remedy to type."""
    new = curve("resnet50", "execute").unseen(with_unlimited=False)
    with pytest.raises(ResultsError, match=r"no model can predict resnet50: .*calibrat") as caught:
        models([], Context({})).for_workload([new], "resnet50")
    assert "edgebench calibrate" in str(caught.value.remedy)
