"""Progress of long work on stderr: a bar on a terminal, one line a trial elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.units import format_duration

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from edgebench.records.records import TrialRecord
    from edgebench.trial.recording import TrialRequest


def describe(request: TrialRequest) -> str:
    """``alexnet linear copy at 75%``: the settings that tell one trial's point from another's."""
    settings = request.settings
    networks = "+".join(settings.get("networks", [])) or settings["kind"]
    words = [networks, *(str(settings[k]) for k in ("schedule", "loader") if k in settings)]
    swap = request.limits.swap_kind
    whose = f", {request.strategy}'s own" if request.strategy else ""
    return f"{' '.join(words)} at {request.limits.label}, swap {swap}{whose}"


class LineProgress:
    """One line a trial: for logs, pipes and continuous integration."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done = self._before = self._total = 0
        self._request: TrialRequest | None = None

    def stage(self, text: str) -> None:
        """Say what is under way."""
        click.echo(f"{text} …", err=True)

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Say where the results go and how much is to do."""
        resumed = f", {done} of them finished earlier" if done else ""
        click.echo(f"{total} trials{resumed} → {folder}", err=True)
        self._began, self._total, self._done, self._before = time.monotonic(), total, done, done

    def trial(self, request: TrialRequest) -> None:
        """Remember what runs, to name it when it has ended."""
        self._request = request

    def finished(self, record: TrialRecord) -> None:
        """One line: which trial, its outcome, how long it took, how long it may still take."""
        self._done += 1
        what = describe(self._request) if self._request else record.trial
        click.echo(
            f"[{self._done}/{self._total}] {what}: {record.outcome}, "
            f"{format_duration(record.wall_s or 0.0)}, {self._left()} left",
            err=True,
        )

    def planned(self, total: int) -> None:
        """Count further trials in."""
        self._total = total

    def _left(self) -> str:
        each = (time.monotonic() - self._began) / max(1, self._done - self._before)
        return format_duration(each * (self._total - self._done))

    def close(self) -> None:
        """Nothing to put away."""


class BarProgress:
    """A bar that is drawn twice a second at most."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar: RichProgress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True, markup=False),
            refresh_per_second=2,
        )
        self._task: TaskID | None = None
        self._bar.start()

    def stage(self, text: str) -> None:
        """Say what is under way, above the bar."""
        self._bar.console.print(f"{text} …", highlight=False)

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Start the bar where an earlier start left off."""
        self._bar.console.print(f"results: {folder}", highlight=False, soft_wrap=True)
        self._task = self._bar.add_task("", total=total, completed=done)

    def trial(self, request: TrialRequest) -> None:
        """Name the trial that runs."""
        if self._task is not None:
            self._bar.update(self._task, description=describe(request))

    def finished(self, record: TrialRecord) -> None:
        """Move on; a trial that did not end well is named above the bar."""
        if record.outcome not in ("ok", "oom-killed"):
            self._bar.console.print(f"trial {record.trial}: {record.outcome}: {record.reason}")
        if self._task is not None:
            self._bar.advance(self._task)

    def planned(self, total: int) -> None:
        """Make room for further trials."""
        if self._task is not None:
            self._bar.update(self._task, total=total)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()


def make_progress() -> LineProgress | BarProgress:
    """A bar on a terminal, lines elsewhere."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()
