"""What a worker had recorded and not written when it ended is in the trial's events too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgebench.results.live_file import EventTail
from edgebench.run.trial.process import WorkloadProcess
from edgebench.spans import finished_spans, unfinished_spans
from edgebench.workloads.events import RecordBuffer, SpanPlace, Spent, lines_of
from tests.chance import given_time
from tests.own_path import python_path

#: A recorder as a worker has it, and a round under way with one layer done and one begun.
RECORD = """
import os, time
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder
events, records = int(os.environ["EVENTS"]), int(os.environ["RECORDS"])
recorder = Recorder({**NO_DESCRIPTORS, "events": events, "records": records})
recorder.note(begun=True)
recorder.span("round", round=0).__enter__()
with recorder.span("load", round=0, network="alexnet", layer=15, name="features.12"):
    pass
recorder.span("load", round=0, network="alexnet", layer=16, name="classifier.1").__enter__()
"""


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WorkloadProcess]:
    """A fresh watched process with a copy of its events, closed afterwards."""
    watched = WorkloadProcess(events_copy=tmp_path / "events.jsonl")
    yield watched
    watched.close()


def run(watched: WorkloadProcess, code: str) -> int:
    """Run Python code as the workload; its exit."""
    env = {**os.environ, "PYTHONPATH": python_path()}
    env |= {"EVENTS": str(watched.events.write_fd), "RECORDS": str(watched.records.fd)}
    ended = watched.run(
        [sys.executable, "-c", code],
        env=env,
        pass_fds=(watched.events.write_fd, watched.records.fd),
        timeout_s=60,
        end=lambda _: None,
    )
    return ended.returncode


def about(events: list[dict[str, Any]]) -> tuple[list[str | None], list[str | None]]:
    """The names of spans that ended, and of those that did not."""
    return (
        [span.name for span in finished_spans(events)],
        [start["name"] for start in unfinished_spans(events)],
    )


@pytest.mark.process
def test_a_worker_killed_in_a_round_loses_no_span(watched: WorkloadProcess) -> None:
    """SIGKILL leaves it no moment to write: the layer that it was in is known, and those before."""
    assert run(watched, RECORD + "os.kill(os.getpid(), 9)") == -9
    events, bad = watched.event_list()
    assert bad == 0
    assert about(events) == (["features.12"], [None, "classifier.1"])


@pytest.mark.process
def test_a_worker_killed_while_it_writes_repeats_nothing(watched: WorkloadProcess) -> None:
    """Lines that were written and are still pending are there once; a torn one is whole."""
    tear = (
        "whole = b''.join(recorder._records.chunks())\n"
        "os.write(events, whole[: len(whole) // 2])\nos.kill(os.getpid(), 9)"
    )
    assert run(watched, RECORD + tear) == -9
    events, bad = watched.event_list()
    assert bad == 1
    assert about(events) == (["features.12"], [None, "classifier.1"])
    assert len(events) == 1 + 4


@pytest.mark.process
def test_who_watches_sees_a_long_round_under_way(tmp_path: Path) -> None:
    """The open layer shows before the worker writes; what it writes later shows nothing twice."""

    def check(held_s: float) -> None:
        file = tmp_path / f"{held_s}.jsonl"
        tail, seen = EventTail(file, 0), []

        def look(_: bytes) -> None:
            tail.poll()
            seen.append([span.name for span in tail.open])

        with closing(WorkloadProcess(look, events_copy=file)) as watched:
            wait = f"time.sleep({5 * held_s}); print('x', flush=True); time.sleep({held_s})\n"
            again = f"recorder.flush(); time.sleep({held_s}); print('x', flush=True)"
            assert run(watched, RECORD + wait + again) == 0
            tail.poll()
            assert seen[0] == seen[-1] == [None, "classifier.1"]
            assert [span.span.name for span in tail.ended] == ["features.12"]
            assert len(watched.event_list()[0]) == 1 + 4

    given_time(check, (0.2, 1.0, 4.0))


def test_a_damaged_record_is_the_end_of_the_lines() -> None:
    """A worker may write anything there: what was before it is read, and reading ends."""
    made = RecordBuffer(None)
    place, spent = SpanPlace("load", None, None, 3, "x" * 9000), Spent(1, 2, 3, 4)
    made.start(5, place, 0, (None, 7), 11)
    made.end(5, 12, (8, None), None, spent)
    whole = b"".join(made.chunks())
    assert len(whole.splitlines()) == 2
    assert b'"usage_bytes": null, "swap_bytes": 7' in whole
    assert b'"peak_bytes": null' in whole
    memory = bytes(made._memory[: made._end])
    for broken in (memory[:-1], memory[: -11 * 8] + b"\xff" * 88, memory[: -11 * 8] + bytes(88)):
        assert len(list(lines_of(broken))) == 1
    assert list(lines_of(b"")) == []


@pytest.mark.process
@pytest.mark.promise("A worker can't make the harness crash by cutting the memory that they share.")
def test_the_memory_can_not_be_cut_short(watched: WorkloadProcess) -> None:
    """Less of it would end the harness with SIGBUS; neither can it be made larger."""
    cut = (
        "import os\nfor size in (0, 1 << 30):\n"
        " try: os.ftruncate(int(os.environ['RECORDS']), size)\n"
        " except PermissionError: pass\n else: os._exit(3)"
    )
    assert run(watched, cut) == 0
    assert watched.records.lines() == []
