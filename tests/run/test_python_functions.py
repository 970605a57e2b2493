"""`edgebench.measure` and `edgebench.minimum`: the verbs as Python functions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import edgebench
from edgebench.errors import UsageError, WorkloadError
from edgebench.run.trial.command import asked_limits

MIB = 1 << 20
ALLOCATE = "import sys, time; area = bytearray(int(sys.argv[1]) << 20); time.sleep(0.2)"


@pytest.mark.own_cgroup
def test_a_command_is_measured(capsys: pytest.CaptureFixture[str]):
    words = [sys.executable, "-c", "print('words'); area = bytearray(60 << 20)"]
    record = edgebench.measure(words, memory="300M")
    assert record.outcome == "ok"
    assert record.limit_bytes == 300 * MIB
    assert 60 * MIB < record.peak_bytes < 300 * MIB
    assert "words" in capsys.readouterr().err
    assert edgebench.measure("true ''", quiet=True).settings["command"] == ["true", ""]


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
        ("", {}, "the command is empty"),
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
def test_the_least_memory_of_a_command(tmp_path: Path):
    words = [sys.executable, "-c", ALLOCATE, "120"]
    found = edgebench.minimum(words, confirm=0, results=tmp_path)
    assert 120 * MIB < found.needs_bytes < 200 * MIB
    assert found.answer.rows[-1].ended == "killed"
    assert " needs 1" in repr(found)
    assert (found.folder / "trials.jsonl").is_file()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "name a command or a network"),
        ({"workload": "true", "network": "lenet"}, "name a command or a network"),
        ({"workload": ""}, "the command is empty"),
        ({"network": "lenet", "budget": "1m"}, "budget is for programs only"),
    ],
)
def test_what_a_search_cant_have_is_said(given: dict[str, str], says: str):
    with pytest.raises(UsageError, match=says):
        edgebench.minimum(**given)
