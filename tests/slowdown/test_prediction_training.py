"""Trainings among the curves: each phase of a step is told by its own points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_sweep import make
from msgspec import structs
from verb_making import SHAPE, calibration

from edgebench.records import PhaseSum, TrialRecord
from edgebench.results.results import Results, load
from edgebench.slowdown.calibration import save_calibration
from edgebench.slowdown.context import device_data
from edgebench.slowdown.fit import fit_all
from edgebench.slowdown.workload import CannotPredictError, workload_of

TRAINING: dict[str, Any] = {
    "kind": "training",
    "framework": "pytorch",
    "network": "basic_cnn",
    "data": "synthetic",
    "shape": "3x64x64",
    "image": None,
    "classes": 10,
    "depth": None,
    "width": None,
    "activation": None,
    "optimizer": "adam",
    "learning_rate": 0.01,
    "batch": 16,
    "accumulation": 1,
    "precision": "float32",
    "checkpointing": False,
    "trained": "all",
    "start": "scratch",
    "threads": None,
    "steps": 4,
}
PHASES = ("data", "forward", "backward", "step")


def as_training(record: TrialRecord, **changed: Any) -> TrialRecord:
    """The trial as if a network had been trained in it, each phase as slow as its loading was."""
    loads = [one for one in record.phases if one.phase == "load"]
    steps = [
        structs.replace(one, phase=phase, network="basic_cnn")
        for one in loads
        for phase in (*PHASES, "round")
    ]
    before = [one for one in record.phases if one.round < 0]
    phases: list[PhaseSum] = [*before, *steps]
    return structs.replace(record, settings={**TRAINING, **changed}, phases=phases)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep of a training, four limits, its device calibrated."""
    root = tmp_path_factory.mktemp("trained")
    shape = replace(SHAPE, networks={"alexnet": 4}, limits=(None, 150, 120, 100, 80))
    made = load(make(root, shape))
    save_calibration(calibration(), root)
    sweeps = [
        replace(one, records=[as_training(record) for record in one.records], networks={})
        for one in made.sweeps
    ]
    return Results(sweeps)


def test_a_training_is_told_by_its_own_curves_alone(trained: Results):
    """Each phase of its steps has a curve through its points; nothing of it is computed."""
    (known,), _ = device_data(trained)
    assert {curve.phase for curve in known.curves} == {*PHASES, "total"}
    fits, _ = fit_all(list(known.curves))
    assert all(one.errors and one.errors.count == 4 for one in fits)
    with pytest.raises(CannotPredictError, match="a training"):
        workload_of(known.curves[0].settings, known.tables)
