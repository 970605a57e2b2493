"""Training in real cgroups: limits change no number, kills are results, memory is torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shared_sweeps import SharedSweep

from edgebench.records import SCHEMA
from edgebench.results.results import Results, load
from edgebench.results.trial_readings import read_trial
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from tests.quiet import Quiet

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]


def swept(folder: Path, memory: list[str], **workload: Any) -> Results:
    tables = {
        "schema": SCHEMA,
        "name": "made",
        "repeats": 1,
        "timeout": "2m",
        "workload": {"kind": "training", "threads": 1, **workload},
        "limits": {"memory": memory, "swap": "none"},
    }
    return load(run_sweep(scenario_of(tables), SweepOptions(folder, "test"), Quiet()).folder)


@pytest.mark.root
@pytest.mark.swap
def test_a_limit_takes_time_and_no_numbers(shared_sweep: SharedSweep):
    results = load(shared_sweep("pressed"))
    assert list(results.trials["outcome"]) == ["ok", "ok"]
    limited = results.trials.set_index("limit_label").loc["80%"]
    assert limited["saturated"]
    curves = results.steps.pivot_table(index="step", columns="limit_label", values="loss")
    assert len(curves) == 4
    assert (curves["80%"] == curves["max"]).all()
    phases = results.phases[results.phases["round"] >= 0]
    assert set(phases["phase"]) == {"round", "data", "forward", "backward", "step"}
    assert (phases["peak_bytes"] > 0).all()


@pytest.mark.long
def test_training_that_needs_more_is_killed_and_told(tmp_path: Path):
    results = swept(
        tmp_path,
        ["260M"],
        network="basic_cnn",
        data="synthetic",
        shape="3x64x64",
        batch=128,
        steps=1,
    )
    outcomes = results.trials.set_index("limit_label")["outcome"]
    assert dict(outcomes) == {"max": "ok", "260M": "oom-killed"}


@pytest.mark.long
def test_a_loss_that_is_no_number_is_an_outcome(tmp_path: Path):
    results = swept(tmp_path, ["max"], network="mlp", learning_rate=1e5, steps=30)
    (trial,) = results.sweeps[0].records
    assert trial.outcome == "failed"
    assert "the loss became nan in step" in (trial.reason or "")
    assert results.steps["loss"].isna().sum() == 1


def test_each_phase_has_torch_s_peak(shared_sweep: SharedSweep):
    (sweep,) = load(shared_sweep("training")).sweeps
    (own,) = (r for r in sweep.strategy_records if r.strategy == "torch")
    trial = read_trial(sweep, own)
    peaks: dict[str, int] = {}
    for key in trial.spans:
        seen = trial.span_reading("torch", key)
        if seen and seen.peak_bytes and key.round >= 0:
            peaks[key.phase] = max(peaks.get(key.phase, 0), seen.peak_bytes)
    whole = peaks.pop("round")
    assert set(peaks) == {"data", "forward", "backward", "step"}
    (timed,) = sweep.records
    assert min(peaks.values()) > timed.notes["held_bytes"]["parameters"]
    assert max(peaks.values()) == whole
