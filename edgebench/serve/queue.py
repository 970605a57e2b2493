"""The queue of sweeps that the page asked for: one at a time, for two would disturb each other."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.live.sweep import newest_running
from edgebench.serve.job import ENDED, Job, JobFiles, ask_to_stop, is_alive

MOST_WAITING = 50
_MOST_KEPT = 200
FULL_REMEDY = "free some space on the disk that holds the results, then try again"


class Queue:
    """Jobs in the order they were asked for. :meth:`tend` moves them on.

    Args:
        root: the folder that holds all results.
        somebody_runs: whether any sweep runs below it now.
    """

    def __init__(
        self, root: Path, somebody_runs: Callable[[Path], object] = newest_running
    ) -> None:
        self._files = JobFiles(root)
        self._somebody_runs = somebody_runs
        self._process: subprocess.Popen[bytes] | None = None
        self.jobs: dict[str, Job] = {job.id: job for job in self._files.all()}

    @property
    def running(self) -> Job | None:
        """The job whose sweep runs now."""
        busy = ("running", "stopping")
        return next((job for job in self.jobs.values() if job.state in busy), None)

    @property
    def waiting(self) -> list[Job]:
        """Those to come."""
        return [job for job in self.jobs.values() if job.state == "queued"]

    def add(self, name: str, scenario: str) -> Job:
        """Queue a scenario that was found right.

        Raises:
            ResultsError: too many wait already, or the disk takes no more.
        """
        if len(self.waiting) >= MOST_WAITING:
            raise ResultsError(f"{MOST_WAITING} sweeps wait already", remedy="remove one first")
        now = datetime.now(timezone.utc)
        asked = now.isoformat(timespec="seconds")
        job = Job(f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", name, "queued", asked)
        try:
            self._files.add(job, scenario)
        except OSError as error:
            raise ResultsError(
                f"the sweep can't be queued: {error.strerror}", remedy=FULL_REMEDY
            ) from error
        self.jobs[job.id] = job
        self._thin_out()
        return job

    def stop(self, job_id: str) -> Job:
        """Stop a running sweep, or take a waiting one out of the queue.

        Raises:
            ResultsError: no such job, or it has ended.
        """
        job = self.jobs.get(job_id)
        if job is None or job.state in ENDED:
            raise ResultsError("that sweep does not run any more", remedy="look into its results")
        if job.state == "queued":
            return self._set(replace(job, state="stopped"))
        ask_to_stop(job)
        return self._set(replace(job, state="stopping"))

    def again(self, job_id: str) -> Job:
        """Queue an ended job's scenario once more; an unfinished sweep then goes on.

        Raises:
            ResultsError: no such job, or its scenario is gone.
        """
        job = self.jobs.get(job_id)
        try:
            if job is None or job.state not in ENDED:
                raise FileNotFoundError
            text = self._files.path(job, "toml").read_text()
        except OSError:
            raise ResultsError("that sweep's scenario is not here any more") from None
        return self.add(job.name, text)

    def tend(self) -> None:
        """See whether what ran has ended, and start the next if nothing else runs."""
        if job := self.running:
            self._see(job)
        if self.running is None and self.waiting and not self._somebody_runs(self._files.root):
            self._start(self.waiting[0])

    def _see(self, job: Job) -> None:
        code = self._process.poll() if self._process else None
        if code is None and is_alive(job):
            return
        self._process = None
        self._set(self._files.ended(job, code))

    def _start(self, job: Job) -> None:
        try:
            started, self._process = self._files.start(job)
        except OSError as error:
            started = replace(job, state="failed", says=f"it can't be started: {error.strerror}")
        self._set(started)

    def _set(self, job: Job) -> Job:
        self.jobs[job.id] = job
        # A full disk may not lose sight of a sweep that runs: it is known here all the same.
        with contextlib.suppress(OSError):
            self._files.keep(job)
        return job

    def _thin_out(self) -> None:
        ended = [job for job in self.jobs.values() if job.state in ENDED]
        for job in ended[: max(0, len(self.jobs) - _MOST_KEPT)]:
            del self.jobs[job.id]
            with contextlib.suppress(OSError):
                self._files.forget(job)
