"""Spans and notes, written as events to the descriptor the harness gave."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

from edgebench.measures.view import Descriptors, View
from edgebench.workloads.events import (
    SpanPlace,
    Used,
    collection_line,
    end_line,
    note_line,
    start_line,
)

NO_DESCRIPTORS: Descriptors = {
    "events": -1,
    "usage": None,
    "peak": None,
    "peak_resets": False,
    "swap": None,
    "swap_is_memsw": False,
    "stat": None,
    "kernel": None,
    "control": None,
}


@dataclass
class _Open:
    """A span under way, and the largest marks seen in it so far: the kernel's, the view's."""

    peak_bytes: int | None = None
    view_peak_bytes: int | None = None


class Started(NamedTuple):
    """A span that has started, and what the process had used till then."""

    number: int
    whole: bool
    used: Used


class Recorder:
    """Writes events. Thread-safe. At each boundary the kernel's mark is read and reset.

    Args:
        descriptors: what the harness opened.
        view: what a strategy reads as well, in a trial of its own; timed trials have none.
    """

    def __init__(self, descriptors: Descriptors = NO_DESCRIPTORS, view: View | None = None) -> None:
        self._fds = descriptors
        #: Of rounds, by the harness (:mod:`edgebench.workloads.round_control`).
        self.control = descriptors["control"]
        self._peak_fd = descriptors["peak"] if descriptors["peak_resets"] else None
        self._view = view
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}
        self._ids = itertools.count()
        self._threads: dict[int, int] = {}

    def span(
        self,
        phase: str,
        *,
        round: int | None = None,  # noqa: A002 - the event's key
        network: str | None = None,
        layer: int | None = None,
        name: str | None = None,
    ) -> AbstractContextManager[None]:
        """Record one phase, or one layer in a phase, from its start to its end.

        One that an error cuts short has no end.
        """
        return _Span(self, SpanPlace(phase, round, network, layer, name))

    def phases(self, number: int, network: str) -> Phases:
        """Record a round whose phases follow each other.

        Where one ends the next begins, at one boundary instead of two, for half the cost.
        """
        return Phases(self, SpanPlace("round", number, network, None, None))

    def start(self, place: SpanPlace, *ending: Started) -> Started:
        """Start a span where these end, the innermost first."""
        whole = place.layer is None
        lines, seen = self._turn(ending, whole)
        with self._lock:
            number, thread = next(self._ids), self._thread()
            self._open[number] = _Open()
        self._write(lines + start_line(number, place, thread, time.monotonic_ns(), seen))
        return Started(number, whole, getrusage(RUSAGE_SELF))

    def end(self, *ending: Started) -> None:
        """End these spans, the innermost first."""
        self._write(self._turn(ending, ending[0].whole)[0])

    def note(self, **data: Any) -> None:
        """Record anything else worth keeping."""
        self._write(note_line(time.monotonic_ns(), data))

    def collection(self, start_ns: int, end_ns: int, generation: int, collected: int) -> None:
        """Record a garbage collection. Takes no lock: it may come at any allocation."""
        self._write(collection_line(start_ns, end_ns, generation, collected))

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Have the view of a strategy read this figure too, bytes, at each boundary."""
        if self._view:
            self._view.gauges[name] = read

    def free_bytes(self, limit_bytes: int | None) -> int | None:
        """What a limit leaves beside what is in use now; None without a limit or its counter."""
        usage = self._read("usage")
        return None if limit_bytes is None or usage is None else max(0, limit_bytes - usage)

    @property
    def profile_folder(self) -> Path | None:
        """Where an engine writes its own profile, if a strategy wants times of operators."""
        return self._view.profile_folder if self._view else None

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Report to such a strategy how often an operator was called, and its own time."""
        if self._view:
            self._view.operator_time(phase, operator, calls, own_ns)

    @property
    def wants_holders(self) -> bool:
        """Whether a strategy needs to know which memory holds what."""
        return self._view is not None and self._view.wants_holders

    def holds(self, category: str, *addresses: int) -> None:
        """Report to such a strategy that the memory at these addresses is of this category."""
        if self._view:
            self._view.holds(category, addresses)

    def holds_itself(self, category: str, size_bytes: int) -> None:
        """Report to it that so many bytes of this category lie outside torch's allocator."""
        if self._view:
            self._view.holds_itself(category, size_bytes)

    def _turn(self, ending: Sequence[Started], whole: bool) -> tuple[str, dict[str, Any]]:
        """A boundary: the lines of what ends there, and what is seen."""
        t_ns = time.monotonic_ns()
        used = getrusage(RUSAGE_SELF)
        with self._lock:
            seen = self._boundary(whole, [self._open[one.number] for one in ending])
            marks = [self._open.pop(one.number) for one in ending]
        lines = []
        for one, mark in zip(ending, marks, strict=True):
            told = {**seen, "view_peak_bytes": mark.view_peak_bytes} if self._view else seen
            lines.append(end_line(one.number, t_ns, told, mark.peak_bytes, (one.used, used)))
        return "".join(lines), seen

    def _boundary(self, whole: bool, ending: Sequence[_Open]) -> dict[str, Any]:
        """What is seen at a boundary; open spans get the marks, which are then reset.

        Usage is read before the view looks, and the marks are reset after: what looking costs
        is in neither.
        """
        peak = None if self._peak_fd is None else int(os.pread(self._peak_fd, 32, 0))
        seen: dict[str, Any] = self._usage()
        # A mark that is the usage is as if reset: it may stay, for the spans that go on to find.
        stays = peak == seen["usage_bytes"] and not self._view
        if peak is not None:
            for span in ending if stays else self._open.values():
                if span.peak_bytes is None or span.peak_bytes < peak:
                    span.peak_bytes = peak
        if self._view:
            self._fold_view(self._view.mark())
            seen["view"] = self._view.look(whole)
            self._view.reset()
        if self._peak_fd is not None and not stays:
            os.pwrite(self._peak_fd, b"0", 0)
        return seen

    def _fold_view(self, mark: int | None) -> None:
        for span in self._open.values() if mark is not None else ():
            span.view_peak_bytes = max(span.view_peak_bytes or 0, mark or 0)

    def _usage(self) -> dict[str, int | None]:
        usage, swap = self._read("usage"), self._read("swap")
        if self._fds["swap_is_memsw"] and usage is not None and swap is not None:
            swap = max(0, swap - usage)
        return {"usage_bytes": usage, "swap_bytes": swap}

    def _read(self, name: str) -> int | None:
        fd = self._fds[name]  # type: ignore[literal-required]
        return None if fd is None else int(os.pread(fd, 32, 0))

    def _thread(self) -> int:
        return self._threads.setdefault(threading.get_ident(), len(self._threads))

    def _write(self, lines: str) -> None:
        if self._fds["events"] >= 0:
            os.write(self._fds["events"], lines.encode())


class _Span(AbstractContextManager[None]):
    """One span of a recorder."""

    def __init__(self, recorder: Recorder, place: SpanPlace) -> None:
        self._recorder, self._place = recorder, place

    def __enter__(self) -> None:
        self._started = self._recorder.start(self._place)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._recorder.end(self._started)


class Phases(AbstractContextManager["Phases"]):
    """A round of a recorder, phase after phase; what an error cuts short has no end."""

    def __init__(self, recorder: Recorder, place: SpanPlace) -> None:
        self._recorder, self._place = recorder, place
        #: The phase under way, if any.
        self._phase: tuple[Started, ...] = ()

    def __enter__(self) -> Phases:
        self._round = self._recorder.start(self._place)
        return self

    def begin(self, phase: str) -> None:
        """The phase before it ends, and this one begins."""
        place = self._place._replace(phase=phase)
        self._phase = (self._recorder.start(place, *self._phase),)

    def pause(self) -> None:
        """The phase ends; what comes now is in none."""
        self._recorder.end(*self._phase)
        self._phase = ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._recorder.end(*self._phase, self._round)
