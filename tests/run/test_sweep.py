"""Whole sweeps in real cgroups: complete, resumable after a kill at any moment, nothing left."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import ResultsError
from edgebench.results.folder import ResultsFolder
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.chance import cgroups_named
from tests.own_path import call
from tests.quiet import Quiet

pytestmark = pytest.mark.own_cgroup

SCENARIO = """
schema = 1
name = "tiny"
seed = 3
repeats = 2
timeout = "20s"
[workload]
kind = "command"
command = ["{python}", "-I", "-S", "-c", "b = bytearray(50 << 20); b[::4096] = b'x' * 12800"]
[limits]
memory = ["75%", "32M"]
swap = "none"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO.format(python=sys.executable))
    return path


def records(root: Path) -> list[dict[str, Any]]:
    (file,) = root.glob("results/*/*/trials.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def leftovers() -> list[Path]:
    """Cgroups of harnesses that have ended, where these tests run: other workers have theirs."""
    own = Path("/proc/self/cgroup").read_text()
    found = [
        path
        for path in cgroups_named("edgebench-*")
        if all(name in own for name in path.parent.parts if name.startswith("edgebench-"))
    ]
    gone = [p for p in found if p.name not in own]
    return [p for p in gone if not Path("/proc", p.name.split("-")[1]).exists()]


@pytest.mark.quick
def test_a_sweep_records_every_trial_once_and_is_not_taken_up_again(
    scenario: Path, tmp_path: Path
) -> None:
    """Kills are results, nothing stays behind, and a second start makes a sweep of its own."""
    before = set(leftovers())
    done = call("run", scenario, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    lines = records(tmp_path)
    assert summary["trials"] == len(lines) == 6
    by_label = Counter((line["limits"]["label"], line["outcome"]) for line in lines)
    assert by_label == {("max", "ok"): 2, ("75%", "oom-killed"): 2, ("32M", "oom-killed"): 2}
    unlimited = next(line for line in lines if line["limits"]["label"] == "max")
    share = next(line for line in lines if line["limits"]["label"] == "75%")
    assert share["limit_bytes"] == pytest.approx(0.75 * unlimited["demand_bytes"], abs=4096)
    assert set(leftovers()) <= before
    assert call("run", scenario, folder=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("results/*/*/complete.json"))) == 2


@pytest.mark.quick
def test_a_second_start_beside_the_first_is_refused(scenario: Path, tmp_path: Path) -> None:
    about = {"fingerprint": load_scenario(scenario).fingerprint(), "points": [], "plan": []}
    with ResultsFolder.create(tmp_path / "results", "board", "tiny", "", about, {}) as first:
        options = SweepOptions(tmp_path / "results", "board")
        with pytest.raises(ResultsError, match="another sweep is writing"):
            run_sweep(load_scenario(scenario), options, Quiet())
        assert [*first.path.parent.iterdir()] == [first.path]
