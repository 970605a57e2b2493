"""The sweeps that the page started: each with its scenario, its process and its end, kept on disk.

One runs at a time, since two disturb each other. Jobs lead to commands and signals, so they are
kept in the user's own state, never among the results: whoever can write to a results folder starts
and stops nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import msgspec

from edgebench.errors import ResultsError, UnsafePathError
from edgebench.processes import given_environment, own_program
from edgebench.results.layout import json_bytes, read_json
from edgebench.results.live.sweep import newest_running
from edgebench.results.live_file import boot_id
from edgebench.safe_files import (
    PART,
    created,
    is_own_folder,
    make_own_folder,
    open_file,
    remove_file,
    write_whole,
)
from edgebench.safe_folders import state_home

State = Literal["queued", "running", "stopping", "done", "stopped", "failed"]
#: States that don't change any more.
ENDED: tuple[State, ...] = ("done", "stopped", "failed")
#: Exit codes of ``edgebench run``: some trials failed; all ok, or some failed; stopped by the user.
SOME_FAILED = 3
_DONE = (0, SOME_FAILED)
_STOPPED = (129, 130, 143, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM)
_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}")
_TAIL_BYTES = 2000
_NOT_STARTED = "the server was ended while it started the sweep; start the sweep again"


MOST_WAITING = 50
_MOST_JOBS = 200
#: In the order in which a job has them, before it has ended.
_STATES = ("queued", "running", "stopping")
#: Python drops an exception that a signal raises while an object is taken away.
_ASK_AGAIN_S = 20.0
_FULL_REMEDY = "free some space on the disk that holds {}, then try again"


@dataclass(frozen=True)
class Job:
    """A job as it is kept. ``error``: why it failed, as ``edgebench run`` worded it.

    ``boot_id`` and ``began_ticks`` tell its process from a later one with the same pid.
    """

    id: str
    name: str
    state: State
    queued_utc: str
    pid: int | None = None
    boot_id: str = ""
    began_ticks: int | None = None
    exit_code: int | None = None
    error: str | None = None


def queue_folder(results: Path) -> Path:
    """The folder of the jobs of a results folder: another one for each user and results folder.

    Raises:
        MachineError: the user's home is unknown.
    """
    key = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:16]
    return state_home() / "edgebench" / "serve" / key


class JobFiles:
    """Where jobs are kept.

    Args:
        root: the folder that holds all results.
        folder: the jobs' own folder, see :func:`queue_folder`.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder

    def path(self, job: Job, suffix: str) -> Path:
        """One of a job's files: ``toml`` (its scenario), ``json``, ``out``, ``log``."""
        return self.folder / f"{job.id}.{suffix}"

    def add(self, job: Job, scenario: str) -> None:
        """Keep a new job.

        Raises:
            OSError: it can't be written; nothing is left of it.
            UnsafePathError: others can write to its folder.
        """
        make_own_folder(self.folder)
        write_whole(self.path(job, "toml"), scenario.encode())
        try:
            self.save(job)
        except (OSError, UnsafePathError):
            remove_file(self.path(job, "toml"))
            raise

    def save(self, job: Job) -> None:
        """Write the job's state.

        Raises:
            OSError: it can't be written; the state before stays.
        """
        write_whole(self.path(job, "json"), json_bytes(asdict(job)))

    def remove(self, job: Job) -> None:
        """Remove a job's own files; its results stay."""
        for suffix in ("json", "toml", "out", "log"):
            remove_file(self.path(job, suffix))

    def all(self) -> list[Job]:
        """Every job that is kept, the oldest first; damaged ones are skipped.

        Raises:
            UnsafePathError: others can write to their folder.
        """
        if not is_own_folder(self.folder):
            return []
        found = (_read_job(path) for path in sorted(self.folder.glob("*.json")))
        return [job for job in found if job is not None]

    def clear(self) -> None:
        """Remove what killed servers left half written."""
        for left in self.folder.glob(f".*{PART}"):
            remove_file(left)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Whether the jobs are ours to start meanwhile, and no other server's of this user."""
        with contextlib.ExitStack() as kept:
            # Where no lock can be made, no sweep can be started either, which the job then says.
            with contextlib.suppress(OSError, UnsafePathError):
                fd = open_file(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
                kept.callback(os.close, fd)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield False
                    return
            yield True

    def start(self, job: Job) -> tuple[Job, subprocess.Popen[bytes]]:
        """Start ``edgebench run`` for it, in a session of its own: it outlives the server.

        Raises:
            OSError: its files can't be written, or it can't be started.
        """
        command = own_program("edgebench", "run", str(self.path(job, "toml")))
        with created(self.path(job, "out")) as out, created(self.path(job, "log")) as log:
            process = subprocess.Popen(
                [*command, "--results", str(self.root), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=given_environment(),
                start_new_session=True,
            )
        job = replace(job, pid=process.pid, boot_id=boot_id(), began_ticks=_ticks(process.pid))
        return replace(job, state="running"), process

    def ended(self, job: Job, exit_code: int | None) -> Job:
        """The job whose process has ended; the code is None if another server started it."""
        done = exit_code in _DONE or (exit_code is None and self._tail(job, "out").strip())
        if done:
            return replace(job, state="done", exit_code=exit_code)
        if exit_code in _STOPPED or (exit_code is None and job.state == "stopping"):
            return replace(job, state="stopped", exit_code=exit_code)
        unknown = "no error message; it may have been killed" if job.pid else _NOT_STARTED
        error = self._tail(job, "log").strip() or unknown
        return replace(job, state="failed", exit_code=exit_code, error=error)

    def _tail(self, job: Job, suffix: str) -> str:
        try:
            data = self.path(job, suffix).read_bytes()
        except OSError:
            return ""
        return data[-_TAIL_BYTES:].decode(errors="replace")


def is_alive(job: Job) -> bool:
    """Whether the job's own process is still there, and no other one with its pid."""
    if job.pid is None or job.began_ticks is None or job.boot_id != boot_id():
        return False
    return _ticks(job.pid) == job.began_ticks


def stop_process(job: Job) -> None:
    """End the job's process as Ctrl-C would: finished trials are kept."""
    if job.pid is not None and is_alive(job):
        with contextlib.suppress(ProcessLookupError):
            os.kill(job.pid, signal.SIGTERM)


def _ticks(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _read_job(path: Path) -> Job | None:
    try:
        job = msgspec.convert(read_json(path), Job)
    except (ResultsError, msgspec.ValidationError):
        return None
    return job if _ID.fullmatch(path.stem) and job.id == path.stem else None


class JobQueue:
    """Jobs in the order in which they were queued; :meth:`advance` starts and ends them.

    Args:
        files: where the jobs are kept, and which results they are for.
        find_running: finds any sweep that runs among these results now.

    Raises:
        UnsafePathError: others can write to the jobs' folder.
    """

    def __init__(
        self, files: JobFiles, find_running: Callable[[Path], object] = newest_running
    ) -> None:
        self._files = files
        self._find_running = find_running
        self._process: subprocess.Popen[bytes] | None = None
        #: When the running job was last asked to stop, on the monotonic clock.
        self._asked_s = 0.0
        self.jobs: dict[str, Job] = {job.id: job for job in self._files.all()}
        self._files.clear()

    @property
    def running(self) -> Job | None:
        """The job whose sweep runs now."""
        busy = ("running", "stopping")
        return next((job for job in self.jobs.values() if job.state in busy), None)

    @property
    def waiting(self) -> list[Job]:
        """The jobs that have not started."""
        return [job for job in self.jobs.values() if job.state == "queued"]

    def add(self, name: str, scenario: str) -> Job:
        """Queue a scenario that has no faults.

        Raises:
            ResultsError: too many are waiting, or the disk is full.
            UnsafePathError: something else is where its files belong.
        """
        if len(self.waiting) >= MOST_WAITING:
            raise ResultsError(
                f"{MOST_WAITING} sweeps are waiting already", remedy="remove one first"
            )
        now = datetime.now(timezone.utc)
        job_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        job = Job(job_id, name, "queued", now.isoformat(timespec="seconds"))
        try:
            self._files.add(job, scenario)
        except OSError as error:
            what = f"the sweep can't be queued: {error.strerror}"
            remedy = _FULL_REMEDY.format(self._files.folder)
            raise ResultsError(what, remedy=remedy) from error
        self.jobs[job.id] = job
        self._remove_oldest()
        return job

    def stop(self, job_id: str) -> Job:
        """Stop a running sweep, or remove a waiting one from the queue.

        Raises:
            ResultsError: no such job, or it has ended.
        """
        job = self.jobs.get(job_id)
        if job is None or job.state in ENDED:
            raise ResultsError(
                "that sweep has ended", remedy="reload the page and open its results"
            )
        with self._files.locked() as is_ours:
            if not is_ours:
                what = "another server starts a sweep at this moment"
                raise ResultsError(what, remedy="try again")
            self._take_over()
            return self._stop(self.jobs[job_id])

    def _stop(self, job: Job) -> Job:
        if job.state in ENDED:
            return job
        if job.state == "queued":
            return self._set(replace(job, state="stopped"))
        self._ask_to_stop(job)
        return self._set(replace(job, state="stopping"))

    def again(self, job_id: str) -> Job:
        """Queue an ended job's scenario once more; an unfinished sweep is then continued.

        Raises:
            ResultsError: no such job, or its scenario is gone.
        """
        job = self.jobs.get(job_id)
        try:
            if job is None or job.state not in ENDED:
                raise FileNotFoundError
            text = self._files.path(job, "toml").read_text(errors="replace")
        except OSError:
            what = "that sweep's scenario is gone"
            raise ResultsError(what, remedy="fill in the form again") from None
        return self.add(job.name, text)

    def advance(self) -> None:
        """Note if the running job has ended; start the next one if no sweep runs."""
        if job := self.running:
            self._note_end(job)
        if self.running or not self.waiting or self._find_running(self._files.root):
            return
        with self._files.locked() as is_ours:
            if not is_ours:
                return
            self._take_over()
            if self.running is None and self.waiting:
                self._start(self.waiting[0])

    def _take_over(self) -> None:
        """What another server over the same results did with the jobs, and its own jobs."""
        for kept in self._files.all():
            known = self.jobs.get(kept.id)
            # With a full disk an older state is kept there.
            if known is None or _progress(kept) > _progress(known):
                self.jobs[kept.id] = kept

    def _note_end(self, job: Job) -> None:
        # Another server may have started it.
        own = self._process if self._process and self._process.pid == job.pid else None
        code = own.poll() if own else None
        # Our own child is polled once: if it ended between two polls, its code would be lost.
        if code is None and (own or is_alive(job)):
            if job.state == "stopping" and time.monotonic() - self._asked_s > _ASK_AGAIN_S:
                self._ask_to_stop(job)
            return
        self._process = None
        if not own:
            # The server that started it knows its exit code.
            self._take_over()
        if self.jobs[job.id].state not in ENDED:
            self._set(self._files.ended(job, code))

    def _ask_to_stop(self, job: Job) -> None:
        self._asked_s = time.monotonic()
        stop_process(job)

    def _start(self, job: Job) -> None:
        # First: a server killed meanwhile must leave no job that the next one starts too.
        job = self._set(replace(job, state="running"))
        try:
            started, self._process = self._files.start(job)
        except (OSError, UnsafePathError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            started = replace(job, state="failed", error=f"it can't be started: {why}")
        self._set(started)

    def _set(self, job: Job) -> Job:
        self.jobs[job.id] = job
        # With a full disk the state is kept in memory alone.
        with contextlib.suppress(OSError, UnsafePathError):
            self._files.save(job)
        return job

    def _remove_oldest(self) -> None:
        ended = [job for job in self.jobs.values() if job.state in ENDED]
        for job in ended[: max(0, len(self.jobs) - _MOST_JOBS)]:
            del self.jobs[job.id]
            with contextlib.suppress(OSError, UnsafePathError):
                self._files.remove(job)


def _progress(job: Job) -> int:
    """How far it has come."""
    return (*_STATES, job.state).index(job.state)
