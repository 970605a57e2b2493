"""predict as a person types them, on sweeps whose slowdown is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_sweep import MIB, make, slowdown
from verb_making import SHAPE, predicted, run, said

from edgebench.cli.predict import predict


@pytest.mark.heavy
def test_a_network_that_was_run(root: Path):
    """At a limit between two that were run, its phases are as slow as the truth says."""
    (one,) = predicted("resnet18", "--results", root, "--schedule", "linear", "--memory", "110M")
    (at,) = one["at"]
    times = {time["phase"]: time for time in at["phases"]}
    assert set(times) == {"load", "first", "total"}
    assert times["load"]["slowdown"] == pytest.approx(slowdown(SHAPE, 110), rel=0.15)
    assert times["total"]["low_s"] < times["total"]["seconds"] < times["total"]["high_s"]
    assert times["total"]["saved_s"] > 0
    assert (at["viable"], at["extrapolated"]) == (True, False)
    assert one["was_run"]


@pytest.mark.process
def test_a_network_that_never_was(root: Path):
    """From its layer table alone: phases, layers, demand; and marked as extrapolation."""
    (one,) = predicted("squeezenet1_1", "--results", root, "--schedule", "bulk", "--memory", "30%")
    assert not one["was_run"]
    assert one["demand_bytes"] > 150 * MIB
    assert one["at"][0]["extrapolated"]
    assert {time["phase"] for time in one["at"][0]["phases"]} == {
        *("load", "first", "execute", "start", "total")
    }


def test_limits_as_a_range_and_as_given(root: Path):
    """Sizes, shares and a range together; without any, the usual range."""
    words = ("alexnet", "--results", root, "--schedule", "linear")
    (one,) = predicted(*words, "--memory", "90M", "--from", "150M", "--to", "100M", "--steps", "3")
    sizes = [round(at["limit_bytes"] / MIB) for at in one["at"]]
    assert sizes == [90, 150, 122, 100]
    (usual,) = predicted(*words)
    assert len(usual["at"]) == 9
    assert usual["at"][0]["share"] == pytest.approx(1.2)


def test_two_workloads_of_one_network_are_told_apart(tmp_path: Path):
    """Each sentence and title names the sweep that it is about."""
    shape = replace(SHAPE, networks={"alexnet": 4}, schedules=("linear",))
    sweeps = [make(tmp_path, shape).name for _ in range(2)]
    told = " ".join(run(predict, "alexnet", "--results", tmp_path, "--memory", "110M").split())
    for name in sweeps:
        assert f"alexnet (sweep {name}) with 110.0 MiB takes" in told
        assert f"alexnet · linear · copy · swap file · sweep {name}" in told


def test_not_viable_is_said(tmp_path: Path):
    """Without swap, and with trials that were killed: the least viable limit instead of a time."""
    make(tmp_path, replace(SHAPE, killed_below=130, swap_bytes=64 * MIB))
    (one,) = predicted("alexnet", "--results", tmp_path, "--schedule", "linear", "--memory", "90M")
    assert not one["at"][0]["viable"]
    assert 115 * MIB < one["least_viable_bytes"] < 145 * MIB
    # What is killed is not called fast.
    assert one["unslowed_bytes"] is None or one["unslowed_bytes"] >= one["least_viable_bytes"]
    told = run(predict, "alexnet", "--results", tmp_path, "--memory", "90M")
    assert "it is more likely killed than not" in told


def test_without_a_calibration_curves_speak(bare: Path):
    """A network that was run is still told, by a model of curves, with a warning."""
    (one,) = predicted("--results", bare, "--memory", "110M")
    assert one["model"] == "interpolated"
    done = CliRunner().invoke(predict, ["--results", str(bare), "--memory", "110M"])
    assert "edgebench calibrate" in done.stderr


@pytest.mark.process
def test_what_cant_be_built_is_refused_before_results_are_read(tmp_path: Path):
    """To read all results of a device takes long; these could not even be read."""
    folder = make(tmp_path, replace(SHAPE, networks={"alexnet": 4}))
    (folder / "trials.jsonl").write_text('{"schema": 999}\n')
    assert "no module 'nothing_here'" in said(predict, "nothing_here:make", "--results", tmp_path)
    assert "999" in said(predict, "vgg11", "--results", tmp_path)


def test_two_devices_are_not_mixed(tmp_path: Path):
    """Constants of one say nothing of another: one must be named."""
    for device in ("nano", "orin"):
        make(tmp_path, replace(SHAPE, networks={"alexnet": 4}), device)
    assert "name one with --device: nano, orin" in said(predict, "--results", tmp_path)
    assert predicted("--results", tmp_path, "--device", "nano", "--memory", "90M")
