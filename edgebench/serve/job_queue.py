"""The queue of sweeps that the page started; one runs at a time, since two disturb each other."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from edgebench.errors import ResultsError, UnsafePathError
from edgebench.results.live.sweep import newest_running
from edgebench.serve.job import ENDED, Job, JobFiles, is_alive, stop_process

MOST_WAITING = 50
_MOST_JOBS = 200
#: In the order in which a job has them, before it has ended.
_STATES = ("queued", "running", "stopping")
#: Python drops an exception that a signal raises while an object is taken away.
_ASK_AGAIN_S = 20.0
_FULL_REMEDY = "free some space on the disk that holds {}, then try again"


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
            text = self._files.path(job, "toml").read_text()
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
