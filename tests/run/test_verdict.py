"""Outcomes told from exits, counters and events."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.cgroups.counters import Counters
from edgebench.records import EndedIn
from edgebench.run.outcome import RAN_OUT, trial_end
from edgebench.run.process import ProcessEnd

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


def ended(returncode: int, timed_out: bool = False) -> ProcessEnd:
    """A process that ended so after one second."""
    return ProcessEnd(returncode, timed_out, started_ns=0, wall_s=1.0)


@pytest.mark.parametrize(
    ("returncode", "kills", "words"),
    [
        (0, 1, "the kernel killed 1 process of it; the command itself ended with 0"),
        (3, 2, "the kernel killed 2 processes of it; the command itself ended with 3"),
    ],
)
def test_a_killed_child_is_a_kill(returncode: int, kills: int, words: str) -> None:
    """Whatever the kernel killed makes the outcome; how the first process ended stays beside."""
    verdict = trial_end(ended(returncode), Counters(oom_kills=kills), [], "")
    assert (verdict.outcome, verdict.reason) == ("oom-killed", words)
    assert verdict.exit_code == returncode


@pytest.mark.parametrize("returncode", [137, -9])
def test_a_kernel_kill_names_the_layer(returncode: int) -> None:
    """An OOM kill is its own outcome, and says in which phase and layer it struck."""
    verdict = trial_end(ended(returncode), Counters(oom_kills=1), OPEN_LOAD, "")
    assert verdict.outcome == "oom-killed"
    assert verdict.signal == 9
    assert "load of alexnet's layer 16 (classifier.1)" in str(verdict.reason)


def test_killed_by_someone_else_is_failed() -> None:
    """SIGKILL without an OOM kill by the kernel is not called one."""
    verdict = trial_end(ended(137), Counters(oom_kills=0), [], "")
    assert verdict.outcome == "failed"
    assert "signal 9" in str(verdict.reason)


def test_the_workloads_own_words_win_over_its_output() -> None:
    """An error the worker worded is the reason; else the last printed line is."""
    note = {"event": "note", "data": {"error": {"what": "no such checkpoint"}}}
    assert trial_end(ended(1), Counters(), [note], "Traceback\n").reason == "no such checkpoint"
    assert trial_end(ended(1), Counters(), [], "a\nValueError: b\n\n").reason == "ValueError: b"


def test_a_time_limit_is_told_from_a_kill() -> None:
    """The harness's own kill at the time limit is a timeout, unless the kernel killed before."""
    verdict = trial_end(ended(-9, timed_out=True), Counters(oom_kills=0), OPEN_LOAD, "")
    assert verdict.outcome == "timeout"
    killed = trial_end(ended(-9, timed_out=True), Counters(oom_kills=1), OPEN_LOAD, "")
    assert killed.outcome == "oom-killed"
    assert "past its time limit after 1.0 s in load" in str(killed.reason)


@pytest.mark.parametrize(
    ("span", "where"),
    [
        ({"phase": "init"}, "init"),
        ({"phase": "load", "network": "lenet"}, "load of lenet"),
        (
            {"phase": "load", "network": "lenet", "layer": 0, "name": "c"},
            "load of lenet's layer 0 (c)",
        ),
        ({"phase": "round", "layer": 3}, "round"),
    ],
)
def test_where_it_ended_is_as_much_as_is_known(span: dict[str, Any], where: str) -> None:
    """Layer and network are left out where there are none; the first layer is one."""
    events = [{"event": "start", "id": 1, **span}]
    verdict = trial_end(ended(-9), Counters(oom_kills=1), events, "")
    assert verdict.reason == f"killed by the kernel in {where}"


@pytest.mark.parametrize(("returncode", "signal"), [(128, None), (129, 1), (192, 64), (193, None)])
def test_exit_codes_that_a_signal_makes(returncode: int, signal: int | None) -> None:
    """128 and the signal's number; neither 128 itself nor what lies beyond all signals."""
    assert trial_end(ended(returncode), Counters(), [], "").signal == signal


def test_only_a_note_of_the_workload_is_its_own_word() -> None:
    """The last one counts; what is no sentence, and data of other events, are passed over."""
    events: list[dict[str, Any]] = [
        {"event": "note", "data": {"error": {"what": "first"}}},
        {"event": "note", "data": {"error": {"what": "last"}}},
        {"event": "note", "data": {"error": {"what": 7}}},
        {"event": "note", "data": {"error": "text"}},
        {"event": "note"},
        {"event": "start", "id": 1, "data": {"error": {"what": "no note"}}},
    ]
    assert trial_end(ended(1), Counters(), events, "printed").reason == "last"


