"""Spans and notes, written as events to the descriptor the harness gave."""

from __future__ import annotations

import itertools
import json
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from edgebench.workloads.events import Descriptors
from edgebench.workloads.view import Holding, View

NO_DESCRIPTORS: Descriptors = {
    "events": -1,
    "usage": None,
    "peak": None,
    "peak_resets": False,
    "swap": None,
    "swap_is_memsw": False,
    "stat": None,
    "kernel": None,
}


@dataclass
class _Open:
    """A span under way, and the largest marks seen in it so far: the kernel's, the view's."""

    whole: bool
    peak_bytes: int | None = None
    view_peak_bytes: int | None = None


class Recorder:
    """Writes events. Thread-safe. At each boundary the kernel's mark is read and reset.

    Args:
        descriptors: what the harness opened.
        view: what a strategy reads as well, in a trial of its own; timed trials have none.
    """

    def __init__(self, descriptors: Descriptors = NO_DESCRIPTORS, view: View | None = None) -> None:
        self._fds = descriptors
        self._peak_fd = descriptors["peak"] if descriptors["peak_resets"] else None
        self._view = view
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}
        self._ids = itertools.count()
        self._threads: dict[int, int] = {}

    @contextmanager
    def span(
        self,
        phase: str,
        *,
        round: int | None = None,  # noqa: A002 - the event's key
        network: str | None = None,
        layer: int | None = None,
        name: str | None = None,
    ) -> Iterator[None]:
        """Record one phase, or one layer in a phase, from its start to its end."""
        number = next(self._ids)
        start = {"event": "start", "id": number, "phase": phase, "round": round}
        place = {"network": network, "layer": layer, "name": name}
        with self._lock:
            place["thread"] = self._thread()
            seen = self._boundary(layer is None)
            self._open[number] = _Open(layer is None)
        self._write({**start, **place, "t_ns": time.monotonic_ns(), **seen})
        before = resource.getrusage(resource.RUSAGE_SELF)
        yield
        # Not in a finally: a span cut short by an error has no end.
        t_ns = time.monotonic_ns()
        after = resource.getrusage(resource.RUSAGE_SELF)
        with self._lock:
            seen = self._boundary(layer is None, ending=self._open[number])
            ended = self._open.pop(number)
        if self._view:
            seen["view_peak_bytes"] = ended.view_peak_bytes
        self._write(
            {
                "event": "end",
                "id": number,
                "t_ns": t_ns,
                **seen,
                "peak_bytes": ended.peak_bytes,
                "cpu_ns": round_ns(after) - round_ns(before),
                "major_faults": after.ru_majflt - before.ru_majflt,
                "minor_faults": after.ru_minflt - before.ru_minflt,
                "maxrss_bytes": after.ru_maxrss * 1024,
            }
        )

    def note(self, **data: Any) -> None:
        """Record anything else worth keeping."""
        self._write({"event": "note", "t_ns": time.monotonic_ns(), "data": data})

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Have the view of a strategy read this figure too, bytes, at each boundary."""
        if self._view:
            self._view.gauges[name] = read

    @property
    def told_holders(self) -> bool:
        """Whether a strategy wants to be told who holds which memory."""
        return isinstance(self._view, Holding)

    def holds(self, category: str, *addresses: int) -> None:
        """Tell a strategy that asks that what lies at these addresses is of this category."""
        if isinstance(self._view, Holding):
            self._view.holds(category, addresses)

    def holds_itself(self, category: str, size_bytes: int) -> None:
        """Tell it that so many bytes of this category lie past its allocator from now on."""
        if isinstance(self._view, Holding):
            self._view.holds_itself(category, size_bytes)

    def _boundary(self, whole: bool, ending: _Open | None = None) -> dict[str, Any]:
        """What is seen at a boundary; open spans get the marks, which are then reset.

        Usage is read before the view looks, and the marks are reset after: what looking costs
        is in neither.
        """
        peak = None if self._peak_fd is None else int(os.pread(self._peak_fd, 32, 0))
        seen: dict[str, Any] = self._usage()
        # A mark that is the usage is as if reset: it may stay, for the spans that go on to find.
        stays = peak == seen["usage_bytes"] and not self._view
        if peak is not None:
            for span in (ending,) if stays else self._open.values():
                if span and (span.peak_bytes is None or span.peak_bytes < peak):
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

    def _write(self, event: dict[str, Any]) -> None:
        if self._fds["events"] >= 0:
            os.write(self._fds["events"], json.dumps(event).encode() + b"\n")


def round_ns(used: resource.struct_rusage) -> int:
    """CPU time of a process in nanoseconds."""
    return round((used.ru_utime + used.ru_stime) * 1e9)
