"""Sweeps asked for from the page: queued, run as processes of their own, stopped, remembered."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import serving, wait_for

from edgebench.errors import ResultsError
from edgebench.serve.job import Job, JobFiles, is_alive
from edgebench.serve.job_queue import MOST_WAITING, JobQueue


def scenario(seconds: float, name: str = "nap") -> str:
    """One trial that sleeps."""
    return (
        f'schema = 1\nname = "{name}"\nrepeats = 1\ntimeout = "90s"\n'
        f'[workload]\nkind = "command"\ncommand = ["sleep", "{seconds}"]\n'
    )


def held_back(until: Path) -> str:
    """One trial that goes on until this file is there."""
    wait = f"while [ ! -e {until} ]; do sleep 0.02; done"
    return scenario(0).replace('["sleep", "0"]', json.dumps(["sh", "-c", wait]))


def nobody(root: Path) -> None:
    """No other sweep runs."""


def advanced(queue: JobQueue, job: Job, *states: str) -> Job:
    """The job once it is in one of these states."""

    def look() -> Job | None:
        queue.advance()
        return queue.jobs[job.id] if queue.jobs[job.id].state in states else None

    found = wait_for(look)
    assert isinstance(found, Job)
    return found


@pytest.mark.own_cgroup
def test_a_sweep_runs_in_a_process_of_its_own(tmp_path: Path):
    """It is `edgebench run` in its own session, and its results are where they belong."""
    queue, go_on = JobQueue(tmp_path), tmp_path / "go-on"
    job = advanced(queue, queue.add("nap", held_back(go_on)), "running")
    assert job.pid is not None
    assert is_alive(job)
    assert os.getsid(job.pid) == job.pid != os.getsid(0)
    words = Path(f"/proc/{job.pid}/cmdline").read_bytes().split(b"\0")
    assert b"run" in words
    go_on.touch()
    assert advanced(queue, job, "done").exit_code == 0
    assert len(list(tmp_path.glob("*/*-nap-*/complete.json"))) == 1


@pytest.mark.own_cgroup
@pytest.mark.slow
def test_one_at_a_time_in_order_and_stopped_when_asked(tmp_path: Path):
    """The second waits for the first; a stop ends the trial, keeps the sweep, starts the next."""
    queue = JobQueue(tmp_path)
    first, second = queue.add("nap", scenario(60)), queue.add("short", scenario(0, "short"))
    first = advanced(queue, first, "running")
    assert queue.jobs[second.id].state == "queued"
    wait_for(lambda: list(tmp_path.glob("*/*-nap-*/live.json")))
    queue.stop(first.id)
    assert advanced(queue, first, "stopped").exit_code in (130, 143)
    assert advanced(queue, second, "done")
    assert not list(tmp_path.glob("*/*-nap-*/complete.json"))


def test_a_refused_scenario_fails_with_its_words(tmp_path: Path):
    """What `edgebench run` said is kept for the page."""
    queue = JobQueue(tmp_path)
    job = advanced(queue, queue.add("bad", "schema = 1\n"), "failed")
    assert job.exit_code == 1
    assert "is missing" in str(job.error)


def test_a_sweep_that_ends_between_two_looks_keeps_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its process is waited for, and how it ended is known."""
    queue = JobQueue(tmp_path, nobody)
    job = advanced(queue, queue.add("bad", "schema = 1\n"), "running")

    def later(looked_at: Job) -> bool:
        assert looked_at.pid is not None
        os.waitid(os.P_PID, looked_at.pid, os.WEXITED | os.WNOWAIT)
        return is_alive(looked_at)

    monkeypatch.setattr("edgebench.serve.job_queue.is_alive", later)
    assert advanced(queue, job, "failed").exit_code == 1


def test_a_waiting_sweep_can_be_removed(tmp_path: Path):
    """It never starts."""
    queue = JobQueue(tmp_path, find_running=lambda root: True)
    job = queue.add("nap", scenario(60))
    assert queue.stop(job.id).state == "stopped"
    queue.advance()
    assert queue.running is None
    with pytest.raises(ResultsError):
        queue.stop(job.id)


def test_it_waits_while_any_sweep_runs(tmp_path: Path):
    """Also for one that was started in a terminal: two would disturb each other."""
    queue = JobQueue(tmp_path, find_running=lambda root: root)
    job = queue.add("nap", scenario(0))
    queue.advance()
    assert queue.jobs[job.id].state == "queued"


