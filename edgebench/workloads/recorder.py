"""What a workload tells the harness: spans, notes, and what a strategy's view wants to know."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from edgebench.measures.view import Descriptors, View
from edgebench.workloads.events import (
    SpanPlace,
    accelerator_line,
    collection_line,
    note_line,
)
from edgebench.workloads.span_recorder import SpanRecorder, Started

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
    "records": None,
}


class Recorder(SpanRecorder):
    """Records what a workload does, as :class:`~edgebench.workloads.span_recorder.SpanRecorder`."""

    def __init__(self, descriptors: Descriptors = NO_DESCRIPTORS, view: View | None = None) -> None:
        super().__init__(descriptors, view)
        #: Of rounds, by the harness (:mod:`edgebench.workloads.round_control`).
        self.control = descriptors["control"]

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

    def note(self, **data: Any) -> None:
        """Record anything else worth keeping."""
        self._line(note_line(time.monotonic_ns(), data))

    def accelerator_event(self, **data: Any) -> None:
        """Record what an accelerator is, or what it did."""
        self._line(accelerator_line(time.monotonic_ns(), data))

    def collection(self, start_ns: int, end_ns: int, generation: int, collected: int) -> None:
        """Record a garbage collection, which may come at any allocation."""
        self._line_at_any_time(collection_line(start_ns, end_ns, generation, collected))

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Have the view of a strategy read this figure too, bytes, at each boundary."""
        if self._view:
            self._view.gauges[name] = read

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
        _, number, network, _, _ = self._place
        place = SpanPlace(phase, number, network, None, None)
        self._phase = (self._recorder.start(place, *self._phase),)

    def pause(self) -> None:
        """The phase ends; what comes now is in none."""
        self._recorder.end(*self._phase)
        self._phase = ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._recorder.end(*self._phase, self._round)
