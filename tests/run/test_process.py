"""The workload's process seen from outside: drained, capped, timed out; its last events kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgebench.results.live_file import EventTail
from edgebench.run.trial.process import (
    OUTPUT_CAP_BYTES,
    Pipe,
    ProcessEnd,
    WorkloadProcess,
)
from edgebench.spans import finished_spans, unfinished_spans
from edgebench.workloads.events import RecordBuffer, SpanPlace, Spent, lines_of
from tests.chance import given_time
from tests.own_path import python_path


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WorkloadProcess]:
    with closing(WorkloadProcess(events_copy=tmp_path / "events.jsonl")) as watched:
        yield watched


def run(watched: WorkloadProcess, code: str, timeout_s: float = 60) -> ProcessEnd:
    """Run Python code as the workload; its descriptors are in EVENTS and RECORDS."""
    fds = watched.events.write_fd, watched.records.fd
    env = {**os.environ, "PYTHONPATH": python_path()}
    return watched.run(
        [sys.executable, "-c", "import os, sys, time\n" + code],
        env=env | {"EVENTS": str(fds[0]), "RECORDS": str(fds[1])},
        pass_fds=fds,
        timeout_s=timeout_s,
        end=lambda _: None,
    )


@pytest.mark.process
@pytest.mark.quick
def test_exit_code_and_output_are_kept(watched: WorkloadProcess) -> None:
    ended = run(watched, "print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert ended.returncode == 7
    assert not ended.timed_out
    assert sorted(watched.output_text().split()) == ["err", "out"]


@pytest.mark.process
@pytest.mark.quick
def test_a_workload_that_hangs_is_killed(watched: WorkloadProcess) -> None:
    """The time limit holds even for a process that ignores SIGTERM."""
    ended = run(
        watched,
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)",
        timeout_s=0.3,
    )
    assert (ended.timed_out, ended.returncode) == (True, -9)
    assert ended.wall_s >= 0.3


@pytest.mark.process
@pytest.mark.quick
@pytest.mark.promise("The output kept of a workload is limited.")
def test_output_is_capped(watched: WorkloadProcess) -> None:
    """A workload that prints without end neither fills memory nor blocks; the loss is told."""
    more = 5 * OUTPUT_CAP_BYTES
    ended = run(watched, f"print('x' * 9)\nfor _ in range({more // 4096}): print('y' * 4095)")
    assert ended.returncode == 0
    assert len(watched.output.data) == OUTPUT_CAP_BYTES
    assert f"{more + 10 - OUTPUT_CAP_BYTES} more bytes dropped" in watched.output_text()


@pytest.mark.process
def test_events_after_a_pause_arrive_whole(watched: WorkloadProcess) -> None:
    """Events that nearly fill the pipe while it is looked at seldom are all there, in order."""
    ended = run(
        watched,
        "fd = int(os.environ['EVENTS'])\n"
        "time.sleep(0.8)\n"
        'lines = [b\'{"event":"note","t_ns":%d,"data":{}}\\n\' % i for i in range(20000)]\n'
        "data = b''.join(lines)\n"
        "assert os.write(fd, data) == len(data)",
    )
    assert ended.returncode == 0, watched.output_text()
    assert watched.events.is_enlarged
    events, bad = watched.event_list()
    assert [event["t_ns"] for event in events] == list(range(20000))
    assert bad == 0


@pytest.mark.process
@pytest.mark.quick
def test_garbage_among_events_is_counted_and_left_out(watched: WorkloadProcess) -> None:
    """A worker that writes garbage, or is killed in the middle of a line, spoils nothing else."""
    run(
        watched,
        "fd = int(os.environ['EVENTS'])\n"
        "os.write(fd, b'\\xff\\x00garbage\\n[1]\\n')\n"
        'os.write(fd, b\'{"event":5}\\n{"event":"note"}\\n{"event":"st\')',
    )
    events, bad = watched.event_list()
    assert events == [{"event": "note"}]
    assert bad == 4


@pytest.mark.process
def test_a_workload_that_closes_its_descriptors_is_waited_for(watched: WorkloadProcess) -> None:
    ended = run(watched, "os.closerange(1, 64); time.sleep(0.4); os._exit(3)")
    assert ended.returncode == 3
    assert ended.wall_s >= 0.4


@pytest.mark.promise("Events without end cost the harness a bounded amount of memory.")
@pytest.mark.promise("A trial whose events have no end is recorded, with how many were dropped.")
def test_only_so_many_events_are_kept() -> None:
    """Short lines become objects many times their size: values count too; what is lost is told."""
    pipe = Pipe(1 << 20, most_values=100)
    line = b'{"event":"note","data":{}}\n'
    try:
        for _ in range(30):
            pipe.add(line)
        assert pipe.data == line * 14
        assert (pipe.dropped_lines, pipe.dropped_bytes) == (16, 16 * len(line))
        pipe.add(b"\n")
        assert pipe.dropped_lines == 17
    finally:
        pipe.close()


def test_what_was_read_makes_room() -> None:
    """Values that were given up count no more; what tells of a whole trial stays."""
    pipe = Pipe(1 << 20, most_values=100)
    line, whole = b'{"event":"note","data":{}}\n', b'{"event": "accelerator"}\n'
    try:
        pipe.add(line + whole + 9 * line)
        assert pipe.forget(len(line), len(pipe.data), b'{"event": "acc') == whole + 9 * line
        assert pipe.data == line + whole
        pipe.add(11 * line)
        assert pipe.data == line + whole + 11 * line
        assert not pipe.dropped_bytes
    finally:
        pipe.close()


def test_what_is_shown_to_who_watches_is_bounded(tmp_path: Path) -> None:
    """A worker that seems to record something new for ever fills no disk."""
    pipe = Pipe(1000, copy=tmp_path / "copy")
    try:
        for _ in range(1000):
            pipe.show(b"x" * 100)
    finally:
        pipe.close()
    assert (tmp_path / "copy").stat().st_size == 2000


#: A recorder as a worker has it, and a round under way with one layer done and one begun.
RECORD = """
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder
events, records = int(os.environ["EVENTS"]), int(os.environ["RECORDS"])
recorder = Recorder({**NO_DESCRIPTORS, "events": events, "records": records})
recorder.note(begun=True)
recorder.span("round", round=0).__enter__()
with recorder.span("load", round=0, network="alexnet", layer=15, name="features.12"):
    pass
recorder.span("load", round=0, network="alexnet", layer=16, name="classifier.1").__enter__()
"""


def about(events: list[dict[str, Any]]) -> tuple[list[str | None], list[str | None]]:
    return (
        [span.name for span in finished_spans(events)],
        [start["name"] for start in unfinished_spans(events)],
    )


@pytest.mark.process
@pytest.mark.parametrize("torn", [0, 1])
def test_a_killed_worker_loses_nothing(watched: WorkloadProcess, torn: int) -> None:
    """SIGKILL leaves it no moment to write: pending lines are there once, a torn one is whole."""
    end = (
        "whole = b''.join(recorder._records.chunks())\n"
        f"os.write(events, whole[: {torn} * len(whole) // 2])\nos.kill(os.getpid(), 9)"
    )
    assert run(watched, RECORD + end).returncode == -9
    events, bad = watched.event_list()
    assert bad == torn
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
            assert run(watched, RECORD + wait + again).returncode == 0
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
        "for size in (0, 1 << 30):\n"
        " try: os.ftruncate(int(os.environ['RECORDS']), size)\n"
        " except PermissionError: pass\n else: os._exit(3)"
    )
    assert run(watched, cut).returncode == 0
    assert watched.records.lines() == []
