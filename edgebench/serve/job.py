"""One sweep that the page started: its scenario, its process and how it ended, kept on disk.

Jobs lead to commands and signals, so they are kept in the user's own state, never among the
results: whoever can write to a results folder starts and stops nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from edgebench.errors import ResultsError, UnsafePathError
from edgebench.identity import state_home
from edgebench.processes import given_environment, own_program
from edgebench.results.layout import json_bytes, read_json
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
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _read_job(path: Path) -> Job | None:
    try:
        job = msgspec.convert(read_json(path), Job)
    except (ResultsError, msgspec.ValidationError):
        return None
    return job if _ID.fullmatch(path.stem) and job.id == path.stem else None
