"""Outcomes told from exits, counters and events."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.cgroups.interface import Counters
from edgebench.process import Ended
from edgebench.trial.verdict import judge

OPEN_LOAD: list[dict[str, Any]] = [
    {"event": "start", "id": 1, "phase": "import", "round": None, "network": None, "layer": None},
    {"event": "end", "id": 1},
    {
        "event": "start",
        "id": 2,
        "phase": "load",
        "round": 0,
        "network": "alexnet",
        "layer": 16,
        "name": "classifier.1",
    },
]


def ended(returncode: int, timed_out: bool = False) -> Ended:
    """A process that ended so after one second."""
    return Ended(returncode, timed_out, started_ns=0, wall_s=1.0)


def test_exit_zero_is_ok_even_if_a_child_was_killed() -> None:
    """A workload that lost a child and still succeeded has succeeded."""
    assert judge(ended(0), Counters(oom_kills=1), [], "").outcome == "ok"


@pytest.mark.parametrize("returncode", [137, -9])
def test_a_kernel_kill_names_the_layer(returncode: int) -> None:
    """An OOM kill is its own outcome, and says in which phase and layer it struck."""
    verdict = judge(ended(returncode), Counters(oom_kills=1), OPEN_LOAD, "")
    assert verdict.outcome == "oom-killed"
    assert verdict.signal == 9
    assert "load of alexnet's layer 16 (classifier.1)" in str(verdict.reason)


def test_killed_by_someone_else_is_failed() -> None:
    """SIGKILL without an OOM kill by the kernel is not called one."""
    verdict = judge(ended(137), Counters(oom_kills=0), [], "")
    assert verdict.outcome == "failed"
    assert "signal 9" in str(verdict.reason)


def test_the_workloads_own_words_win_over_its_output() -> None:
    """An error the worker worded is the reason; else the last printed line is."""
    note = {"event": "note", "data": {"error": {"what": "no such checkpoint"}}}
    assert judge(ended(1), Counters(), [note], "Traceback\n").reason == "no such checkpoint"
    assert judge(ended(1), Counters(), [], "a\nValueError: b\n\n").reason == "ValueError: b"


def test_a_time_limit_is_told_from_a_kill() -> None:
    """The harness's own kill at the time limit is a timeout, whatever the counters say."""
    verdict = judge(ended(-9, timed_out=True), Counters(oom_kills=1), OPEN_LOAD, "")
    assert verdict.outcome == "timeout"
