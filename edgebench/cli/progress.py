"""Progress of trials on stderr: a live block on a terminal, few lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.known_slowdowns import KnownSlowdowns, workload_name
from edgebench.kills import needs_explanation
from edgebench.records import LimitSetting
from edgebench.results.live.sweep import time_left_s
from edgebench.text import printable
from edgebench.units import format_duration, format_limit
from edgebench.words.doubts import doubt_sentence
from edgebench.words.outcomes import brief_reason

if TYPE_CHECKING:
    from rich.text import Text

    from edgebench.records import TrialRecord
    from edgebench.run.trial_record import TrialRequest

_EXPECTED = ("ok", "oom-killed", "accelerator-oom")
_LONGEST_LINE = 80
_BAR, _PLAIN_BAR = ("━", "─"), ("#", "-")


#: Between two drawings, each of which takes about a millisecond of one core.
_TICK_S = 1.0
#: A stage that takes less than this has no line of its own in a log.
_LONG_STAGE_S = 3.0
#: The first line in a log, and the longest time between two: a silent job may be ended.
_FIRST_LINE_S, _LONGEST_SILENCE_S = 15.0, 300.0
_DUMB = ("", "dumb", "unknown")


class TrialProgress:
    """Follows the trials. What shows them extends it; ``lock``: against a thread that draws.

    ``announces``: report the results' folder and the number of trials when they begin.
    """

    announces = True

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known = KnownSlowdowns()
        self._created = self._began = self._since = time.monotonic()
        self._done = self._before = 0
        self._total: int | None = None
        self._grows = False
        self._stage: str | None = None
        self._request: TrialRequest | None = None
        self._limits = LimitSetting()
        self._unexpected: dict[tuple[str, str | None], list[str]] = {}

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""
        with self.lock:
            self._stage, self._since = text, time.monotonic()

    def begin(self, folder: Path, total: int, done: int) -> None:
        """The trials begin; an earlier start has finished ``done`` of them."""
        with self.lock:
            self._began, self._total = time.monotonic(), total
            self._done = self._before = done
        if self.announces:
            self.report(_begin_words(folder, None if self._grows else total, done))

    def trial(self, request: TrialRequest) -> None:
        """A trial starts."""
        with self.lock:
            self._stage, self._request, self._since = None, request, time.monotonic()
            self._limits = request.limits
            self.known.point(request)

    def moved(self, limits: LimitSetting) -> None:
        """The trial's limit has been moved, in a walk."""
        with self.lock:
            self._limits = limits

    def finished(self, record: TrialRecord) -> None:
        """A trial is recorded; the first of each unexpected kind is reported at once."""
        with self.lock:
            self._done += 1
            request, self._request = self._request, None
            if request is None:
                return
            self.known.add(request, record)
            for doubt in record.broken_limits:
                self._note(request, "limit not held", printable(doubt_sentence(doubt)))
            if record.outcome in _EXPECTED and not needs_explanation(record):
                return
            # A search stops a trial that has become slow enough to tell.
            if self._grows and record.outcome == "timeout" and record.limit_bytes is not None:
                return
            self._note(request, record.outcome, brief_reason(record))

    def _note(self, request: TrialRequest, what: str, reason: str | None) -> None:
        points = self._unexpected.setdefault((what, reason), [])
        points.append(self.point_words(request))
        if len(points) == 1:
            self.report(_unexpected_words(points, what, reason))

    def planned(self, total: int) -> None:
        """The records led to further trials: their number is not known before the end."""
        with self.lock:
            self._total, self._grows = total, True

    def report(self, line: str) -> None:
        """Show a line that stays."""
        click.echo(printable(line), err=True)

    def close(self) -> None:
        """The trials are over: report each unexpected end that came again, with all its points."""
        for (outcome, reason), points in self._unexpected.items():
            if len(points) > 1:
                self.report(_unexpected_words(points, outcome, reason))

    @property
    def share(self) -> float | None:
        """How much of the trials is done, 0 to 1; None before the first, and for a search."""
        return self._done / self._total if self._total and not self._grows else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._created

    @property
    def left_s(self) -> float | None:
        """How long the trials left take; None before the first has ended."""
        if self._total is None:
            return None
        now = time.monotonic()
        under_way_s = now - self._since if self._request else 0.0
        took_s, made = now - under_way_s - self._began, self._done - self._before
        return time_left_s(took_s, made, self._total - self._done, under_way_s)

    def count_words(self) -> str:
        """``trial 18 of 45``: the one under way, or the last; empty before there is a plan."""
        if self._total is None:
            return ""
        so_far = " so far" if self._grows else ""
        number = min(self._done + (self._request is not None), self._total)
        trials = "1 trial" if self._total == 1 else f"{self._total} trials"
        return f"trial {number} of {self._total}{so_far}" if number else f"{trials}{so_far}"

    def time_words(self) -> str:
        """``1 min 12 s, about 2 min 3 s left``."""
        words, left = _clock(self.elapsed_s), self.left_s
        if left is None or self._done == self._total or (self._grows and left < 1):
            return words
        return f"{words}, {'at least' if self._grows else 'about'} {_clock(left)} left"

    def now_words(self, width: int = _LONGEST_LINE) -> str:
        """The point under way, or what is done between trials, and for how long, in that width."""
        since = f" ({_clock(time.monotonic() - self._since)})"
        if self._stage is not None:
            return printable(self._stage) + since
        if self._request is None:
            return ""
        now = replace(self._request, limits=self._limits)
        without_name = len(self.point_words(now, 1)) - 1 + len(since)
        return self.point_words(now, max(8, width - without_name)) + since

    def point_words(self, request: TrialRequest, longest: int = _LONGEST_LINE) -> str:
        """``alexnet at 40% (184.9 MiB)``: the limit of a trial, and its workload cut to fit."""
        label = workload_name(request)
        name = self.known.names.get(label, label)
        name = name if len(name) <= longest else f"{name[: longest - 1]}…"
        limit = format_limit(request.limits.label, request.limits.memory_bytes)
        whose = f", for strategy {request.strategy}" if request.strategy else ""
        return f"{name}{', ' if limit == 'unlimited' else ' at '}{limit}{whose}"


