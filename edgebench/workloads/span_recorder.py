"""Spans from boundary to boundary: what is read there, and when it is written."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from edgebench.measures.view import Descriptors, View
from edgebench.workloads.cgroup_readings import CgroupReadings
from edgebench.workloads.events import (
    SpanPlace,
    Spent,
    Used,
    accelerator_line,
    end_line,
    spent_between,
    start_line,
)
from edgebench.workloads.record_buffer import RecordBuffer

if TYPE_CHECKING:
    from edgebench.workloads.accelerator_phases import AcceleratorPhases


@dataclass(slots=True)
class Started:
    """A span under way.

    Args:
        whole: a phase or a round, no layer.
        used: what the process had used when it began.
        peak_bytes: the largest mark seen in it so far, the kernel's; ``view_peak_bytes``: the
            view's.
    """

    number: int
    whole: bool
    used: Used
    peak_bytes: int | None = None
    view_peak_bytes: int | None = None


class SpanRecorder:
    """Records spans. Thread-safe. At each boundary the kernel's mark is read and reset.

    Their lines are written when the outermost span has ended. In a trial with a view, which is not
    timed, they are written at once.

    Args:
        descriptors: what the harness opened.
        view: what a strategy reads as well, in a trial of its own; timed trials have none.
    """

    def __init__(self, descriptors: Descriptors, view: View | None) -> None:
        self._events_fd = descriptors["events"]
        self._cgroup = CgroupReadings(descriptors)
        self._records = RecordBuffer(descriptors["records"])
        self._view = view
        self._lock = Lock()
        self._open: dict[int, Started] = {}
        self._ids = itertools.count()
        #: Numbers of threads, in the order in which they are first seen.
        self._threads: dict[int, int] = defaultdict(itertools.count().__next__)
        #: Follows the spans where an accelerator computes.
        self.accelerator: AcceleratorPhases | None = None
        #: Lines that came while something was being recorded.
        self._waiting: list[str] = []

    def start(self, place: SpanPlace, *ending: Started) -> Started:
        """Start a span where these end, the innermost first."""
        if self.accelerator is not None:
            self.accelerator.wait()
        t_ns, used = time.monotonic_ns(), getrusage(RUSAGE_SELF)
        whole = place.layer is None
        with self._lock:
            looked = self._turn(t_ns, used, ending, whole)
            if self._records.is_full:
                self._write_records()
            number, thread = next(self._ids), self._threads[get_ident()]
            self._open[number] = span = Started(number, whole, used)
            if self.accelerator is not None:
                self.accelerator.begun(number, place)
            if looked is None:
                self._records.start(number, place, thread, self._cgroup.seen, time.monotonic_ns())
            else:
                self._write(start_line(number, place, thread, time.monotonic_ns(), looked))
        # Without what recording took.
        span.used = getrusage(RUSAGE_SELF)
        return span

    def end(self, *ending: Started) -> None:
        """End these spans, the innermost first."""
        if self.accelerator is not None:
            self.accelerator.wait()
        t_ns, used = time.monotonic_ns(), getrusage(RUSAGE_SELF)
        with self._lock:
            self._turn(t_ns, used, ending, ending[0].whole)
            if not self._open or self._records.is_full:
                self._write_records()

    def flush(self) -> None:
        """Write what is recorded so far."""
        with self._lock:
            self._write_records()

    def free_bytes(self, limit_bytes: int | None) -> int | None:
        """What a limit leaves beside what is in use now; None without a limit or its counter."""
        return self._cgroup.free_bytes(limit_bytes)

    def _line(self, line: str) -> None:
        """Write a line, after all spans so far."""
        with self._lock:
            self._write_records()
            self._write(line)

    def _line_at_any_time(self, line: str) -> None:
        """The same from code that may run while this thread records: it waits for no lock."""
        if not self._lock.acquire(blocking=False):
            self._waiting.append(line)
            return
        try:
            self._write(line)
        finally:
            self._lock.release()

    def _turn(
        self, t_ns: int, used: Used, ending: Sequence[Started], whole: bool
    ) -> dict[str, Any] | None:
        """A boundary: what ends there is recorded. Returns what is seen where a view looks."""
        if self.accelerator is not None:
            told = self.accelerator.turned(one.number for one in ending)
            self._waiting += [] if told is None else [accelerator_line(t_ns, told)]
        looked = None
        if self._view:
            looked = self._look(self._view, whole)
        else:
            self._read(used, ending)
        for one in ending:
            del self._open[one.number]
            spent = spent_between(one.used, used)
            if looked is None:
                seen = self._cgroup.seen
                self._records.end(one.number, t_ns, seen, one.peak_bytes, spent)
            else:
                more = {**looked, "view_peak_bytes": one.view_peak_bytes}
                self._write(end_line(one.number, t_ns, more, one.peak_bytes, Spent(*spent)))
        return looked

    def _read(self, used: Used, ending: Sequence[Started]) -> None:
        """Read the counters; open spans get the mark, which is then reset."""
        self._cgroup.read(used.ru_minflt + used.ru_majflt)
        peak = self._cgroup.peak_bytes
        if peak is None:
            return
        # A mark that is the usage is as if reset: it may stay, for the spans that go on to find.
        rests = peak == self._cgroup.usage_bytes
        for span in ending if rests else self._open.values():
            if span.peak_bytes is None or span.peak_bytes < peak:
                span.peak_bytes = peak
        if not rests:
            self._cgroup.reset_mark()

    def _look(self, view: View, whole: bool) -> dict[str, Any]:
        """What is seen where a view looks too; open spans get the marks, which are then reset.

        Usage is read before the view looks, and the marks are reset after: what looking costs
        is in neither.
        """
        self._cgroup.read(None)
        self._fold_peak(self._open.values())
        mark = view.mark()
        for span in self._open.values() if mark is not None else ():
            span.view_peak_bytes = max(span.view_peak_bytes or 0, mark or 0)
        usage, swap = self._cgroup.seen
        seen = {"usage_bytes": usage, "swap_bytes": swap, "view": view.look(whole)}
        view.reset()
        self._cgroup.reset_mark()
        return seen

    def _fold_peak(self, spans: Iterable[Started]) -> None:
        peak = self._cgroup.peak_bytes
        for span in spans if peak is not None else ():
            if span.peak_bytes is None or span.peak_bytes < (peak or 0):
                span.peak_bytes = peak

    def _write_records(self) -> None:
        for chunk in self._records.chunks() if self._events_fd >= 0 else ():
            os.write(self._events_fd, chunk)
        self._records.clear()
        while self._waiting:
            self._write(self._waiting.pop(0))

    def _write(self, lines: str) -> None:
        if self._events_fd >= 0:
            os.write(self._events_fd, lines.encode())
