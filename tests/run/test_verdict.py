"""Outcomes told from exits, counters and events."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.cgroups.interface import Counters
from edgebench.records import EndedIn
from edgebench.run.trial.outcome import SWAP_FILLED_LIMIT, judge_end
from edgebench.run.trial.process import ProcessEnd

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


def ended(returncode: int, timed_out: bool = False, stopped: bool = False) -> ProcessEnd:
    return ProcessEnd(returncode, timed_out, started_ns=0, wall_s=1.0, stopped=stopped)


@pytest.mark.parametrize(
    ("end", "kills", "expected"),
    [
        (ended(0), 0, ("ok", 0, None, None)),
        (ended(0), None, ("ok", 0, None, None)),
        (ended(1), 0, ("failed", 1, None, "last words")),
        # A signal, also where GNU time passed it on as 128 + n: neither 128 itself nor beyond all.
        (ended(-11), 0, ("failed", None, 11, "ended by signal 11 (Segmentation fault)")),
        (ended(139), 0, ("failed", 139, 11, "ended by signal 11 (Segmentation fault)")),
        (ended(137), 0, ("failed", 137, 9, "ended by signal 9 (Killed)")),
        (ended(128), 0, ("failed", 128, None, "last words")),
        (ended(129), 0, ("failed", 129, 1, "ended by signal 1 (Hangup)")),
        (ended(192), 0, ("failed", 192, 64, "ended by signal 64")),
        (ended(193), 0, ("failed", 193, None, "last words")),
        # Whatever the kernel killed makes the outcome.
        (ended(137), 1, ("oom-killed", 137, 9, "killed by the kernel")),
        (ended(-9), 1, ("oom-killed", None, 9, "killed by the kernel")),
        (ended(0), 1, ("oom-killed", 0, None, "the kernel killed 1 process of it; the command ")),
        (ended(3), 2, ("oom-killed", 3, None, "the kernel killed 2 processes of it; the command ")),
        (ended(-9, timed_out=True), 1, ("oom-killed", None, 9, "the kernel killed 1 process of ")),
        # The harness's own kill at the time limit, and of what never ends by itself.
        (ended(-9, timed_out=True), 0, ("timeout", None, 9, "ran past its time limit after 1.0 s")),
        (ended(-15, stopped=True), 0, ("ok", None, None, None)),
        (ended(-15, stopped=True), 1, ("oom-killed", None, 15, "killed by the kernel")),
    ],
)
def test_each_end_has_its_outcome(end: ProcessEnd, kills: int | None, expected: Any) -> None:
    """Outcome, exit code, signal and reason: a kill before a time limit, that before an exit."""
    verdict = judge_end(end, Counters(oom_kills=kills), [], "a\nlast words\n\n")
    outcome, exit_code, signal, reason = expected
    assert (verdict.outcome, verdict.exit_code, verdict.signal) == (outcome, exit_code, signal)
    assert (verdict.reason or "").startswith(reason or "")
    assert (verdict.reason is None) == (reason is None)


@pytest.mark.parametrize(
    ("span", "where"),
    [
        ({"phase": "init"}, "init"),
        ({"phase": "load", "network": "lenet"}, "load of lenet"),
        ({"phase": "load", "network": "n", "layer": 0, "name": "c"}, "load of n's layer 0 (c)"),
        ({"phase": "round", "layer": 3}, "round"),
    ],
)
def test_where_it_ended_is_as_much_as_is_known(span: dict[str, Any], where: str) -> None:
    events = [{"event": "start", "id": 1, **span}]
    verdict = judge_end(ended(-9), Counters(oom_kills=1), events, "")
    assert verdict.reason == f"killed by the kernel in {where}"


@pytest.mark.promise("An event of any shape costs a trial nothing but that event.")
def test_only_a_note_of_the_workload_is_its_own_word() -> None:
    events: list[dict[str, Any]] = [
        {"event": "note", "data": {"error": {"what": "first"}}},
        {"event": "note", "data": {"error": {"what": "last"}}},
        {"event": "note", "data": {"error": {"what": 7}}},
        {"event": "note", "data": {"error": {"what": None}}},
        *({"event": "note", "data": data} for data in ({"error": "text"}, {"error": None}, [], 5)),
        {"event": "note"},
        {"event": "start", "id": 1, "data": {"error": {"what": "no note"}}},
    ]
    assert judge_end(ended(1), Counters(), events, "printed").reason == "last"


@pytest.mark.parametrize(
    ("end", "kills", "filled", "reason", "signal"),
    [
        (ended(-9), 0, True, SWAP_FILLED_LIMIT, 9),
        (ended(-9, timed_out=True), 1, False, "", 9),
        (ended(-9, timed_out=True), 0, False, "ran past its time limit after 1.0 s", 9),
        (ended(137), 1, False, "killed by the kernel", 9),
    ],
)
def test_an_end_that_cut_a_layer_short_keeps_which(
    end: ProcessEnd, kills: int, filled: bool, reason: str, signal: int
) -> None:
    verdict = judge_end(end, Counters(oom_kills=kills), OPEN_LOAD, "", swap_filled_limit=filled)
    assert str(verdict.reason).startswith(reason)
    assert str(verdict.reason).endswith(" in load of alexnet's layer 16 (classifier.1)")
    assert verdict.ended_in == EndedIn("load", "alexnet", "classifier.1")
    assert verdict.signal == signal
    assert verdict.exit_code == (137 if end.returncode == 137 else None)


def test_a_full_accelerator_is_an_outcome_of_its_own() -> None:
    note = {"event": "note", "data": {"error": {"outcome": "accelerator-oom", "what": "full"}}}
    verdict = judge_end(ended(1), Counters(), [note], "")
    assert (verdict.outcome, verdict.reason, verdict.exit_code) == ("accelerator-oom", "full", 1)
    assert judge_end(ended(3), Counters(), [], " \n").reason == "exit code 3"


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
    end = ended(-signal if signal else 1)
    assert judge_end(end, Counters(oom_kills=0), [], printed).reason == reason
