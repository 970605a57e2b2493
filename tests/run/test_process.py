"""The workload's process seen from outside: drained, capped, timed out, told apart."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.run.trial.process import (
    OUTPUT_CAP_BYTES,
    Pipe,
    ProcessEnd,
    WorkloadProcess,
)


@pytest.fixture
def watched() -> Iterator[WorkloadProcess]:
    """A fresh watched process, its pipes closed afterwards."""
    watched = WorkloadProcess()
    yield watched
    watched.close()


def run(watched: WorkloadProcess, code: str, timeout_s: float | None = 20) -> ProcessEnd:
    """Run Python code as the workload; its event descriptor is in EVENTS."""
    env = {**os.environ, "EVENTS": str(watched.events.write_fd)}
    command = [sys.executable, "-I", "-S", "-c", "import os, sys, time\n" + code]
    return watched.run(
        command,
        env=env,
        pass_fds=(watched.events.write_fd,),
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
    """Closed pipes do not pass for the end of the process."""
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
