"""`edgebench.measure`: the verb as a Python function, for commands and functions."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import edgebench
from edgebench.errors import UsageError, WorkloadError
from edgebench.run.trial.command import asked_limits
from tests.chance import given_time

MIB = 1 << 20
ALLOCATE = "import sys, time; area = bytearray(int(sys.argv[1]) << 20); time.sleep(0.2)"


def allocate(mebibytes: int, held_s: float = 0.2) -> None:
    area = bytearray(mebibytes * MIB)
    time.sleep(held_s)
    area.clear()


@pytest.mark.own_cgroup
def test_a_command_is_measured(capsys: pytest.CaptureFixture[str]):
    words = [sys.executable, "-c", "print('words'); area = bytearray(60 << 20)"]
    record = edgebench.measure(words, memory="300M")
    assert record.outcome == "ok"
    assert record.limit_bytes == 300 * MIB
    assert 60 * MIB < record.peak_bytes < 300 * MIB
    assert "words" in capsys.readouterr().err
    assert edgebench.measure("true ''", quiet=True).settings["command"] == ["true", ""]


@pytest.mark.own_cgroup
def test_a_function_is_measured_in_a_process_of_its_own():
    ballast = bytearray(200 * MIB)

    def check(held_s: float) -> None:
        record = edgebench.measure(functools.partial(allocate, 50, held_s), quiet=True)
        assert record.outcome == "ok"
        assert 50 * MIB < record.demand_bytes < 150 * MIB < len(ballast)
        assert record.settings["function"].endswith("test_python_functions.allocate")

    given_time(check)


@pytest.mark.own_cgroup
def test_a_kill_and_a_failure_are_outcomes():
    killed = edgebench.measure(lambda: bytearray(200 * MIB), memory=80 * MIB, quiet=True)
    assert (killed.outcome, killed.limit_bytes) == ("oom-killed", 80 * MIB)
    failed = edgebench.measure(lambda: {}["lost"], quiet=True)
    assert (failed.outcome, failed.reason) == ("failed", "KeyError: 'lost'")


def test_a_storage_that_is_none_is_refused():
    with pytest.raises(UsageError, match="'100' is not a storage speed"):
        edgebench.measure("true", storage="100")
    with pytest.raises(UsageError, match="is not a speed"):
        edgebench.minimum("true", storage="read=100")
    asked = asked_limits("75%", storage="read_iops=2000,read=100MB/s")
    assert asked.unlimited.storage == asked.setting.storage == "read=100MB/s,read_iops=2000"


@pytest.mark.own_cgroup
def test_a_share_is_of_the_own_demand():
    record = edgebench.measure([sys.executable, "-c", ALLOCATE, "100"], memory="70%", quiet=True)
    assert record.outcome == "oom-killed"
    assert 70 * MIB < record.limit_bytes < 100 * MIB
    with pytest.raises(WorkloadError, match="demand is unknown"):
        edgebench.measure([sys.executable, "-c", "raise SystemExit(1)"], memory="70%", quiet=True)


@pytest.mark.parametrize(
    ("workload", "limits", "says"),
    [
        ("", {}, "no command"),
        ("true", {"memory": "much"}, "not a size"),
        ("true", {"cores": 0}, "cores=0"),
        ("true", {"cpu_quota": -1.0}, "cpu_quota"),
        ("true", {"swap": "fast"}, "not a swap"),
        ("true", {"timeout": "soon"}, "not a duration"),
    ],
)
def test_what_is_not_possible_is_said(workload: str, limits: dict[str, object], says: str):
    with pytest.raises(UsageError, match=says):
        edgebench.measure(workload, **limits)


@pytest.mark.own_cgroup
def test_what_cant_be_sent_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with (tmp_path / "file").open("w") as file, pytest.raises(UsageError, match="another process"):
        edgebench.measure(functools.partial(print, file=file))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError) as caught:
        edgebench.measure(lambda: None)
    assert "[notebook]" in str(caught.value)
    assert edgebench.measure(functools.partial(json.dumps, {}), quiet=True).outcome == "ok"


@pytest.mark.own_cgroup
def test_the_least_memory_of_a_function(tmp_path: Path):
    allocating = functools.partial(allocate, 120)
    found = edgebench.minimum(allocating, confirm=0, results=tmp_path)
    assert 120 * MIB < found.needs_bytes < 200 * MIB
    assert found.name.endswith("allocate")
    assert found.answer.rows[-1].ended == "killed"
    assert "allocate needs 1" in repr(found)
    assert (found.folder / "trials.jsonl").is_file()


@pytest.mark.quick
@pytest.mark.own_cgroup
def test_whether_a_command_fits(tmp_path: Path):
    words = [sys.executable, "-c", ALLOCATE, "100"]
    found = edgebench.minimum(words, within="60M", confirm=0, results=tmp_path)
    assert found.fits is False


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "name a command, a function or a network"),
        ({"workload": "true", "network": "lenet"}, "name a command, a function or a network"),
        ({"workload": ""}, "the command is empty"),
        ({"network": "lenet", "budget": "1m"}, "budget is for programs only"),
    ],
)
def test_what_a_search_cant_have_is_said(given: dict[str, str], says: str):
    with pytest.raises(UsageError, match=says):
        edgebench.minimum(**given)


@pytest.mark.process
def test_importing_the_package_stays_free():
    code = "import edgebench, sys; print(sorted(n for n in sys.modules if 'edgebench' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "edgebench.run" not in done.stdout