def _unexpected_words(points: list[str], outcome: str, reason: str | None) -> str:
    """``timeout, 4 trials: alexnet at 40%; resnet18 at 40%: ran past its time limit``."""
    trials = f", {len(points)} trials" if len(points) > 1 else ""
    told = f": {' '.join(printable(reason).split())}" if reason else ""
    return f"{outcome}{trials}: {'; '.join(dict.fromkeys(points))}{told}"


def _clock(seconds: float) -> str:
    """Whole seconds: what is read at a glance."""
    return f"{seconds:.0f} s" if seconds < 59.5 else format_duration(seconds)


class LineProgress(TrialProgress):
    """One line for each trial: ``--verbose``."""

    def stage(self, text: str) -> None:
        """Print what is being done."""
        super().stage(text)
        self.report(f"{text} …")

    def finished(self, record: TrialRecord) -> None:
        """Print which trial ended, its outcome and time, and the time left for all others."""
        request = self._request
        super().finished(record)
        what = self.point_words(request) if request else record.trial
        took = format_duration(record.wall_s or 0.0)
        self.report(f"{self.count_words()}: {what}: {record.outcome}, {took}; {self.time_words()}")


class _Ticking(TrialProgress):
    """Shows how far the trials are every now and then, from a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick_on, name="progress", daemon=True)

    def start(self) -> None:
        """Begin to show."""
        self._thread.start()

    def close(self) -> None:
        """Show nothing more but what has to be reported."""
        self._over.set()
        self._thread.join()
        super().close()

    def _tick_on(self) -> None:
        while not self._over.wait(_TICK_S):
            with self.lock:
                self.tick()

    def tick(self) -> None:
        """Show the state, if it is time to."""
        raise NotImplementedError


class LogProgress(_Ticking):
    """A line every now and then, ever more rarely: for logs, pipes, continuous integration."""

    def __init__(self) -> None:
        super().__init__()
        self._due_s = _FIRST_LINE_S
        self._said: str | None = None

    def tick(self) -> None:
        """A line that is due, or the name of a stage that takes long."""
        stage = self._stage
        if stage and stage != self._said and time.monotonic() - self._since >= _LONG_STAGE_S:
            self._said = stage
            self.report(f"{stage} …")
        if self.elapsed_s < self._due_s:
            return
        self._due_s = self.elapsed_s + min(self.elapsed_s, _LONGEST_SILENCE_S)
        words = filter(None, (self.count_words(), self.time_words(), self.now_words()))
        self.report("; ".join(words))


def head_lines(progress: TrialProgress, width: int, encoding: str) -> list[Text]:
    """What changes all the time: the count, the clock, a bar, and the point under way."""
    from edgebench.cli.live_block import WIDEST, block_text, in_encoding, is_utf8

    words = " · ".join(filter(None, (progress.count_words(), progress.time_words())))
    lines = [block_text(words, "bold")]
    if progress.share is not None:
        full, rest = _BAR if is_utf8(encoding) else _PLAIN_BAR
        cells = min(width, WIDEST)
        done = round(progress.share * cells)
        bar = block_text(full * done, "green")
        bar.append(rest * (cells - done), "dim")
        lines.append(bar)
    if now := progress.now_words(min(width, WIDEST) - len("now: ")):
        lines.append(block_text(f"now: {now}"))
    return in_encoding(lines, encoding)


class LiveProgress(_Ticking):
    """A block of the terminal that is drawn once a second, and gone at the end."""

    announces = False

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = Console(stderr=True, markup=False, highlight=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )
        self._drawn: tuple[int, int, int] | None = None
        self._picture: list[Text] = []

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()
        super().start()

    def stage(self, text: str) -> None:
        """Name what is done, at once."""
        super().stage(text)
        self.tick()

    def tick(self) -> None:
        """Draw the block; the picture is made anew only after a trial, or in another size."""
        from rich.console import Group

        from edgebench.cli.live_block import picture_lines

        with self.lock:
            width, height = self._console.size
            encoding = self._console.encoding
            head = head_lines(self, width, encoding)
            now = (width, height, self._done)
            if now != self._drawn:
                self._drawn = now
                # The cursor takes the last line.
                room = height - 1 - len(head)
                self._picture = [*picture_lines(self.known, width, room, encoding)]
            self._live.update(Group(*head, *self._picture), refresh=True)

    def report(self, line: str) -> None:
        """Print it above the block."""
        self._console.print(printable(line), soft_wrap=True)

    def close(self) -> None:
        """Remove the block, and report what is left to report below it."""
        self._over.set()
        self._thread.join()
        self._live.stop()
        TrialProgress.close(self)


def _begin_words(folder: Path, total: int | None, done: int) -> str:
    """``45 trials, 18 of them finished earlier → results/…``; ``total`` is None for a search."""
    if total is None:
        return f"trials{f', {done} finished earlier' if done else ''} → {folder}"
    resumed = f", {done} of them finished earlier" if done else ""
    return f"{total} {'trial' if total == 1 else 'trials'}{resumed} → {folder}"


def _is_terminal() -> bool:
    """Whether stderr is a terminal that can move its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in _DUMB


@contextmanager
def shown_progress(verbose: bool = False) -> Iterator[TrialProgress]:
    """Show how far the trials are until the end; ``verbose``: a line for each, everywhere."""
    progress: LineProgress | LogProgress | LiveProgress
    if verbose:
        progress = LineProgress()
    else:
        progress = LiveProgress() if _is_terminal() else LogProgress()
        progress.start()
    try:
        yield progress
    finally:
        progress.close()
