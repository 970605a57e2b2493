"""What every heap profiler's output becomes: the heap at moments, linked to spans, and a reading.

By allocation sequence: a profiler that the worker can reach gets a number at each boundary of a
span, so what was allocated before it and what after is exact, whatever the clocks say. By time: any
other point lies in a span if its ``t_ns`` does.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from edgebench.errors import ResultsError
from edgebench.measures.strategy import ErrorBar, Reading, SpanReading, Strategy, TrialData
from edgebench.spans import Span

#: (a span's id, ``start`` or ``end``) → the number the profiler got there, and the moment.
Boundaries = dict[tuple[int, str], tuple[int, int]]


@dataclass(frozen=True)
class HeapPoint:
    """The heap at one moment.

    Attributes:
        t_ns: ``CLOCK_MONOTONIC``, as far as the profiler's clock can tell.
        live_bytes: requested by the program and not yet freed.
        peak_bytes: the most that was live since the point before; None if the tool doesn't tell.
        boundary: the worker's number for the boundary of a span at which this was seen; None of
            a point between boundaries.
    """

    t_ns: int
    live_bytes: int
    peak_bytes: int | None = None
    boundary: int | None = None

    @property
    def highest_bytes(self) -> int:
        """The most known to have been live since the point before."""
        return max(self.live_bytes, self.peak_bytes or 0)


@dataclass(frozen=True)
class HeapProfile:
    """One trial's heap.

    Attributes:
        points: in the order in which the program allocated.
        unseen_bytes: the most that the heap can have risen between two points, unseen; None if
            nothing bounds it.
        error: where that, and what the times are worth, comes from.
        notes: what a reader must know, as that a dump is cut short.
        line: (``t_ns``, live bytes) where the profiler tells more moments than points.
    """

    points: tuple[HeapPoint, ...]
    unseen_bytes: int | None
    error: str
    notes: tuple[str, ...] = ()
    line: tuple[tuple[int, int], ...] = ()


def boundaries(events: Iterable[Mapping[str, Any]]) -> Boundaries:
    """Find the numbered boundaries among the events; none where no profiler got numbers."""
    numbered: Boundaries = {}
    for event in events:
        view, edge = event.get("view"), event.get("event")
        number = view.get("boundary") if isinstance(view, dict) else None
        place, t_ns = event.get("id"), event.get("t_ns")
        if isinstance(number, int) and isinstance(place, int) and isinstance(t_ns, int):
            numbered[(place, str(edge))] = (number, t_ns)
    return numbered


def boundary_times(numbered: Boundaries) -> dict[int, int]:
    """Map the number of a boundary → its ``t_ns``: the first, where boundaries share a number."""
    return dict(sorted(numbered.values(), reverse=True))


def link(
    points: Sequence[HeapPoint], spans: Sequence[Span], numbered: Boundaries
) -> tuple[SpanReading, ...]:
    """Find the heap of each span that has a point before or in it.

    Args:
        points: the trial's, in order.
        spans: the trial's.
        numbered: the :func:`boundaries` of its events; none: by time.
    """
    times = [point.t_ns for point in points]
    places = {point.boundary: at for at, point in enumerate(points) if point.boundary is not None}
    linked = []
    for span in spans:
        edges = (numbered.get((span.id, edge)) for edge in ("start", "end"))
        start, end = (places.get(boundary[0]) if boundary else None for boundary in edges)
        if start is None or end is None:
            start = bisect_left(times, span.start_ns) - 1
            end = bisect_right(times, span.end_ns) - 1
        if end < 0:
            continue
        before, inside = points[start] if start >= 0 else None, points[start + 1 : end + 1]
        known = [point.highest_bytes for point in inside]
        known = [before.live_bytes, *known] if before else known
        linked.append(
            SpanReading(
                id=span.id,
                before_bytes=before.live_bytes if before else None,
                peak_bytes=max(known),
                after_bytes=inside[-1].live_bytes if inside else known[0],
            )
        )
    return tuple(linked)


class HeapStrategy(Strategy):
    """A heap profiler around the workload, in a trial of its own."""

    own_trial = True
    #: Whether what the program maps, such as weights, is counted.
    counts_mapped: ClassVar[bool] = False
    #: How a peak is measured.
    method: ClassVar[str]

    @abstractmethod
    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Read what the profiler left in the trial's folder.

        Args:
            folder: as :meth:`Strategy.wrap` had it.
            numbered: the boundaries that the profiler knows by number.
            offset_ns: wall clock − ``CLOCK_MONOTONIC``.

        Raises:
            ResultsError: it left nothing that can be read; says why, as far as known.
        """

    def read(self, trial: TrialData) -> Reading:
        """Read the heap's peak, its line over time, and each span's figures.

        Raises:
            ResultsError: as :meth:`profile`.
        """
        if trial.folder is None:
            raise ResultsError(f"{self.title} needs a trial of its own")
        numbered = boundaries(trial.events)
        profile = self.profile(trial.folder, numbered, time.time_ns() - time.monotonic_ns())
        readings = link(profile.points, trial.spans, numbered)
        error = ErrorBar(profile.unseen_bytes, profile.error)
        linked = "the order of allocation" if numbered else "time"
        return Reading(
            strategy=self.name,
            peak_bytes=max((point.highest_bytes for point in profile.points), default=None),
            method=self.method,
            error=error,
            spans=readings,
            span_method=f"{self.method}; linked to spans by {linked}",
            span_error=error,
            line=profile.line or tuple((p.t_ns, p.live_bytes) for p in profile.points),
            parts=_parts(trial.spans, readings) if self.counts_mapped else {},
            missing={f"note {number}": note for number, note in enumerate(profile.notes, 1)},
        )


def _parts(spans: Sequence[Span], readings: Sequence[SpanReading]) -> dict[str, int]:
    """Return ``parameters``: by how much the heap grew over the loads of the first round's layers.

    Nothing where threads overlap: what one allocates falls into the other's spans.
    """
    read = {reading.id: reading for reading in readings}
    layers = [span for span in spans if span.layer is not None and span.id in read]
    first = min((span.round for span in layers), default=None)
    layers = [span for span in layers if span.round == first]
    loads = [read[span.id] for span in layers if span.phase == "load"]
    if not loads or len({span.thread for span in layers}) > 1:
        return {}
    return {"parameters": sum((r.after_bytes or 0) - (r.before_bytes or 0) for r in loads)}
