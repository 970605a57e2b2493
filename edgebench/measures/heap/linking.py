"""Links a heap's points to the spans (phases, layers) that were running.

By allocation sequence: a profiler that the worker can reach is told of each boundary of a span,
so what was allocated before it and what after is exact, whatever the clocks say. By time: any
other point lies in a span if its ``t_ns`` does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.measures.heap.profile import Point, Stack
from edgebench.measures.strategy import SpanReading
from edgebench.records.phases import Span

#: (a span's id, ``start`` or ``end``) → the number the profiler was told there, and the moment.
Boundaries = dict[tuple[int, str], tuple[int, int]]


@dataclass(frozen=True)
class SpanHeap:
    """The heap in one span, and who held it when it was largest, as far as that was seen."""

    span: Span
    reading: SpanReading
    stacks: tuple[Stack, ...]


def boundaries(events: Iterable[Mapping[str, Any]]) -> Boundaries:
    """The numbered boundaries among the events; none where no profiler was told."""
    found: Boundaries = {}
    for event in events:
        view, edge = event.get("view"), event.get("event")
        number = view.get("boundary") if isinstance(view, dict) else None
        place, t_ns = event.get("id"), event.get("t_ns")
        if isinstance(number, int) and isinstance(place, int) and isinstance(t_ns, int):
            found[(place, str(edge))] = (number, t_ns)
    return found


def moments(told: Boundaries) -> dict[int, int]:
    """Number of a boundary → its ``t_ns``: the first, where boundaries share what was seen."""
    return dict(sorted(told.values(), reverse=True))


def link(points: Sequence[Point], spans: Sequence[Span], told: Boundaries) -> tuple[SpanHeap, ...]:
    """The heap of each span that has a point before or in it.

    Args:
        points: the trial's, in order.
        spans: the trial's.
        told: the :func:`boundaries` of its events; none: by time.
    """
    times = [point.t_ns for point in points]
    places = {point.boundary: at for at, point in enumerate(points) if point.boundary is not None}
    linked = []
    for span in spans:
        start, end = (_place(places, told, span.id, edge) for edge in ("start", "end"))
        if start is None or end is None:
            start = bisect_left(times, span.start_ns) - 1
            end = bisect_right(times, span.end_ns) - 1
        if end >= 0:
            before = points[start] if start >= 0 else None
            linked.append(_span_heap(span, before, points[start + 1 : end + 1]))
    return tuple(linked)


def _place(places: Mapping[int, int], told: Boundaries, number: int, edge: str) -> int | None:
    boundary = told.get((number, edge))
    return places.get(boundary[0]) if boundary else None


def _span_heap(span: Span, before: Point | None, inside: Sequence[Point]) -> SpanHeap:
    known = [*([before.live_bytes] if before else []), *(point.highest_bytes for point in inside)]
    telling = [point for point in inside if point.stacks]
    highest = max(telling, key=lambda point: point.highest_bytes, default=None)
    reading = SpanReading(
        id=span.id,
        before_bytes=before.live_bytes if before else None,
        peak_bytes=max(known),
        after_bytes=inside[-1].live_bytes if inside else known[0],
    )
    return SpanHeap(span, reading, highest.stacks if highest else ())
