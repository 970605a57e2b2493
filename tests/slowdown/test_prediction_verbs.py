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
    (one,) = predicted("resnet18", "--results", root, "--schedule", "linear", "--memory", "110M")
    (at,) = one["at"]
    times = {time["phase"]: time for time in at["phases"]}
    assert set(times) == {"load", "first", "total"}
    assert times["load"]["slowdown"] == pytest.approx(slowdown(SHAPE, 110), rel=0.15)
    assert times["total"]["low_s"] < times["total"]["seconds"] < times["total"]["high_s"]
    assert (at["viable"], at["source"]) == (True, "between measured limits")
    assert one["was_run"]


@pytest.mark.torch
@pytest.mark.process
def test_a_network_that_never_was(root: Path):
    words = ("squeezenet1_1", "--results", root, "--schedule", "bulk", "--memory", "30%")
    (one,) = predicted(*words)
    assert not one["was_run"]
    assert one["needs_bytes"] > 150 * MIB
    assert (one["needs_measured"], one["at"][0]["source"]) == (False, "layer table")
    assert {time["phase"] for time in one["at"][0]["phases"]} == {"total"}
    told = run(predict, *words)
    assert told.startswith("squeezenet1_1   bulk, copy, 2.00 GiB swap   needs about ")


def test_rows_say_how_they_are_known(root: Path):
    words = ("alexnet", "--results", root, "--schedule", "linear")
    told = run(predict, *words, "--memory", "60M,145M", "--memory", "100M")
    rows = [" ".join(line.split()) for line in told.splitlines()[2:5]]
    assert [row.split()[0] for row in rows] == ["145", "100", "60"]
    assert "2/2" in rows[0]
    assert rows[0].endswith("measured")
    assert "between measured limits" in rows[1]
    assert "s or more >=" in rows[2]
    assert "below the tightest, 85 MiB" in told


def test_limits_as_a_range_and_as_given(root: Path):
    words = ("alexnet", "--results", root, "--schedule", "linear")
    (one,) = predicted(*words, "--memory", "90M", "--from", "150M", "--to", "100M", "--steps", "3")
    sizes = [round(at["limit_bytes"] / MIB) for at in one["at"]]
    assert sizes == [90, 150, 122, 100]
    (usual,) = predicted(*words)
    assert len(usual["at"]) == 9
    assert usual["at"][0]["share"] == pytest.approx(1.2)


def test_two_workloads_of_one_network_are_told_apart(tmp_path: Path):
    shape = replace(SHAPE, networks={"alexnet": 4}, schedules=("linear",))
    sweeps = [make(tmp_path, shape).name for _ in range(2)]
    told = run(predict, "alexnet", "--results", tmp_path, "--memory", "110M")
    for name in sweeps:
        assert f"alexnet   linear, copy, {name}, 2.00 GiB swap   needs 200 MiB" in told


def test_not_viable_is_said(tmp_path: Path):
    make(tmp_path, replace(SHAPE, killed_below=130, swap_bytes=64 * MIB))
    (one,) = predicted("alexnet", "--results", tmp_path, "--schedule", "linear", "--memory", "90M")
    assert (one["at"][0]["viable"], one["at"][0]["phases"]) == (False, [])
    assert one["least_viable_bytes"] == pytest.approx(136 * MIB, rel=0.01)
    told = run(predict, "alexnet", "--results", tmp_path, "--memory", "90M")
    assert "killed (between measured limits)" in told


def test_without_a_calibration_curves_speak(bare: Path):
    (one,) = predicted("--results", bare, "--memory", "110M")
    assert one["at"][0]["source"] == "between measured limits"
    done = CliRunner().invoke(predict, ["--results", str(bare), "--memory", "110M"])
    assert "edgebench calibrate" in done.stderr


@pytest.mark.process
def test_two_devices_are_not_mixed(tmp_path: Path):
    for device in ("nano", "orin"):
        make(tmp_path, replace(SHAPE, networks={"alexnet": 4}), device)
    assert "name one with --device: nano, orin" in said(predict, "--results", tmp_path)
    assert predicted("--results", tmp_path, "--device", "nano", "--memory", "90M")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("--memory", "max"), "'max' is not a limit"),
        (("--from", "120%", "--to", "40M"), "both be sizes or both be shares"),
        (("--device", "orin"), "no results of device 'orin'"),
        (("--swap-kind", "zram"), "edgebench calibrate --swap zram:1G --device jetson-nano"),
    ],
)
def test_what_is_not_there_is_told(root: Path, words: tuple[str, ...], fragment: str):
    assert fragment in said(predict, "vgg11", "--results", root, *words)


@pytest.mark.torch
@pytest.mark.process
def test_a_network_that_does_not_exist(root: Path):
    assert "did you mean 'resnet1" in said(predict, "resnet19", "--results", root)
