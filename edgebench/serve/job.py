"""One sweep that the page asked for: its scenario, its process, what became of it; on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from edgebench.cgroups.identity import give_to_caller
from edgebench.errors import ResultsError
from edgebench.process import python_path
from edgebench.results.layout import json_bytes, read_json, write_atomically

State = Literal["queued", "running", "stopping", "done", "stopped", "failed"]
#: States in which nothing more happens.
ENDED: tuple[State, ...] = ("done", "stopped", "failed")
#: Exit codes of ``edgebench run``: all trials made (some of them failed), stopped by a person.
SOME_FAILED = 3
_MADE = (0, SOME_FAILED)
_STOPPED = (130, 143, -signal.SIGINT, -signal.SIGTERM)
_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}")
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class Job:
    """What is kept of it. ``began_ticks`` tells its process from a later one of the same number.

    ``says`` is why it failed, as ``edgebench run`` worded it.
    """

    id: str
    name: str
    state: State
    asked_utc: str
    pid: int | None = None
    began_ticks: int | None = None
    exit_code: int | None = None
    says: str | None = None


class JobFiles:
    """Where jobs are kept: a hidden folder among the results."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".serve"

    def path(self, job: Job, suffix: str) -> Path:
        """One of a job's files: ``toml`` (its scenario), ``json``, ``out``, ``log``."""
        return self.folder / f"{job.id}.{suffix}"

    def add(self, job: Job, scenario: str) -> None:
        """Keep a new job.

        Raises:
            OSError: it can't be written; nothing is left of it.
        """
        top = self.folder if self.root.exists() else self.root
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.folder.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a link lies where the queue is kept")
        write_atomically(self.path(job, "toml"), scenario.encode())
        try:
            self.keep(job)
        except OSError:
            self.path(job, "toml").unlink(missing_ok=True)
            raise
        give_to_caller(top)

    def keep(self, job: Job) -> None:
        """Keep how it stands.

        Raises:
            OSError: it can't be written; what was kept before stays.
        """
        write_atomically(self.path(job, "json"), json_bytes(asdict(job)))

    def forget(self, job: Job) -> None:
        """Take a job's own files away; its results stay."""
        for suffix in ("json", "toml", "out", "log"):
            self.path(job, suffix).unlink(missing_ok=True)

    def all(self) -> list[Job]:
        """Every job that is kept, in the order asked for; damaged ones are passed over."""
        found = (_job(path) for path in sorted(self.folder.glob("*.json")))
        return [job for job in found if job is not None]

    def start(self, job: Job) -> tuple[Job, subprocess.Popen[bytes]]:
        """Start ``edgebench run`` for it, in a session of its own: it outlives the server.

        Raises:
            OSError: its files can't be written, or it can't be started.
        """
        words = [sys.executable, "-m", "edgebench", "run", str(self.path(job, "toml"))]
        # Made anew: under sudo somebody may have put links in their place.
        with self.path(job, "out").open("xb") as out, self.path(job, "log").open("xb") as log:
            process = subprocess.Popen(
                [*words, "--results", str(self.root), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, "PYTHONPATH": python_path()},
                start_new_session=True,
            )
        started = replace(job, state="running", pid=process.pid, began_ticks=_ticks(process.pid))
        return started, process

    def ended(self, job: Job, exit_code: int | None) -> Job:
        """The job whose process has ended; its code is None if another server started it."""
        made = exit_code in _MADE or (exit_code is None and self._tail(job, "out").strip())
        if made:
            return replace(job, state="done", exit_code=exit_code)
        if exit_code in _STOPPED or (exit_code is None and job.state == "stopping"):
            return replace(job, state="stopped", exit_code=exit_code)
        said = self._tail(job, "log").strip() or "it said nothing; it may have been killed"
        return replace(job, state="failed", exit_code=exit_code, says=said)

    def _tail(self, job: Job, suffix: str) -> str:
        try:
            data = self.path(job, suffix).read_bytes()
        except OSError:
            return ""
        return data[-_TAIL_BYTES:].decode(errors="replace")


def is_alive(job: Job) -> bool:
    """Whether the job's own process is still there."""
    return (
        job.pid is not None and job.began_ticks is not None and _ticks(job.pid) == job.began_ticks
    )


def ask_to_stop(job: Job) -> None:
    """End its process as Ctrl-C would: what is finished is kept."""
    if job.pid is not None and is_alive(job):
        with contextlib.suppress(ProcessLookupError):
            os.kill(job.pid, signal.SIGTERM)


def _ticks(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None if it is none, or a dead one."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] == "Z" else int(words[19])


def _job(path: Path) -> Job | None:
    if not _ID.fullmatch(path.stem):
        return None
    try:
        data = read_json(path)
        kept: dict[str, Any] = {one.name: data.get(one.name) for one in fields(Job)}
        job = Job(**kept)
    except (ResultsError, TypeError):
        return None
    numbers = (job.pid, job.began_ticks, job.exit_code)
    whole = job.id == path.stem and isinstance(job.name, str) and isinstance(job.asked_utc, str)
    counts = all(number is None or isinstance(number, int) for number in numbers)
    return (
        job if whole and counts and job.state in (*ENDED, "queued", "running", "stopping") else None
    )
