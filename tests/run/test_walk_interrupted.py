"""Walks that are stopped midway: nothing of them is kept, and the next start walks anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgebench.results.live_file import EVENTS
from edgebench.results.results import load
from tests.chance import cgroups_named
from tests.own_path import python_path

pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch, pytest.mark.root, pytest.mark.swap]

#: Steps of some milliseconds, and limits enough for a walk of some seconds.
SCENARIO = """
schema = 1
name = "stopped"
seed = 3
repeats = 1
timeout = "2m"
[workload]
kind = "training"
network = "mlp"
width = 1024
steps = 5
[limits]
memory = ["150%", "130%", "120%", "110%", "80%"]
swap = "128M"
plan = "walk"
starts = ["150%"]
"""
_ROUNDS = 30


def started(folder: Path) -> subprocess.Popen[bytes]:
    """The sweep, as a person would start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgebench", "run", "stopped.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def is_walking(folder: Path) -> bool:
    """Whether a walk is under way, some rounds after its start."""
    for live in folder.glob("results/*/*/live.json"):
        try:
            trial = json.loads(live.read_text())
            resolved = json.loads(live.with_name("resolved.json").read_text())
            events = Path(trial["folder"], EVENTS).read_text()
        except (OSError, ValueError):
            # Being replaced, or gone with the sweep.
            return False
        walks = {one["trial"] for one in resolved["plan"] if one["walk"]}
        return trial["trial"] in walks and events.count('"data"') > 2 * _ROUNDS
    return False


def test_a_killed_walk_is_made_whole_by_the_next_start(tmp_path: Path) -> None:
    """Of the stopped one no record is there; of the next one all are, once, and no cgroup stays."""
    (tmp_path / "stopped.toml").write_text(SCENARIO)
    first = started(tmp_path)
    deadline = time.monotonic() + 200
    while not is_walking(tmp_path) and time.monotonic() < deadline:
        assert first.poll() is None, "the sweep ended before its walk was seen"
        time.sleep(0.005)
    first.kill()
    first.wait(200)
    (lines,) = tmp_path.glob("results/*/*/trials.jsonl")
    assert not [line for line in lines.read_text().splitlines() if json.loads(line).get("walk")]
    assert started(tmp_path).wait(600) == 0
    (sweep,) = load(tmp_path / "results").sweeps
    assert sweep.complete
    both = [*sweep.records, *sweep.upward_records]
    steps = sorted(record.walk.step for record in both if record.walk)
    assert steps == list(range(len(steps)))
    assert len(steps) > 2
    assert len({record.trial for record in both}) == len(both)
    assert not cgroups_named(f"edgebench-{first.pid}-*")
