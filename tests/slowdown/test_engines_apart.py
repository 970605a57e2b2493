"""Curves of several engines in one results folder: none moves a fit or prediction of another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import context, curve

from edgebench.slowdown.context import CannotPredictError, DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.fitted import FittedModels
from edgebench.slowdown.query import WorkloadQuery, find_workloads
from edgebench.slowdown.simulator.profile import device_for

CONTEXT = context()
OTHER = {"engine": "onnxruntime", "schedule": "whole"}


def of_torch() -> list[Curve]:
    """Four networks, two phases each."""
    names = ("alexnet", "vgg11", "resnet18", "squeezenet1_1")
    return [curve(name, phase, noise=0.02) for name in names for phase in ("load", "execute")]


def of_onnx_runtime() -> list[Curve]:
    """The same networks a hundred times as fast, in another engine."""
    return [
        replace(
            one,
            settings={**one.settings, **OTHER},
            seconds=one.seconds / 100,
            unlimited_seconds=one.unlimited_seconds / 100,
        )
        for one in of_torch()
    ]


@pytest.mark.process
def test_an_unknown_network_is_predicted_by_torchs_rates_alone():
    """Its settings, too, are those of torch's workloads, though most here are of another engine."""
    data = DeviceData("made-up", "file", tuple(of_torch()), CONTEXT)
    mixed = replace(data, curves=(*of_onnx_runtime(), *of_onnx_runtime(), *of_torch()))
    seconds = []
    for one in (data, mixed):
        (found,) = find_workloads(one, WorkloadQuery("resnet50"))
        assert "engine" not in found.settings
        assert found.settings["schedule"] == "bulk"
        model = FittedModels(one).for_workload(found.curves, found.network)
        seconds.append([model.predict(c, np.empty(0)).unlimited_s for c in found.curves])
    assert seconds[0] == seconds[1]


def test_torchs_calibration_says_nothing_of_another_engine():
    """The runtime's own memory is not the same, so nothing is simulated with it."""
    (other, *_) = of_onnx_runtime()
    with pytest.raises(CannotPredictError, match="calibration is of torch"):
        device_for(other, CONTEXT)
