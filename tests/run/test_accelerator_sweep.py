"""A whole sweep on an accelerator: real worker, real cgroups; the accelerator alone is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerator_fakes import ACTIVATION_BYTES

from edgebench.records import SCHEMA
from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.text import MIB
from tests.quiet import Quiet

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]
NETWORK = Path(__file__).parents[1] / "accelerator_network.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A training without and with a limit of the accelerator's memory, which it does not fit."""
    tables = {
        "schema": SCHEMA,
        "name": "made",
        "repeats": 1,
        "timeout": "2m",
        "workload": {
            "kind": "training",
            "network": f"{NETWORK}:Net",
            "data": "digits",
            "image": 28,
            "batch": 4,
            "steps": 2,
            "threads": 1,
            "accelerator": "cuda",
        },
        "limits": {"memory": ["max"], "accelerator_memory": ["max", "32M"]},
    }
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("edgebench.run.sweep.sweep.why_no_cuda", lambda: None)
        return load(run_sweep(scenario_of(tables), SweepOptions(folder, "test"), Quiet()).folder)


def test_its_memory_running_out_is_an_outcome(results: Results):
    outcomes = {
        (r.limits.label, r.limits.accelerator_bytes): r.outcome for r in results.sweeps[0].records
    }
    small = 32 * MIB
    assert outcomes == {
        ("max", None): "ok",
        ("max", small): "accelerator-oom",
    }
    ended = [r for r in results.sweeps[0].records if r.limits.accelerator_bytes]
    for record in ended:
        assert "Tried to allocate" in str(record.reason)
        assert record.accelerator is not None
        assert (record.accelerator.limit_bytes, record.accelerator.ooms) == (small, 1)


def test_its_peak_is_that_of_the_forward_pass(results: Results):
    record = next(r for r in results.sweeps[0].records if r.outcome == "ok")
    told = record.accelerator
    assert told is not None
    assert told.peak_allocated_bytes == ACTIVATION_BYTES
    peaks = {(p["phase"], p["round"]): p["peak_allocated_bytes"] for p in told.phases}
    assert peaks["forward", 1] == peaks["round", 1] == ACTIVATION_BYTES
    assert peaks["data", 1] == 0
    weights = (784 + 1) * 10 * 4
    assert told.to_bytes == weights + 2 * (4 * 28 * 28 + 4 * 8)
    assert "process_peak_bytes" in told.missing
