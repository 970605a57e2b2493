"""Spans as shapes: what is too narrow to see is joined, each thread has its lane."""

from __future__ import annotations

import pytest

from edgebench.report.figures.memory_time import merged_spans, span_boxes
from edgebench.report.figures.scales import rectangles
from edgebench.spans import Span

MS = 1_000_000


def span(start_ms: float, end_ms: float, thread: int = 0, layer: int | None = 0) -> Span:
    """A span of loading."""
    return Span(
        id=0,
        phase="load",
        round=0,
        network="lenet",
        layer=layer,
        name="conv",
        thread=thread,
        start_ns=round(start_ms * MS),
        end_ns=round(end_ms * MS),
        cpu_s=None,
        usage_before_bytes=None,
        usage_after_bytes=None,
        swap_before_bytes=None,
        swap_after_bytes=None,
        peak_bytes=None,
        major_faults=None,
        minor_faults=None,
    )


def test_layers_stand_in_their_threads_lanes():
    """Two threads: two lanes; left and right are seconds from the start."""
    boxes = span_boxes([span(10, 30), span(20, 40, thread=7)], 0, [0, 7], (0, 100 * MS))
    assert boxes == [
        pytest.approx((0.01, 0.05, 0.03, 0.95)),
        pytest.approx((0.02, 1.05, 0.04, 1.95)),
    ]


def test_a_whole_phase_is_as_high_as_all_lanes():
    """Beside two lanes of layers, a phase without any spans both."""
    (box,) = span_boxes([span(10, 30, layer=None)], 0, [0, 7], (0, 100 * MS))
    assert box == pytest.approx((0.01, 0.05, 0.03, 1.85))


def test_neighbours_too_narrow_to_be_seen_are_one():
    """A thousand layers of a microsecond are a box; a wide one beside them stays apart.

    So no box is left out: all that was under way is under a box.
    """
    narrow = [span(10 + n / 1000, 10 + (n + 1) / 1000) for n in range(1000)]
    boxes = span_boxes([*narrow, span(11, 50)], 0, [0], (0, 10_000 * MS))
    assert boxes == [
        pytest.approx((0.01, 0.05, 0.011, 0.95)),
        pytest.approx((0.011, 0.05, 0.05, 0.95)),
    ]
    assert len(span_boxes(narrow, 0, [0], (10 * MS, 11 * MS))) == 1000


def test_spans_outside_the_window_are_left_out():
    """Before it and after it; one that reaches into it stays."""
    spans = [span(0, 10), span(15, 25), span(25, 35), span(40, 50)]
    boxes = span_boxes(spans, 0, [0], (20 * MS, 30 * MS))
    assert [box[0] for box in boxes] == [0.015, 0.025]


def test_shades_close_to_one_another_are_one():
    """A gap that a figure can't show is none."""
    shades = merged_spans([span(5, 10), span(10.001, 20), span(30, 40)], 5 * MS)
    assert shades == [pytest.approx((0, 0, 0.015, 1)), pytest.approx((0.025, 0, 0.035, 1))]


def test_rectangles_are_one_shape_with_all_their_corners():
    """Each box is a closed part of the same path."""
    (path,) = rectangles([(0, 1, 2, 3), (4, 5, 6, 7)]).get_paths()
    parts = [part.tolist() for part in path.to_polygons()]
    assert parts == [
        [[0, 1], [0, 3], [2, 3], [2, 1], [0, 1]],
        [[4, 5], [4, 7], [6, 7], [6, 5], [4, 5]],
    ]
