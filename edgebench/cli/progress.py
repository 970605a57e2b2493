"""Progress of trials on stderr: a live block on a terminal, few lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.trial_progress import TrialProgress
from edgebench.text import printable
from edgebench.units import format_duration

if TYPE_CHECKING:
    from rich.text import Text

    from edgebench.records import TrialRecord

#: Between two drawings, each of which takes about a millisecond of one core.
_TICK_S = 1.0
#: A stage that takes less than this has no line of its own in a log.
_LONG_STAGE_S = 3.0
#: The first line in a log, and the longest time between two: a silent job may be ended.
_FIRST_LINE_S, _LONGEST_SILENCE_S = 15.0, 300.0
_DUMB = ("", "dumb", "unknown")


class LineProgress(TrialProgress):
    """One line for each trial: ``--verbose``."""

    def stage(self, text: str) -> None:
        """Print what is being done."""
        super().stage(text)
        self.report(f"{text} …")

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Print the results' folder and the number of trials."""
        super().begin(folder, total, done)
        self.report(_begin_words(folder, None if self._grows else total, done))

    def finished(self, record: TrialRecord) -> None:
        """Print which trial ended, its outcome and time, and the time left for all others."""
        request = self._request
        super().finished(record)
        what = self.point_words(request) if request else record.trial
        took = format_duration(record.wall_s or 0.0)
        self.report(f"{self.count_words()}: {what}: {record.outcome}, {took}; {self.time_words()}")

    def report(self, line: str) -> None:
        """Print it."""
        click.echo(printable(line), err=True)


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

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Print the results' folder and the number of trials."""
        super().begin(folder, total, done)
        self.report(_begin_words(folder, None if self._grows else total, done))

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

    def report(self, line: str) -> None:
        """Print it."""
        click.echo(printable(line), err=True)


class LiveProgress(_Ticking):
    """A block of the terminal that is drawn once a second, and gone at the end."""

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

        from edgebench.cli.live_block import head_lines, picture_lines

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
        """Remove the block."""
        self._over.set()
        self._thread.join()
        self._live.stop()
        super().close()


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
