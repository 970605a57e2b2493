"""Whole sweeps in real cgroups: complete, resumable after a kill at any moment, nothing left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.chance import cgroups_named
from tests.own_path import python_path

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


def edgebench(*words: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the program as a person would."""
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario of six trials that take some 50 ms each."""
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO.format(python=sys.executable))
    return path


def records(root: Path) -> list[dict[str, Any]]:
    """All lines of the one sweep below this folder."""
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


def stopped_anywhere(
    words: Sequence[str], folder: Path, stop: signal.Signals, most_s: float, sweeps: int = 1
) -> None:
    """Type it again and again, stopped after up to so many seconds, until so many sweeps end.

    The last time it is left alone.
    """
    moments = random.Random(int(stop))
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-m", "edgebench", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_the_program(process)
        time.sleep(moments.uniform(0, most_s))
        process.send_signal(stop)
        # Only what can be caught ends in words.
        said = {128 + stop} - {128 + signal.SIGKILL}
        assert process.wait(200) in {0, -stop, *said}
        if len(list(folder.glob("results/*/*/complete.json"))) == sweeps:
            return
    edgebench(*words, cwd=folder)


def wait_for_the_program(process: subprocess.Popen[bytes]) -> None:
    """Until it heeds SIGTERM: before that Python is starting, which ends in its own ways."""
    heeded = 1 << (signal.SIGTERM - 1)
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) & heeded:
            return
        time.sleep(0.01)


@pytest.mark.quick
def test_a_sweep_records_every_trial_once_and_is_not_taken_up_again(
    scenario: Path, tmp_path: Path
) -> None:
    """Kills are results, nothing stays behind, and a second start makes a sweep of its own."""
    before = set(leftovers())
    done = edgebench("run", str(scenario), "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    lines = records(tmp_path)
    assert summary["trials"] == len(lines) == 6
    by_label = Counter((line["limits"]["label"], line["outcome"]) for line in lines)
    assert by_label == {("max", "ok"): 2, ("75%", "oom-killed"): 2, ("32M", "oom-killed"): 2}
    unlimited = next(line for line in lines if line["limits"]["label"] == "max")
    share = next(line for line in lines if line["limits"]["label"] == "75%")
    assert share["limit_bytes"] == pytest.approx(0.75 * unlimited["demand_bytes"], abs=4096)
    assert set(leftovers()) <= before
    edgebench("run", str(scenario), cwd=tmp_path)
    assert len(list(tmp_path.glob("results/*/*/complete.json"))) == 2


@pytest.mark.promise("The same after kills at random moments.")
@pytest.mark.parametrize(
    "stop",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_stopped_anywhere_the_next_start_completes_it(
    scenario: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    """Killed at random moments and started again, the set is complete and free of duplicates."""
    before = set(leftovers())
    stopped_anywhere(["run", str(scenario)], tmp_path, stop, 1.4)
    lines = records(tmp_path)
    assert sorted(line["trial"] for line in lines) == sorted({line["trial"] for line in lines})
    assert len(lines) == 6
    edgebench("measure", "--", "true", cwd=tmp_path)
    assert set(leftovers()) <= before


def test_a_second_start_beside_the_first_is_refused(scenario: Path, tmp_path: Path) -> None:
    """Two harnesses never write to one results folder."""
    slow = "import time; time.sleep(15); b = bytearray"
    scenario.write_text(scenario.read_text().replace("b = bytearray", slow))
    first = subprocess.Popen(
        [sys.executable, "-m", "edgebench", "run", str(scenario)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 200
        while not list(tmp_path.glob("results/*/*/trials.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        second = edgebench("run", str(scenario), cwd=tmp_path, check=False)
        assert second.returncode == 1
        assert "Traceback" not in second.stderr
    finally:
        first.terminate()
        first.wait(200)
