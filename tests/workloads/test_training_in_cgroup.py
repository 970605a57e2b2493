"""Training in real cgroups: limits change no number, kills are results, memory is torch's."""

from __future__ import annotations

import pytest
from shared_sweeps import SharedSweep

from edgebench.results.frames import read_trial
from edgebench.results.results import load

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]


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