@pytest.mark.own_cgroup
@pytest.mark.slow
def test_a_restarted_server_finds_what_runs_and_what_waits(tmp_path: Path):
    """The sweep outlives the server; the next one sees it end and goes on with the queue."""
    queue = JobQueue(tmp_path)
    first, second = queue.add("nap", scenario(2)), queue.add("short", scenario(0, "short"))
    advanced(queue, first, "running")
    later = JobQueue(tmp_path)
    assert later.running is not None
    assert later.running.id == first.id
    assert [job.id for job in later.waiting] == [second.id]
    assert advanced(later, second, "done")
    assert later.jobs[first.id].state == "done"
    # The first server is still here, in this test: it has a child to bury.
    queue._process.wait()


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A sweep that can't be kept is not queued, and says why."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    queue = JobQueue(tmp_path, nobody)
    monkeypatch.setattr("edgebench.serve.job.write_whole", full)
    with pytest.raises(ResultsError, match="No space left"):
        queue.add("nap", scenario(0))
    assert not queue.jobs
    assert not list(tmp_path.glob(".serve/*"))


def test_a_full_disk_does_not_lose_sight_of_a_running_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its state is known even if it can't be written down."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    queue = JobQueue(tmp_path, nobody)
    job = queue.add("bad", "schema = 1\n")
    monkeypatch.setattr("edgebench.serve.job.write_whole", full)
    assert advanced(queue, job, "failed")


def test_a_link_in_an_output_s_place_fails_its_job(tmp_path: Path):
    """A link where a job's output goes fails that job alone, in words."""
    queue = JobQueue(tmp_path, nobody)
    job = queue.add("nap", scenario(0))
    (tmp_path / ".serve" / f"{job.id}.out").symlink_to(tmp_path / "precious")
    assert advanced(queue, job, "failed")
    assert "a link lies in its place" in (queue.jobs[job.id].error or "")
    assert not (tmp_path / "precious").exists()


def test_the_queue_has_an_end(tmp_path: Path):
    """Nobody fills the disk with waiting sweeps."""
    queue = JobQueue(tmp_path, find_running=lambda root: True)
    for _ in range(MOST_WAITING):
        queue.add("nap", scenario(0))
    with pytest.raises(ResultsError, match="waiting already"):
        queue.add("nap", scenario(0))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": 1, "id": "../x"}', '{"schema": 99, "state": "queued"}']
)
def test_damaged_jobs_are_passed_over(tmp_path: Path, text: str):
    """A half-written or strange file of a job stops nothing."""
    files = JobFiles(tmp_path)
    files.folder.mkdir(parents=True)
    (files.folder / "20260102T030405-abcdef.json").write_text(text)
    (files.folder / "x.json").write_text(text)
    assert files.all() == []


def test_jobs_of_earlier_versions_are_read(tmp_path: Path):
    """Their time and their error had other names."""
    folder = JobFiles(tmp_path).folder
    folder.mkdir(parents=True)
    kept = {"schema": 1, "id": "20260102T030405-abcdef", "name": "x", "state": "failed"}
    kept |= {"asked_utc": "2026-01-02", "says": "no space left", "pid": None, "exit_code": 1}
    (folder / "20260102T030405-abcdef.json").write_text(json.dumps(kept))
    (job,) = JobFiles(tmp_path).all()
    assert (job.queued_utc, job.error, job.exit_code) == ("2026-01-02", "no space left", 1)


def test_a_number_used_again_is_not_the_sweep(tmp_path: Path):
    """A process that began at another time is not ours to signal."""
    job = Job("20260102T030405-abcdef", "x", "running", "now", os.getpid(), began_ticks=1)
    assert not is_alive(job)


@pytest.mark.root
def test_a_disk_that_is_really_full(tmp_path: Path):
    """The page's request is answered with the remedy, nothing is left, and the server goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    try:
        with serving(disk) as served:
            with contextlib.suppress(OSError):
                (disk / "filler").write_bytes(bytes(1 << 20))
            workload = {"kind": "inference", "network": ["lenet"]}
            form = {"scenario": {"name": "x"}, "workload": workload}
            answer = served.post("/api/jobs", form)
            assert answer.status == 422
            assert "free some space" in answer.data["error"]["remedy"]
            assert served.get("/api/sweeps").data == {"sweeps": []}
            assert not list(disk.glob(".serve/*.json"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_job_that_goes_on_is_asked_to_stop_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A signal may be lost; while the process lives it is sent again, but not at once."""
    asked: list[str] = []
    monkeypatch.setattr("edgebench.serve.job_queue.stop_process", lambda job: asked.append(job.id))
    monkeypatch.setattr("edgebench.serve.job_queue.is_alive", lambda job: True)
    queue = JobQueue(tmp_path)
    job = queue.add("nap", scenario(60))
    queue.jobs[job.id] = replace(job, state="running")
    queue.stop(job.id)
    queue.advance()
    assert asked == [job.id]
    monkeypatch.setattr("edgebench.serve.job_queue._ASK_AGAIN_S", 0.0)
    queue.advance()
    assert asked == [job.id] * 2
    assert queue.jobs[job.id].state == "stopping"
