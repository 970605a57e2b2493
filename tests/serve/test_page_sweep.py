"""The running sweep: as a process of its own that the page started, and its live stream."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Served, page_sweep_of, serving, wait_for

from edgebench import processes
from edgebench.errors import ResultsError, UnsafePathError
from edgebench.serve.live import MOST_BROWSERS, PageSweep, StartedSweep, page_folder

SCENARIO = (
    'schema = 1\nname = "nap"\nrepeats = 1\n[workload]\nkind = "command"\ncommand = ["true"]\n'
)


def polled(page_sweep: PageSweep, *states: str) -> StartedSweep:
    def look() -> StartedSweep | None:
        page_sweep.poll()
        started = page_sweep.started
        return started if started and started.state in states else None

    found = wait_for(look)
    assert isinstance(found, StartedSweep)
    return found


@pytest.fixture
def go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program, until = tmp_path / "program", tmp_path / "go-on"
    program.write_text(
        f"#!/bin/sh\ntrap 'exit 143' TERM\nwhile [ ! -s {until} ]; do sleep 0.02; done\n"
        f"exit $(cat {until})\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("edgebench.serve.live.own_program", lambda *words: [str(program), *words])
    return until


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.own_cgroup
def test_a_sweep_runs_in_a_process_of_its_own(tmp_path: Path):
    page_sweep, go_on = page_sweep_of(tmp_path / "results"), tmp_path / "go-on"
    command = ["sh", "-c", f"while [ ! -e {go_on} ]; do sleep 0.02; done"]
    page_sweep.start("nap", SCENARIO.replace('["true"]', json.dumps(command)))
    assert page_sweep._process
    pid = page_sweep._process.pid
    assert os.getsid(pid) == pid != os.getsid(0)
    go_on.touch()
    assert polled(page_sweep, "done") == StartedSweep("nap", "done")
    assert len(list(tmp_path.glob("results/*/*-nap-*/complete.json"))) == 1


@pytest.mark.process
def test_one_sweep_at_a_time_until_it_is_stopped(tmp_path: Path, go_on: Path):
    page_sweep = page_sweep_of(tmp_path)
    page_sweep.start("nap", SCENARIO)
    with pytest.raises(ResultsError, match="a sweep is running already: nap"):
        page_sweep.start("short", SCENARIO)
    page_sweep.stop()
    assert page_sweep.started == StartedSweep("nap", "stopping")
    polled(page_sweep, "stopped")
    with pytest.raises(ResultsError, match="no sweep that this page started"):
        page_sweep.stop()
    go_on.write_text("3")
    page_sweep.start("short", SCENARIO)
    assert polled(page_sweep, "some-failed").name == "short"


def test_a_sweep_from_a_terminal_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "edgebench.serve.live.newest_running", lambda root: root / "device" / "theirs"
    )
    page_sweep = page_sweep_of(tmp_path)
    with pytest.raises(ResultsError, match="running already: theirs"):
        page_sweep.start("nap", SCENARIO)
    with pytest.raises(ResultsError, match="no sweep that this page started"):
        page_sweep.stop()


@pytest.mark.process
def test_a_restarted_server_finds_its_sweep_and_can_stop_it(tmp_path: Path, go_on: Path):
    first = page_sweep_of(tmp_path)
    first.start("a b", SCENARIO)
    second = page_sweep_of(tmp_path)
    assert second.started == StartedSweep("a b", "running")
    with pytest.raises(ResultsError, match="running already: a b"):
        second.start("short", SCENARIO)
    second.stop()
    # The first server is still here, in this test: it has a child to bury.
    assert first._process
    assert first._process.wait(120) in (143, -15)
    second.poll()
    assert second.started is None


@pytest.mark.process
@pytest.mark.promise("`serve` signals only the process of a sweep that it started.")
def test_another_process_of_the_same_number_is_not_stopped(
    tmp_path: Path, go_on: Path, other: subprocess.Popen[bytes]
):
    page_sweep = page_sweep_of(tmp_path)
    page_sweep.folder.mkdir(0o700)
    (page_sweep.folder / "sweep.lock").write_text(f"{other.pid} nap")
    page_sweep.poll()
    assert page_sweep.started is None
    with pytest.raises(ResultsError):
        page_sweep.stop()
    page_sweep.start("nap", SCENARIO)
    page_sweep.stop()
    polled(page_sweep, "stopped")
    assert other.poll() is None


@pytest.mark.process
@pytest.mark.promise("Nothing in a results folder makes `serve` run a command or signal a process.")
def test_what_lies_in_the_results_starts_and_stops_nothing(
    tmp_path: Path, other: subprocess.Popen[bytes]
):
    root = tmp_path / "results"
    for folder in (root, root / "device"):
        folder.mkdir()
        scenario = SCENARIO.replace("true", f"touch {tmp_path / 'it-ran'}")
        (folder / "sweep.toml").write_text(scenario)
        (folder / "sweep.lock").write_text(f"{other.pid} nap")
    with serving(root) as served, served.stream() as events:
        assert next(events)[1]["started"] is None
        assert served.post("/api/stop").status == 422
    assert other.poll() is None
    assert not (tmp_path / "it-ran").exists()


def test_a_link_in_an_output_s_place_is_refused(tmp_path: Path):
    page_sweep = page_sweep_of(tmp_path)
    page_sweep.folder.mkdir(0o700)
    (page_sweep.folder / "sweep.log").symlink_to(tmp_path / "precious")
    with pytest.raises(UnsafePathError, match="a link lies in its place"):
        page_sweep.start("nap", SCENARIO)
    assert not (tmp_path / "precious").exists()
    assert page_sweep.started is None


@pytest.mark.promise("What `serve` starts is kept in the state folder of the user who serves.")
def test_the_folder_is_in_the_users_own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(processes.os, "geteuid", lambda: 1000)
    found = page_folder(tmp_path / "results")
    assert found.parent == tmp_path / "state" / "edgebench" / "serve"
    assert found != page_folder(tmp_path / "others")
    assert found == page_folder(tmp_path / "others" / ".." / "results")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert page_folder(tmp_path).is_relative_to(tmp_path / "home" / ".local" / "state")
    monkeypatch.setattr(processes.os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    assert page_folder(tmp_path).is_relative_to(Path(pwd.getpwuid(0).pw_dir, ".local", "state"))


@pytest.mark.process
def test_the_folder_is_for_its_user_alone(tmp_path: Path, go_on: Path, monkeypatch: Any):
    go_on.write_text("0")
    monkeypatch.setenv("SUDO_UID", "54321")
    monkeypatch.setenv("SUDO_GID", "54321")
    page_sweep = page_sweep_of(tmp_path / "state" / "x")
    page_sweep.start("nap", SCENARIO)
    polled(page_sweep, "done")
    for folder in (page_sweep.folder, page_sweep.folder.parent):
        found = folder.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)
    page_sweep.folder.parent.chmod(0o777)
    with pytest.raises(UnsafePathError, match="other users can write"):
        page_sweep_of(tmp_path / "state" / "x")


#: Holds memory, later than the 50 ms of a first point, until a file is there, then fails.
HOLD = """
schema = 1
name = "hold"
repeats = 1
[workload]
kind = "command"
command = ["python3", "-I", "-S", "-c", '''
import os, time
time.sleep(0.3)
held = b"x" * 60_000_000
while not os.path.exists("GO-ON"): time.sleep(0.02)
raise SystemExit(3)''']
"""


@pytest.mark.process
def test_each_second_the_machine_is_told_to_so_many_browsers(fresh: Served):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(fresh.stream()) for _ in range(MOST_BROWSERS)]
        for events in streams:
            kind, state = next(events)
            assert (kind, state["sweep"]) == ("state", None)
            assert state["system"][-1][1] == psutil.virtual_memory().total
        assert fresh.get("/api/live").status == 503
        assert next(streams[0])[0] == "system"
    wait_for(lambda: fresh.live.browsers == 0)


def follow(server: Served, until: Any) -> list[tuple[str, Any]]:
    seen = []
    with server.stream() as events:
        for event in events:
            seen.append(event)
            if until(*event):
                return seen
    return seen


@pytest.mark.own_cgroup
def test_a_sweep_from_a_terminal_is_seen_and_a_reload_loses_nothing(fresh: Served, tmp_path: Path):
    scenario, go_on = tmp_path / "hold.toml", tmp_path / "go-on"
    scenario.write_text(HOLD.replace("GO-ON", str(go_on)))
    words = [sys.executable, "-m", "edgebench", "run", str(scenario), "--results"]
    run = subprocess.Popen(
        [*words, str(fresh.root)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        def high(kind: str, data: Any) -> bool:
            return kind == "update" and (data["now"].get("usage_bytes") or 0) > 60_000_000

        first = follow(fresh, high)
        kind, state = follow(fresh, lambda *_: True)[0]
        assert kind == "state"
        points = state["trial"]["points"]
        assert points[0][2] < 60_000_000 < points[-1][2]
        assert state["sweep"]["running"]
        assert {"trial", "progress"} <= {name for name, _ in first}
        go_on.touch()
        last = follow(
            fresh,
            lambda k, d: k in ("progress", "state") and bool((d["sweep"] or {}).get("complete")),
        )
        assert last[-1][1]["sweep"]["outcomes"] == {"failed": 1}
        _, state = follow(fresh, lambda *_: True)[0]
        assert "exit" in state["sweep"]["reasons"][0]
    finally:
        go_on.touch()
        run.wait(120)
