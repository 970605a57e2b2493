"""Studies in real cgroups with real torch: small sweeps, and what their tables make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_sweeps import SharedSweep

from edgebench.analysis.studies.convolutions import BOTH, cost_frame, pass_frame
from edgebench.analysis.studies.phases import (
    core_frame,
    core_tables,
    operator_frame,
    operator_tables,
)
from edgebench.analysis.studies.training import partial_frame
from edgebench.report.figures.gallery import STUDIES
from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.quiet import Quiet

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch]

CONVOLUTION = """
schema = 1
name = "conv"
repeats = 1
timeout = "1m"
[workload]
kind = "convolution"
kernel = [3, 11]
backward = true
batch = 2
threads = 1
channels = 16
image = 64
warm = 1
passes = 3
"""
PARTIAL = """
schema = 1
name = "partial"
repeats = 1
timeout = "1m"
[workload]
kind = "training"
network = "lenet"
trained = ["all", "filters 20%"]
data = "digits"
image = 28
batch = 16
steps = 3
evaluate = true
[memory]
strategies = ["cores"]
"""


def swept(folder: Path, text: str) -> Results:
    file = folder / "given.toml"
    file.write_text(text)
    summary = run_sweep(load_scenario(file), SweepOptions(folder / "results"), Quiet())
    return load(summary.folder)


def test_a_convolution_is_timed_pass_by_pass(tmp_path: Path):
    results = swept(tmp_path, CONVOLUTION)
    passes = pass_frame(results)
    assert sorted(passes.groupby("kernel").size()) == [3, 3]
    assert set(passes["work"]) == {BOTH}
    costs = cost_frame(results).set_index("kernel")
    by_kernel = passes.groupby("kernel")["seconds"]
    assert (costs["image_s"] == by_kernel.median() / 2).all()
    kernels = passes.drop_duplicates("trial").set_index("trial")["kernel"]
    phases = results.phases
    counted = phases[phases["phase"].isin(("forward", "backward")) & (phases["round"] >= 1)]
    busy = counted.groupby(counted["trial"].map(kernels))["cpu_s"].sum()
    # By CPU time, which other programs on the machine don't lengthen as they do wall time.
    assert busy[11] > busy[3]
    assert (by_kernel.sum() > 0.95 * busy).all()
    image = 16 * 64 * 64 * 4
    # Input, output, and a gradient of each stand there at once.
    assert costs["image_bytes"].min() > 3 * image


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return swept(tmp_path_factory.mktemp("parts"), PARTIAL)


def test_parts_are_trained_and_frozen_parts_hold_no_gradient(parts: Results):
    rows = partial_frame(parts).set_index("trained")
    assert (rows["outcome"] == "ok").all()
    gradients = rows["gradient_bytes"]
    assert gradients["filters 20%"] == pytest.approx(0.2 * gradients["all"], rel=0.05)
    assert rows["accuracy"].between(0, 1).all()
    assert rows.loc["all", "step_s"] > 0


def test_operators_are_told_by_phase(shared_sweep: SharedSweep):
    trained = load(shared_sweep("training"))
    frame = operator_frame(trained)
    assert (frame["steps"] == 2).all()
    calls = frame.set_index(["phase", "operator"])["calls"]
    assert calls["forward", "aten::conv2d"] == 2
    assert calls["backward", "aten::convolution_backward"] == 2
    assert frame["share"].sum() == pytest.approx(1)
    families = operator_tables(trained)[0]
    assert "convolution" in {row["family"] for row in families.rows[:4]}


def test_each_core_s_part_of_each_phase(parts: Results):
    frame = core_frame(parts)
    assert {"data", "forward", "backward", "step", "round"} <= set(frame["phase"])
    rounds = frame[frame["phase"] == "round"].groupby("trial")["busy"].agg(["sum", "count"])
    assert (rounds["sum"] <= rounds["count"] * 1.02).all()
    whole = frame[(frame["phase"] == "round") & (frame["trained"] == "all")]
    assert whole["busy"].sum() == pytest.approx(whole["cores_busy"].iloc[0], rel=0.1)
    (table,) = core_tables(parts)
    assert {row["trained"] for row in table.rows} == {"all", "filters 20%"}
    assert len(list(STUDIES["cores"](parts))) == 2
