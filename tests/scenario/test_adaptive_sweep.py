"""Adaptive sweeps in real cgroups: rounds are planned, recorded, and taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.own_path import python_path

pytestmark = pytest.mark.own_cgroup

SCENARIO = """
schema = 1
name = "tiny"
seed = 3
repeats = 3
timeout = "20s"
[workload]
kind = "command"
command = ["{python}", "-I", "-S", "-c", "{code}"]
[limits]
memory = {{from = "160%", to = "40%", steps = 25}}
plan = "adaptive"
target_error = 0.05
swap = "none"
"""


CODE = "b = bytearray(50 << 20); b[::4096] = b'x' * 12800; import time; time.sleep(0.1)"


def edgebench(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as a person would."""
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """25 candidates of a program that is killed a little below its demand."""
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO.format(python=sys.executable, code=CODE))
    return path


def lines(root: Path) -> list[dict[str, Any]]:
    """All records of the one sweep below this folder."""
    (file,) = root.glob("results/*/*/trials.jsonl")
    # What follows the last whole line is being written.
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


def plan(root: Path) -> list[dict[str, Any]]:
    """The plan as the folder keeps it."""
    (file,) = root.glob("results/*/*/resolved.json")
    return json.loads(file.read_text())["plan"]


def test_it_finds_where_a_program_is_killed(scenario: Path, tmp_path: Path):
    """Neighbouring candidates end up on both sides of the edge, with a third of the trials."""
    done = edgebench("run", str(scenario), "--json", cwd=tmp_path)
    made = lines(tmp_path)
    assert json.loads(done.stdout)["trials"] == len(made) == len(plan(tmp_path)) <= 26
    killed = [r["limit_bytes"] for r in made if r["outcome"] == "oom-killed"]
    finished = [r["limit_bytes"] for r in made if r["outcome"] == "ok" and r["limit_bytes"]]
    assert 1 < min(finished) / max(killed) < 1.13


def test_check_says_how_many_at_most(scenario: Path, tmp_path: Path):
    """Before it runs nobody knows how many trials it takes; the most is told."""
    told = edgebench("check", str(scenario), cwd=tmp_path).stdout
    assert "at most 26; fewer if every limit's error falls below 5.0% earlier" in told


def test_stopped_it_goes_on_in_the_round_it_was_in(scenario: Path, tmp_path: Path):
    """Killed in the middle and started again: no trial twice, and the plan in the folder whole."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgebench", "run", str(scenario)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if list(tmp_path.glob("results/*/*/trials.jsonl")) and len(lines(tmp_path)) >= 3:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    before = plan(tmp_path)
    edgebench("run", str(scenario), cwd=tmp_path)
    trials = [line["trial"] for line in lines(tmp_path)]
    assert trials == [one["trial"] for one in plan(tmp_path)]
    assert plan(tmp_path)[: len(before)] == before
