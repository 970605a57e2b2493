"""The heap's points are given to the spans that were running."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.measures.strategies import HeapPoint, boundaries, boundary_times, link
from edgebench.spans import finished_spans


def span(number: int, start: int, end: int, seen: tuple[int, int] | None) -> list[dict[str, Any]]:
    """A layer's two events; ``seen``: what the profiler was told at them."""
    views = [{"boundary": boundary} for boundary in seen] if seen else [{}, {}]
    place = {"phase": "load", "round": 0, "network": "n", "layer": number, "name": f"l{number}"}
    return [
        {"event": "start", "id": number, "t_ns": start, "view": views[0], **place},
        {"event": "end", "id": number, "t_ns": end, "view": views[1]},
    ]


def linked(
    points: list[HeapPoint], events: list[dict[str, Any]]
) -> list[tuple[int | None, int | None, int | None]]:
    """Before, peak and after of each span."""
    readings = link(points, finished_spans(events), boundaries(events))
    return [(one.before_bytes, one.peak_bytes, one.after_bytes) for one in readings]


def test_boundaries_decide_whatever_the_clocks_say() -> None:
    points = [
        HeapPoint(900, 10, boundary=1),
        HeapPoint(5, 70),
        HeapPoint(900, 40, peak_bytes=90, boundary=2),
        # A profiler's mark may be of an earlier moment: no less was held than at the end.
        HeapPoint(900, 60, peak_bytes=50, boundary=3),
    ]
    events = [*span(0, 100, 200, (1, 2)), *span(1, 200, 300, (2, 3))]
    assert linked(points, events) == [(10, 90, 40), (40, 60, 60)]


def test_without_boundaries_time_decides() -> None:
    """A point counts to the span it lies in; a span without one keeps what was there before."""
    points = [HeapPoint(50, 10), HeapPoint(150, 80), HeapPoint(190, 30)]
    events = [*span(0, 100, 200, None), *span(1, 200, 300, None), *span(2, 10, 20, None)]
    assert linked(points, events) == [(10, 80, 30), (30, 30, 30)]


def test_a_span_with_one_boundary_is_linked_by_time() -> None:
    """Its other end is in no point: the profiler was ended before."""
    points = [HeapPoint(50, 10, boundary=1), HeapPoint(150, 80), HeapPoint(190, 30)]
    assert linked(points, span(0, 100, 200, (1, 9))) == [(10, 80, 30)]


def test_a_layer_that_changed_nothing_shares_a_boundary() -> None:
    events = span(0, 100, 200, (4, 4))
    points = [HeapPoint(100, 25, boundary=4)]
    assert linked(points, events) == [(25, 25, 25)]
    assert boundary_times(boundaries(events)) == {4: 100}


@pytest.mark.parametrize("view", [None, [], {"boundary": "1"}, {"rss": 3}])
def test_events_that_tell_no_boundary_are_no_boundaries(view: object) -> None:
    assert boundaries([{"event": "end", "id": 1, "t_ns": 5, "view": view}]) == {}
