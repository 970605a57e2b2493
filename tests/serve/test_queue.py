"""Sweeps asked for from the page: queued, run as processes of their own, stopped, remembered."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import Served, jobs_of, serving, wait_for

from edgebench import identity
from edgebench.errors import MachineError, ResultsError, UnsafePathError
from edgebench.results.layout import json_bytes
from edgebench.results.live_file import boot_id
from edgebench.serve.jobs import MOST_WAITING, Job, JobQueue, is_alive, queue_folder

SCENARIO = (
    'schema = 1\nname = "nap"\nrepeats = 1\n[workload]\nkind = "command"\ncommand = ["true"]\n'
)
ID = "20260102T030405-abcdef"


def scenario_of(*command: str) -> str:
    """A scenario with one trial of this command."""
    return SCENARIO.replace('["true"]', json.dumps(command))


def nobody(root: Path) -> None:
    """No other sweep runs."""


def somebody(root: Path) -> Path:
    """Another sweep runs."""
    return root


def queue_of(root: Path) -> JobQueue:
    """A queue over these results while no other sweep runs."""
    return JobQueue(jobs_of(root), nobody)


def advanced(queue: JobQueue, job: Job, *states: str) -> Job:
    """The job once it is in one of these states."""

    def look() -> Job | None:
        queue.advance()
        return queue.jobs[job.id] if queue.jobs[job.id].state in states else None

    found = wait_for(look)
    assert isinstance(found, Job)
    return found


@pytest.fixture
def go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that ends the sweeps of this test with the exit code in it.

    They are a small program in Python's place, which a signal ends as it ends `edgebench run`.
    """
    program, until = tmp_path / "program", tmp_path / "go-on"
    program.write_text(
        f"#!/bin/sh\ntrap 'exit 143' TERM\nwhile [ ! -s {until} ]; do sleep 0.02; done\n"
        f"echo '{{}}'\nexit $(cat {until})\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("edgebench.serve.jobs.own_program", lambda *words: [str(program), *words])
    return until


@pytest.mark.own_cgroup
def test_a_sweep_runs_in_a_process_of_its_own(tmp_path: Path):
    """It is `edgebench run` in its own session, and its results are where they belong."""
    queue, go_on = JobQueue(jobs_of(tmp_path)), tmp_path / "go-on"
    wait = f"while [ ! -e {go_on} ]; do sleep 0.02; done"
    job = advanced(queue, queue.add("nap", scenario_of("sh", "-c", wait)), "running")
    assert job.pid is not None
    assert is_alive(job)
    assert os.getsid(job.pid) == job.pid != os.getsid(0)
    go_on.touch()
    assert advanced(queue, job, "done").exit_code == 0
    assert len(list(tmp_path.glob("*/*-nap-*/complete.json"))) == 1


@pytest.mark.process
def test_a_refused_scenario_fails_with_its_words(tmp_path: Path):
    """What `edgebench run` said is kept for the page."""
    queue = queue_of(tmp_path)
    job = advanced(queue, queue.add("bad", "schema = 1\n"), "failed")
    assert job.exit_code == 1
    assert "is missing" in str(job.error)


@pytest.mark.process
def test_one_at_a_time_in_order_and_stopped_when_asked(tmp_path: Path, go_on: Path):
    """The second waits for the first; a stop ends the first and starts the second."""
    queue = queue_of(tmp_path)
    first, second = queue.add("nap", SCENARIO), queue.add("short", SCENARIO)
    advanced(queue, first, "running")
    assert queue.jobs[second.id].state == "queued"
    queue.stop(first.id)
    # The signal may come before the program waits for it.
    assert advanced(queue, first, "stopped").exit_code in (143, -15)
    go_on.write_text("3")
    assert advanced(queue, second, "done").exit_code == 3


@pytest.mark.process
def test_a_restarted_server_finds_what_runs_and_what_waits(tmp_path: Path, go_on: Path):
    """The sweep outlives the server; the next one sees it end and goes on with the queue."""
    queue = queue_of(tmp_path)
    first, second = queue.add("nap", SCENARIO), queue.add("short", SCENARIO)
    advanced(queue, first, "running")
    later = queue_of(tmp_path)
    assert later.running is not None
    assert later.running.id == first.id
    assert [job.id for job in later.waiting] == [second.id]
    go_on.write_text("0")
    assert advanced(later, second, "done")
    assert later.jobs[first.id].state == "done"
    # The first server is still here, in this test: it has a child to bury.
    assert queue._process
    queue._process.wait()


@pytest.mark.process
def test_a_sweep_that_ends_between_two_looks_keeps_its_code(
    tmp_path: Path, go_on: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its process is waited for, and how it ended is known."""
    queue = queue_of(tmp_path)
    job = advanced(queue, queue.add("bad", SCENARIO), "running")
    go_on.write_text("1")

    def later(looked_at: Job) -> bool:
        assert looked_at.pid is not None
        os.waitid(os.P_PID, looked_at.pid, os.WEXITED | os.WNOWAIT)
        return is_alive(looked_at)

    monkeypatch.setattr("edgebench.serve.jobs.is_alive", later)
    assert advanced(queue, job, "failed").exit_code == 1


@pytest.mark.process
def test_a_full_disk_does_not_lose_sight_of_a_running_sweep(
    tmp_path: Path, go_on: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its state is known even if it can't be written down."""
    queue = queue_of(tmp_path)
    job = queue.add("bad", SCENARIO)
    monkeypatch.setattr("edgebench.serve.jobs.write_whole", no_space)
    advanced(queue, job, "running")
    go_on.write_text("1")
    assert advanced(queue, job, "failed")


def no_space(*_: Any) -> None:
    """What writing to a full disk raises."""
    raise OSError(28, "No space left on device")


def test_a_waiting_sweep_can_be_removed(tmp_path: Path):
    """It waits while any sweep runs, one from a terminal too, and then never starts."""
    queue = JobQueue(jobs_of(tmp_path), somebody)
    job = queue.add("nap", SCENARIO)
    queue.advance()
    assert queue.jobs[job.id].state == "queued"
    assert queue.stop(job.id).state == "stopped"
    queue.advance()
    assert queue.running is None
    with pytest.raises(ResultsError):
        queue.stop(job.id)


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A sweep that can't be kept is not queued, and says why."""
    queue = queue_of(tmp_path)
    monkeypatch.setattr("edgebench.serve.jobs.write_whole", no_space)
    with pytest.raises(ResultsError, match="No space left"):
        queue.add("nap", SCENARIO)
    assert not queue.jobs
    assert not list(jobs_of(tmp_path).folder.iterdir())


def test_a_link_in_an_output_s_place_fails_its_job(tmp_path: Path):
    """A link where a job's output goes fails that job alone, in words."""
    queue = queue_of(tmp_path)
    job = queue.add("nap", SCENARIO)
    jobs_of(tmp_path).path(job, "out").symlink_to(tmp_path / "precious")
    assert advanced(queue, job, "failed")
    assert "a link lies in its place" in (queue.jobs[job.id].error or "")
    assert not (tmp_path / "precious").exists()


def test_the_queue_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nobody fills the disk with waiting sweeps."""
    monkeypatch.setattr("edgebench.safe_files.os.fsync", lambda fd: None)
    queue = JobQueue(jobs_of(tmp_path), somebody)
    for _ in range(MOST_WAITING):
        queue.add("nap", SCENARIO)
    with pytest.raises(ResultsError, match="waiting already"):
        queue.add("nap", SCENARIO)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": 1, "id": "../x"}', '{"schema": 99, "state": "queued"}']
)
def test_damaged_jobs_are_passed_over(tmp_path: Path, text: str):
    """A half-written or strange file of a job stops nothing."""
    files = jobs_of(tmp_path)
    files.folder.mkdir()
    for name in (f"{ID}.json", "x.json"):
        (files.folder / name).write_text(text)
    assert files.all() == []


def test_what_a_killed_server_left_half_written_is_removed(tmp_path: Path):
    """The next server clears it away."""
    files = jobs_of(tmp_path)
    files.folder.mkdir()
    (files.folder / f".{ID}.json.0123.part").touch()
    assert JobQueue(files, nobody).jobs == {}
    assert not list(files.folder.iterdir())


def test_a_sweep_is_not_started_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A server that is killed while it starts a sweep leaves none that the next one starts too."""
    queue = queue_of(tmp_path)
    job = queue.add("nap", SCENARIO)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("edgebench.serve.jobs.subprocess.Popen", killed)
        with pytest.raises(KeyboardInterrupt):
            queue.advance()
    later = queue_of(tmp_path)
    later.advance()
    assert later.jobs[job.id].state == "failed"
    assert "start the sweep again" in str(later.jobs[job.id].error)


def test_a_job_that_goes_on_is_asked_to_stop_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A signal may be lost; while the process lives it is sent again, but not at once."""
    asked: list[str] = []
    monkeypatch.setattr("edgebench.serve.jobs.stop_process", lambda job: asked.append(job.id))
    monkeypatch.setattr("edgebench.serve.jobs.is_alive", lambda job: True)
    queue = queue_of(tmp_path)
    job = queue.add("nap", SCENARIO)
    queue.jobs[job.id] = replace(job, state="running")
    queue.stop(job.id)
    queue.advance()
    assert asked == [job.id]
    monkeypatch.setattr("edgebench.serve.jobs._ASK_AGAIN_S", 0.0)
    queue.advance()
    assert asked == [job.id] * 2
    assert queue.jobs[job.id].state == "stopping"


@pytest.mark.process
@pytest.mark.root
def test_a_disk_that_is_really_full(tmp_path: Path):
    """The page's request is answered with the remedy, nothing is left, and the server goes on."""
    disk = jobs_of(tmp_path / "results").folder
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", disk], check=True)
    try:
        with serving(tmp_path / "results") as served:
            with pytest.raises(OSError, match="No space"):
                (disk / "filler").write_bytes(bytes(1 << 20))
            workload = {"kind": "inference", "network": ["lenet"]}
            form = {"scenario": {"name": "x"}, "workload": workload}
            answer = served.post("/api/jobs", form)
            assert answer.status == 422
            assert "free some space" in answer.data["error"]["remedy"]
            assert served.get("/api/sweeps").data == {"sweeps": []}
            assert [path.name for path in disk.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", disk], check=True)


@contextmanager
def another_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no server started."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def running(pid: int, **about: Any) -> Job:
    """A job that is said to run as this process."""
    return Job(ID, "x", "running", "2026-01-02T03:04:05+00:00", pid, **about)


def ticks(pid: int) -> int:
    """When that process began."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.mark.process
@pytest.mark.promise("`serve` signals only the process of a sweep that it started.")
def test_another_process_of_the_same_number_is_not_stopped(tmp_path: Path):
    """It began at another time, or in another boot of the machine."""
    with another_process() as other:
        right = ticks(other.pid)
        assert is_alive(running(other.pid, boot_id=boot_id(), began_ticks=right))
        for boot, began in ((boot_id(), right + 1), ("another", right), ("", None)):
            files = jobs_of(tmp_path)
            files.add(running(other.pid, boot_id=boot, began_ticks=began), SCENARIO)
            queue = queue_of(tmp_path)
            queue.stop(ID)
            queue.advance()
            assert queue.jobs[ID].state == "stopped"
        assert other.poll() is None


@pytest.mark.process
@pytest.mark.promise("Nothing in a results folder makes `serve` run a command or signal a process.")
def test_jobs_planted_in_the_results_have_no_effect(tmp_path: Path):
    """A queued one isn't started, a running one can't be stopped, and the page shows neither."""
    root = tmp_path / "results"
    with another_process() as other:
        queued = replace(running(other.pid), state="queued", pid=None, id=ID.replace("c", "0"))
        about = {"boot_id": boot_id(), "began_ticks": ticks(other.pid)}
        for folder in (root / ".serve", root / "device" / ".serve", root):
            folder.mkdir(parents=True, exist_ok=True)
            for job in (running(other.pid, **about), queued):
                (folder / f"{job.id}.json").write_bytes(json_bytes(vars(job)))
                scenario = scenario_of("touch", str(tmp_path / "it-ran"))
                (folder / f"{job.id}.toml").write_text(scenario)
        with serving(root) as served:
            assert shown_jobs(served) == []
            assert served.post(f"/api/jobs/{ID}/stop").status == 422
            assert served.post(f"/api/jobs/{queued.id}/again").status == 422
            queue = served.app.state.live._queue
            queue.advance()
            assert not queue.jobs
        assert other.poll() is None
    assert not (tmp_path / "it-ran").exists()


def shown_jobs(served: Served) -> list[Any]:
    """The jobs on the page."""
    with served.stream() as events:
        _, state = next(events)
    found: list[Any] = state["jobs"]
    return found


@pytest.mark.promise("The queue of `serve` is kept in the state folder of the user who serves.")
def test_the_queue_is_in_the_users_own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Root's is below root's own home, whatever folder of another user sudo kept in a variable."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(identity.os, "geteuid", lambda: 1000)
    found = queue_folder(tmp_path / "results")
    assert found.parent == tmp_path / "state" / "edgebench" / "serve"
    assert found != queue_folder(tmp_path / "others")
    assert found == queue_folder(tmp_path / "others" / ".." / "results")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert queue_folder(tmp_path).is_relative_to(tmp_path / "home" / ".local" / "state")
    monkeypatch.setattr(identity.os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    assert queue_folder(tmp_path).is_relative_to(Path(pwd.getpwuid(0).pw_dir, ".local", "state"))


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch):
    """In words, with the variable that helps."""
    monkeypatch.setattr(identity.os, "geteuid", lambda: 54321)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(MachineError, match="no home") as told:
        queue_folder(Path("results"))
    assert "XDG_STATE_HOME" in str(told.value.remedy)


def test_the_queue_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Made 0700, with the folders above; one that others can write to is refused."""
    monkeypatch.setenv("SUDO_UID", "54321")
    monkeypatch.setenv("SUDO_GID", "54321")
    files = jobs_of(tmp_path / "state" / "x")
    JobQueue(files, somebody).add("nap", SCENARIO)
    for folder in (files.folder, files.folder.parent):
        found = folder.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)
    files.folder.parent.chmod(0o777)
    with pytest.raises(UnsafePathError, match="other users can write"):
        JobQueue(files, nobody)


@pytest.mark.process
@pytest.mark.promise("Two servers of a user over the same results start each queued sweep once.")
def test_two_servers_start_each_sweep_once(tmp_path: Path):
    """Both know the waiting jobs; the one that comes second sees that the first has started it."""
    first = queue_of(tmp_path)
    job, stopped = first.add("nap", scenario_of("true")), first.add("nap", SCENARIO)
    second = queue_of(tmp_path)
    first.advance()
    second.advance()
    assert second.jobs[job.id].pid == first.jobs[job.id].pid is not None
    assert second.stop(stopped.id).state == "stopped"
    for queue in (first, second):
        assert advanced(queue, job, "done", "failed").pid == first.jobs[job.id].pid
        queue.advance()
        assert [queue.jobs[stopped.id].state, queue.waiting] == ["stopped", []]
    more = second.add("nap", SCENARIO)
    with jobs_of(tmp_path).locked() as is_ours:
        second.advance()
        assert is_ours
        assert second.jobs[more.id].state == "queued"
