"""How far the trials are, in words: what lines and the live block show."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.cli.known_slowdowns import KnownSlowdowns, workload_name
from edgebench.kills import brief_reason, needs_explanation
from edgebench.records import CONFINEMENT, LimitSetting
from edgebench.text import printable
from edgebench.units import format_duration, format_limit

if TYPE_CHECKING:
    from edgebench.records import TrialRecord
    from edgebench.run.trial_record import TrialRequest

_EXPECTED = ("ok", "oom-killed", "accelerator-oom")
_LONGEST_LINE = 80


class TrialProgress:
    """Follows the trials. What shows them extends it; ``lock``: against a thread that draws."""

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
            if broken := record.missing.get(CONFINEMENT):
                self._note(request, "limit not held", printable(broken))
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
        raise NotImplementedError

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
        """Trials left times what one took on the mean; None before the first has ended."""
        made = self._done - self._before
        if self._total is None or made < 1:
            return None
        now = time.monotonic()
        under_way = now - self._since if self._request else 0.0
        each = (now - under_way - self._began) / made
        return max(0.0, each * (self._total - self._done) - under_way)

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
