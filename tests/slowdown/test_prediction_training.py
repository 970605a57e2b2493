"""Trainings through the verbs: their steps' layers are described, and simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_sweep import MIB, Shape, make
from msgspec import structs
from verb_making import SHAPE, calibration

from edgebench.records import PhaseSum, TrialRecord
from edgebench.results.results import Results, load
from edgebench.slowdown.calibration.device import save_calibration
from edgebench.slowdown.context import CannotPredictError, device_data
from edgebench.slowdown.models.fitting import fit_all
from edgebench.slowdown.models.simulated import Simulated, learn
from edgebench.slowdown.simulator.profile import (
    demand_bytes,
    device_with_demand,
    workload_for,
)
from edgebench.slowdown.training_tables import with_trainings

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


@pytest.fixture(scope="module")
def described(trained: Results) -> Results:
    """With its steps' layers, which another process describes."""
    found, tables = with_trainings(trained)
    assert all(tables[key] for key in tables)
    assert tables.reasons == []
    return found


@pytest.mark.process
def test_steps_are_described_and_told_by_the_simulation(described: Results):
    """Each phase of a step has a prediction from the layers and the calibration alone."""
    (known,), _ = device_data(described)
    assert {curve.phase for curve in known.curves} == {*PHASES, "total"}
    model = Simulated(learn((), known.context), known.context)
    for curve in known.curves:
        limits = np.array([40.0, 80, 400]) * MIB
        slowdown = model.predict(curve.unseen(), limits).slowdown
        assert slowdown[0] >= slowdown[1] >= slowdown[2] == 1
    backward = next(curve for curve in known.curves if curve.phase == "backward")
    tight = model.predict(backward.unseen(), np.array([60.0 * MIB]))
    assert tight.slowdown[0] > 1


@pytest.mark.process
def test_a_measured_demand_tells_the_runtime_of_a_training(described: Results):
    """What a demand has beside what steps hold is the runtime's; an unknown one is calibrated."""
    (known,), _ = device_data(described)
    curve = replace(known.curves[0], demand_bytes=300.0 * MIB)
    workload = workload_for(curve, known.context)
    device = device_with_demand(curve, known.context)
    assert demand_bytes(workload, device) == pytest.approx(300 * MIB, abs=MIB)
    untold = device_with_demand(replace(curve, demand_bytes=None), known.context)
    assert untold.base.bytes == calibration().base_bytes.value


@pytest.mark.process
def test_the_allocator_s_variables_are_settings_of_curves(trained: Results, described: Results):
    """A sweep that ran with them has other curves, and other simulated heaps."""
    words = "MALLOC_MMAP_THRESHOLD_=131072"
    variables = {"MALLOC_MMAP_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
    sweeps = [
        replace(one, environment={**one.environment, "variables": variables})
        for one in trained.sweeps
    ]
    (known,), _ = device_data(with_trainings(Results(sweeps))[0])
    assert {curve.settings["malloc"] for curve in known.curves} == {words}
    (plain,), _ = device_data(described)
    assert "malloc" not in plain.curves[0].settings
    own, other = (workload_for(one.curves[0], one.context) for one in (known, plain))
    assert (own.malloc.adapts, other.malloc.adapts) == (False, True)


@pytest.mark.process
def test_a_training_without_a_time_is_not_predicted(described: Results):
    """Its limits can be told from its own trials; rates of layers are those of inference."""
    (known,), _ = device_data(described)
    fits, _ = fit_all(list(known.curves))
    (found,) = fits[0].fits
    assert found.errors is not None
    bare = known.curves[0].unseen(with_unlimited=False)
    model = Simulated(learn(known.curves, known.context), known.context)
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        model.predict(bare, np.array([90.0 * MIB]))


@pytest.mark.process
def test_what_is_not_modelled_is_told_by_its_own_curves(trained: Results):
    """Filters drawn by chance can't be described: said, and nothing can be simulated."""
    sweeps = [
        replace(one, records=[as_training(r, trained="filters 40%") for r in one.records])
        for one in trained.sweeps
    ]
    described, tables = with_trainings(Results(sweeps))
    (known,), _ = device_data(described)
    with pytest.raises(CannotPredictError, match="filters"):
        Simulated(learn((), known.context), known.context).predict(
            known.curves[0].unseen(), np.array([90.0 * MIB])
        )
    assert "filters" in tables.reasons[0]


@pytest.mark.process
def test_a_network_of_ones_own_leaves_the_others_their_layers(trained: Results, described: Results):
    """It has no layer table, and why is said; the training of a known network still has one."""
    (one,) = trained.sweeps
    own = [as_training(r, network="mine.py:Net") for r in one.records]
    other = replace(one, path=one.path.with_name("other"), records=own)
    both, tables = with_trainings(Results([one, other]))
    (known, alone) = (device_data(results)[0][0] for results in (both, described))
    curves = {curve.workload_network: curve for curve in known.curves}
    with pytest.raises(CannotPredictError, match=r"mine.py:Net is not a network"):
        workload_for(curves.pop("mine.py:Net"), known.context)
    assert tables.reasons == ["mine.py:Net is not a network that edgebench knows by name"]
    (curve,) = curves.values()
    (same, *_) = (c for c in alone.curves if c.workload_network == curve.workload_network)
    assert workload_for(curve, known.context).tables == workload_for(same, alone.context).tables


def test_results_without_trainings_start_nothing(tmp_path: Path):
    """Nothing to describe: the very same results."""
    results = load(make(tmp_path, Shape()))
    described, tables = with_trainings(results)
    assert described is results
    assert not tables
