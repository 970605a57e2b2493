"""predict as a person types it: on sweeps whose slowdown is known, together, and with a probe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import Shape, make
from made_workloads import MIB, rows
from verb_making import DEVICE, SHAPE, calibration, predicted, run, said

from edgebench.cli.predict import predict
from edgebench.run import calibration as module
from edgebench.run.calibration import run_probe
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario
from edgebench.slowdown.calibration import save_calibration


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
    assert one["was_run"]
    assert {time["phase"] for time in one["at"][0]["phases"]} == {"load", "first", "total"}
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


NET = ("squeezenet1_1", "--schedule", "bulk", "--memory", "100M", "--results")


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Scenario, Path]]:
    """Return the sweeps that would be run, and where."""
    made: list[tuple[Scenario, Path]] = []

    def run(scenario: Scenario, options: Any, progress: Any) -> Any:
        made.append((scenario, options.results))
        return SimpleNamespace(folder=tmp_path / "probed")

    monkeypatch.setattr(module, "run_sweep", run)
    return made


def test_it_is_one_walk_with_the_workload_s_settings(
    walked: list[tuple[Scenario, Path]], tmp_path: Path
) -> None:
    """Freely and at one limit, with the swap that was asked about; NaN is no setting."""
    settings = {"schedule": "linear", "loader": "mmap", "batch": 4.0, "image": float("nan")}
    settings |= {"swap_kind": "file", "swap_bytes": 700.0 * MIB, "storage": "read=20MB/s"}
    no_progress: Any = None
    run_probe("resnet18", settings, 123.4 * MIB, tmp_path, no_progress)
    ((scenario, results),) = walked
    assert results == tmp_path
    assert (scenario.repeats, scenario.limits.plan) == (1, "walk")
    assert (scenario.limits.memory_labels(), scenario.limits.starts) == (("max", "123M"), ("max",))
    (point,) = [one for one in points(scenario) if one.limits.label == "123M"]
    assert point.limits.swap_bytes == 700 * MIB
    assert point.limits.storage == "read=20MB/s"
    names = ("schedule", "loader", "batch", "image")
    assert [point.settings[k] for k in names] == ["linear", "mmap", 4, None]


@pytest.mark.torch
@pytest.mark.process
def test_a_network_that_never_ran_is_probed_where_it_can_run(
    root: Path, walked: list[tuple[Scenario, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*NET, str(root)]
    assert "--probe" not in CliRunner().invoke(predict, words).stderr
    monkeypatch.setenv("EDGEBENCH_DEVICE", "jetson-nano")
    offered = CliRunner().invoke(predict, words).stderr.rpartition("next: edgebench predict ")[2]
    assert "--schedule bulk" in offered
    CliRunner().invoke(predict, " ".join(offered.split()).split())
    ((scenario, results),) = walked
    assert results == root.resolve()
    assert scenario.limits.plan == "walk"


def test_a_probe_is_of_one_workload(root: Path) -> None:
    assert "2 workloads match" in said(predict, "alexnet", "--results", root, "--probe")
    assert predicted("alexnet", "--results", root, "--memory", "100M")


ALEXNET, VGG = "alexnet", "vgg11"


def sweep(root: Path, network: str, *weights: int, loader: str = "copy", **about: float) -> Path:
    """Write a sweep of one network, whose layers have these weights in MiB."""
    sizes = {"demand": about["demand"], "library": about["library"]}
    swap = int(about.get("swap", 2048)) * MIB
    shape = Shape(
        {network: len(weights)}, ("bulk",), (None, 150), loader=loader, swap_bytes=swap, **sizes
    )
    path = make(root, shape, DEVICE)
    set_tables(path, {network: weights})
    return path


def set_tables(path: Path, networks: dict[str, tuple[int, ...]]) -> None:
    file = path / "networks.json"
    tables = {name: {"table": rows(*weights)} for name, weights in networks.items()}
    file.write_text(json.dumps({**json.loads(file.read_text()), "networks": tables}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return results of a runtime of 150 MiB, of which 60 are idle."""
    save_calibration(calibration(device=DEVICE), tmp_path)
    return tmp_path


def both(root: Path, swap: int) -> None:
    sweep(root, ALEXNET, 30, 50, demand=200, library=30, swap=swap)
    sweep(root, VGG, 100, 20, loader="mmap", demand=320, library=45, swap=swap)


def test_needs_and_steady_sets_add_up_and_libraries_count_once(folder: Path) -> None:
    """Copied weights leave the idle runtime in swap: 140 of 200 MiB; mapped ones use all of 320."""
    both(folder, 2048)
    words = (f"{ALEXNET}+{VGG}", "--together", "--results", folder, "--memory", "480M,400M")
    found = json.loads(run(predict, *words, "--json"))
    sizes = [
        (p["network"], p["needs_bytes"] / MIB, p["steady_bytes"] / MIB) for p in found["networks"]
    ]
    assert sizes == [(ALEXNET, 200, 140), (VGG, 320, 320)]
    whole = [found[f"{name}_bytes"] / MIB for name in ("needs", "steady", "library")]
    assert whole == [520, 460, 45]
    at = [
        (one["limit_bytes"] / MIB, one["finishes"], one["excess_bytes"] / MIB)
        for one in found["at"]
    ]
    assert at == [(480, True, 0), (400, True, 60)]
    assert found["shrink"] == VGG
    lines = [" ".join(line.split()) for line in run(predict, *words).splitlines()]
    assert lines[0] == "alexnet + vgg11 needs 520 MiB libraries 45 MiB, once"
    assert lines[2:5] == [
        "alexnet bulk, copy 200 MiB 140 MiB",
        "vgg11 bulk, mmap 320 MiB 320 MiB",
        "together 520 MiB 460 MiB",
    ]
    assert lines[6:] == ["480 MiB yes no", "400 MiB yes at least 60 MiB vgg11"]


@pytest.mark.parametrize(("limit", "finishes"), [(397, True), (390, None), (371, False)])
def test_mapped_weights_need_no_swap_but_the_rest_does(
    folder: Path, limit: int, finishes: bool | None
) -> None:
    """200 and 320 - 120 MiB beside 16 of swap: known to 3 % of 400."""
    both(folder, 16)
    words = (f"{ALEXNET}+{VGG}", "--together", "--results", folder, "--memory", f"{limit}M")
    (at,) = json.loads(run(predict, *words, "--json"))["at"]
    assert at["finishes"] is finishes


def test_a_network_that_never_ran_is_told_from_its_layers(folder: Path) -> None:
    """150 + 100 of weights + 4 of tensors; 60 of the runtime are idle; known to 8 % of 454."""
    path = sweep(folder, ALEXNET, 30, 50, demand=200, library=30, swap=64)
    set_tables(path, {ALEXNET: (30, 50), "other": (40, 60)})
    words = (f"{ALEXNET}+other", "--together", "--results", folder, "--memory", "360M,353M")
    found = json.loads(run(predict, *words, "--json"))
    assert found["networks"][1]["needs_bytes"] == 254 * MIB
    assert found["networks"][1]["library_bytes"] is None
    assert found["steady_bytes"] == (140 + 194) * MIB
    assert [one["finishes"] for one in found["at"]] == [None, False]


@pytest.mark.parametrize(
    "words",
    [(ALEXNET,), (), (f"{ALEXNET}+{VGG}", "--storage", "as-is"), (f"{ALEXNET}+{VGG}", "--probe")],
)
def test_together_is_of_two_networks_where_they_were_measured(
    root: Path, words: tuple[str, ...]
) -> None:
    assert "--together is of two networks or more" in said(
        predict, *words, "--together", "--results", root
    )
