"""Progress of trials on stderr: a live table and a bar; not on a terminal, a line per trial."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich import progress as rich_progress
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table

from edgebench.answers.trials import end_words, reason_words, warned, warning_lines
from edgebench.need import needs_explanation
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.live_sweep import time_left_s
from edgebench.results.times import trial_times
from edgebench.results.workload_key import (
    WorkloadKey,
    brief_names,
    other_limits_label,
    workload_label,
)
from edgebench.run.trial.record import TrialRequest
from edgebench.text import format_duration, format_limit, printable, shortened

_EXPECTED = ("ok", "oom-killed", "accelerator-oom")


class LineProgress:
    """Print a line on stderr for each trial that has ended."""

    def __init__(self, verbose: bool = False) -> None:
        self._verbose = verbose
        self._began = time.monotonic()
        self._done = self._before = self._total = 0
        self._grows = False
        self._names: dict[str, str] = {}

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""
        if self._verbose:
            self.report(f"{text} …")

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Begin; an earlier start has finished ``done`` trials."""
        self._began, self._total = time.monotonic(), total
        self._done = self._before = done
        count = "trials" if self._grows else "1 trial" if total == 1 else f"{total} trials"
        earlier = f", {done} {'' if self._grows else 'of them '}finished earlier" if done else ""
        if 0 < done == total:
            earlier += " (--fresh: a new search)"
        self.report(f"{count}{earlier} → {folder}")

    def planned(self, total: int) -> None:
        """Show a new total: the records led to further trials."""
        self._total, self._grows = total, True

    def trial(self, request: TrialRequest) -> None:
        """Show that a trial starts."""

    def moved(self, limits: LimitSetting) -> None:
        """Show that a walk moved the trial's limit."""

    def finished(self, record: TrialRecord) -> None:
        """Print which trial ended, its outcome and time, and the time left for all others."""
        self._done += 1
        took_s, made = time.monotonic() - self._began, self._done - self._before
        left_s = time_left_s(took_s, made, self._total - self._done, 0.0)
        more = f"; about {format_duration(left_s)} left" if left_s and not self._grows else ""
        so_far = " so far" if self._grows else ""
        self.report(f"trial {self._done} of {self._total}{so_far}: {self._end_words(record)}{more}")

    def report(self, line: str) -> None:
        """Show a line that stays."""
        click.echo(printable(line), err=True)

    def _end_words(self, record: TrialRecord) -> str:
        """``alexnet at 40% (184.9 MiB): failed, 1.2 s: exit code 3``."""
        limit, took = _limit_words(record.limits), format_duration(record.wall_s or 0.0)
        words = f"{self._name(record)}{', ' if limit == 'unlimited' else ' at '}{limit}"
        words += f", for strategy {record.strategy}" if record.strategy else ""
        return ": ".join([words, f"{record.outcome}, {took}", *_surprises(record)])

    def _name(self, trial: TrialRequest | TrialRecord) -> str:
        """Return what the trial runs, without the words that all workloads share."""
        name = _workload_name(trial)
        if name not in self._names:
            self._names = brief_names([*self._names, name])
        return self._names[name]


@dataclass
class _Point:
    """A workload at a limit, and how its trials ended."""

    workload: str
    base: WorkloadKey
    limit: str
    limit_bytes: float
    times_s: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)


