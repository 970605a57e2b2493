"""Trials one after another in one session, shown as they start and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgebench.cgroups.kernel_checks import check_limit
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.workloads.engines.engine import TORCH


class Progress(Protocol):
    """Gets what happens while trials run; the command line shows it."""

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Begin: ``total`` trials, ``done`` finished by an earlier start."""

    def trial(self, request: TrialRequest) -> None:
        """Show that a trial starts."""

    def moved(self, limits: LimitSetting) -> None:
        """Show that a walk moved the trial's limit."""

    def finished(self, record: TrialRecord) -> None:
        """Show that a trial is recorded."""

    def planned(self, total: int) -> None:
        """Show that the records led to further trials: ``total`` is the new number of all."""


@dataclass
class TrialLoop:
    """The trials of one session, and the time they took.

    ``workload_s`` is the part of ``trials_s`` in which workloads ran; the rest is the harness's.
    """

    session: Session
    progress: Progress
    trials: int = 0
    trials_s: float = 0.0
    workload_s: float = 0.0

    def run(
        self,
        requests: Iterable[TrialRequest],
        make: Callable[[TrialRequest], TrialRecord],
        keep: Callable[[TrialRecord], None],
    ) -> None:
        """Make each trial, keep its record, then show it as finished."""
        for request in requests:
            began = time.monotonic()
            self.progress.trial(request)
            record = make(request)
            keep(record)
            self.progress.finished(record)
            self.trials += 1
            self.trials_s += time.monotonic() - began
            self.workload_s += record.wall_s or 0.0

    def unkept(self, request: TrialRequest) -> TrialRecord:
        """Make a trial whose files are not kept."""
        return run_trial(self.session.setup, request, TrialFiles.scratch(self.session.folder))

    def warm(self, engine: str = TORCH) -> TrialRecord:
        """Import the runtime once, so that no trial is charged for reading its files."""
        self.progress.stage("warming the runtime")
        settings = {"kind": "import", "engine": engine}
        return self.unkept(TrialRequest("warm", "warm", 0, 0, settings, LimitSetting()))


@contextmanager
def open_trial_loop(
    progress: Progress,
    *,
    interval_s: float | None,
    stat_interval_s: float | None,
) -> Iterator[TrialLoop]:
    """Open a session in which memory limits are known to be enforced.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time.
    """
    with open_session(interval_s=interval_s, stat_interval_s=stat_interval_s) as session:
        for sentence in session.cleared:
            progress.stage(f"cleaned up after an earlier sweep: {sentence}")
        progress.stage("checking that memory limits are enforced")
        check_limit(session.setup.parent)
        yield TrialLoop(session, progress)
