"""A probe: which walk it is, where it is kept, and when it is offered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import MIB
from verb_making import predicted, said

from edgebench.cli.predict import predict
from edgebench.run import calibration as module
from edgebench.run.calibration import run_probe
from edgebench.scenario.scenario import Scenario

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
    (point,) = [one for one in scenario_points(scenario) if one.limits.label == "123M"]
    assert point.limits.swap_bytes == 700 * MIB
    assert point.limits.storage == "read=20MB/s"
    names = ("schedule", "loader", "batch", "image")
    assert [point.settings[k] for k in names] == ["linear", "mmap", 4, None]


def scenario_points(scenario: Scenario) -> Any:
    from edgebench.scenario.points import points

    return points(scenario)


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