class LiveProgress(LineProgress):
    """A table of the limits tried so far and a bar, redrawn once a second, gone at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, markup=False, highlight=False)
        now = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        # The rate of all trials, not of the last 30 s: one trial may take minutes.
        self._bar = rich_progress.Progress(
            rich_progress.MofNCompleteColumn(),
            rich_progress.BarColumn(bar_width=12),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.description}", markup=False, table_column=now),
            console=self._console,
            expand=True,
            speed_estimate_period=1e9,
        )
        self._bar.add_task("", total=None)
        (self._task,) = self._bar.tasks
        self.live = Live(self._bar, console=self._console, refresh_per_second=1, transient=True)
        self._points: dict[tuple[str, str], _Point] = {}
        self._reported: set[tuple[str, ...]] = set()
        self._request: TrialRequest | None = None

    def stage(self, text: str) -> None:
        """Name what is done."""
        self._task.description = printable(text)

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Start the bar."""
        self._bar.reset(self._task.id, total=None if self._grows else total, completed=done)

    def planned(self, total: int) -> None:
        """Show no total: the number of trials is not known before the end."""
        super().planned(total)
        self._task.total = self._task.finished_time = None

    def trial(self, request: TrialRequest) -> None:
        """Name the trial that starts."""
        self._request = request
        self.moved(request.limits)

    def moved(self, limits: LimitSetting) -> None:
        """Name the limit that the trial is at."""
        if self._request:
            self.stage(f"{_limit_words(limits)} {self._name(self._request)}")

    def finished(self, record: TrialRecord) -> None:
        """Add the trial to the table; the first of each unexpected kind is reported at once."""
        self._bar.advance(self._task.id)
        # A search stops a trial that has become slow enough to tell.
        stopped = self._grows and record.outcome == "timeout" and record.limit_bytes is not None
        kind = tuple(_surprises(record))
        if kind and not stopped and kind not in self._reported:
            self._reported.add(kind)
            self.report(self._end_words(record))
        # A strategy's own trial says nothing of time.
        if record.strategy is None:
            self._add(record)
        self.live.update(self._view())

    def report(self, line: str) -> None:
        """Print it above the table."""
        self._console.print(printable(line), soft_wrap=True)

    def _add(self, record: TrialRecord) -> None:
        base = WorkloadKey.of(record.settings, record.limits).any_swap
        limit, size = _limit_words(record.limits), record.limit_bytes or math.inf
        point = _Point(_workload_name(record), base, limit, size)
        # What was tried last stands last: it is what stays where there is no room for all.
        point = self._points.pop((point.workload, limit), point)
        self._points[point.workload, limit] = point
        point.ends[record.outcome] += 1
        if (seconds := trial_times(record).get("total")) is not None:
            point.times_s.append(seconds)

    def _view(self) -> Group:
        """Return the table of the points tried last, as many as fit, above the bar."""
        points = list(self._points.values())
        unlimited = {
            point.base: statistics.median(point.times_s)
            for point in points
            if point.times_s and point.limit_bytes == math.inf
        }
        width, height = self._console.size
        table = Table(box=None, pad_edge=False, padding=(0, 2 if width > 60 else 1, 0, 0))
        if len(self._names) > 1:
            table.add_column("workload", no_wrap=True, max_width=width // 3)
        for title in ("limit", "ok", "time", "slower"):
            table.add_column(title, no_wrap=True, justify="right")
        table.add_column(no_wrap=True)
        # The header, the bar and the last line take three; an echoed ^C needs an empty last one.
        shown = points[-max(1, height - 3) :]
        order = list(self._names)
        for point in sorted(shown, key=lambda p: (order.index(p.workload), -p.limit_bytes)):
            seconds = statistics.median(point.times_s) if point.times_s else None
            base_s = unlimited.get(point.base)
            table.add_row(
                *([self._names[point.workload]] if len(self._names) > 1 else []),
                point.limit,
                f"{point.ends['ok']}/{point.ends.total()}",
                "" if seconds is None else format_duration(seconds),
                f"{seconds / base_s:.2f}x" if seconds and base_s else "",
                end_words(point.ends),
            )
        return Group(table, self._bar, "")


def _surprises(record: TrialRecord) -> list[str]:
    """Return what the table of outcomes doesn't tell about the end of a trial."""
    found = warning_lines(warned(record.broken_limits))
    if record.outcome not in _EXPECTED or needs_explanation(record):
        found.append(reason_words(record) or "for an unknown reason")
    return [" ".join(words.split()) for words in found]


def _limit_words(limits: LimitSetting) -> str:
    return format_limit(limits.label, limits.memory_bytes)


def _workload_name(trial: TrialRequest | TrialRecord) -> str:
    """Return what a trial runs and under which limits other than memory.

    Safe to print, on one line.
    """
    words = f"{workload_label(trial.settings)}{other_limits_label(trial.limits)}"
    parts = (" ".join(printable(part).split()) for part in words.split(" · "))
    return " · ".join(shortened(part) for part in parts)


@contextmanager
def shown_progress(verbose: bool = False) -> Iterator[LineProgress]:
    """Show how far the trials are until the end; ``verbose``: a line for each, everywhere."""
    if verbose or not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        yield LineProgress(verbose)
        return
    progress = LiveProgress()
    with progress.live:
        yield progress