@pytest.mark.promise("An event of any shape costs a trial nothing but that event.")
@pytest.mark.parametrize("data", [None, [], 5, {"error": None}, {"error": {"what": None}}])
def test_a_note_of_any_shape_is_passed_over(data: object) -> None:
    """The words are those of the note before it."""
    notes: list[dict[str, Any]] = [{"event": "note", "data": {"error": {"what": "no space"}}}]
    verdict = trial_end(
        ended(3), Counters(oom_kills=0), [*notes, {"event": "note", "data": data}], ""
    )
    assert (verdict.outcome, verdict.reason) == ("failed", "no space")


@pytest.mark.parametrize(
    ("end", "kills", "ran_out", "reason", "signal"),
    [
        (ended(-9), 0, True, RAN_OUT, 9),
        (ended(-9, timed_out=True), 1, False, "", 9),
        (ended(-9, timed_out=True), 0, False, "ran past its time limit after 1.0 s", 9),
        (ended(137), 1, False, "killed by the kernel", 9),
    ],
)
def test_an_end_that_cut_a_layer_short_keeps_which(
    end: ProcessEnd, kills: int, ran_out: bool, reason: str, signal: int
) -> None:
    """In words, and as phase, network and layer for who reads on; with the signal that ended it."""
    verdict = trial_end(end, Counters(oom_kills=kills), OPEN_LOAD, "", ran_out=ran_out)
    assert str(verdict.reason).startswith(reason)
    assert str(verdict.reason).endswith(" in load of alexnet's layer 16 (classifier.1)")
    assert verdict.ended_in == EndedIn("load", "alexnet", "classifier.1")
    assert verdict.signal == signal
    assert verdict.exit_code == (137 if end.returncode == 137 else None)


def test_a_program_that_was_stopped_in_time_is_ok() -> None:
    """One that never ends by itself: how it was ended is no result of its own."""
    stopped = ProcessEnd(-9, timed_out=False, started_ns=0, wall_s=1.0, stopped=True)
    verdict = trial_end(stopped, Counters(oom_kills=0), [], "")
    assert (verdict.outcome, verdict.reason, verdict.exit_code, verdict.signal) == (
        *("ok", None),
        *(None, None),
    )
    fine = trial_end(ended(0), Counters(oom_kills=0), OPEN_LOAD, "")
    assert (fine.outcome, fine.reason, fine.exit_code) == ("ok", None, 0)


def test_a_full_accelerator_is_an_outcome_of_its_own() -> None:
    """Where the worker's error says so; without a word of its own, its last line or its exit."""
    note = {"event": "note", "data": {"error": {"outcome": "accelerator-oom", "what": "full"}}}
    verdict = trial_end(ended(1), Counters(), [note], "")
    assert (verdict.outcome, verdict.reason, verdict.exit_code) == ("accelerator-oom", "full", 1)
    assert trial_end(ended(3), Counters(), [], " \n").reason == "exit code 3"
    assert trial_end(ended(-11), Counters(), [], "text").reason == (
        "ended by signal 11 (Segmentation fault)"
    )


@pytest.mark.parametrize(
    ("printed", "signal", "reason"),
    [
        (
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n'
            "\tat Fill.main(Fill.java:7)\n",
            None,
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
        ),
        (
            "<--- Last few GCs --->\nFATAL ERROR: Reached heap limit Allocation failed - "
            "JavaScript heap out of memory\n----- Native stack trace -----\n 1: 0xb3 node::OOM\n",
            6,
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        ),
        (
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  x\n",
            6,
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ),
        ("ValueError: no such file\nbye\n", None, "ValueError: no such file"),
        ("warming up\nstopped at 3\n", None, "stopped at 3"),
        ("assertion\n", 6, "ended by signal 6 (Aborted)"),
    ],
)
def test_the_line_with_the_error_is_the_reason(printed: str, signal: int | None, reason: str):
    """Not the last line, which is a frame of a stack or a good-bye."""
    code = -signal if signal else 1
    ended = ProcessEnd(code, timed_out=False, started_ns=0, wall_s=1.0)
    assert trial_end(ended, Counters(oom_kills=0), [], printed).reason == reason
