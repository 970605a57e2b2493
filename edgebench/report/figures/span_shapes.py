"""Spans as rectangles of a figure over time: shades, and boxes in lanes.

Times of spans and windows are ns; of rectangles, seconds after ``start``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgebench.spans import Span

#: More than this, side by side, can't be seen on a page.
_MOST = 2000


def merged_spans(spans: Sequence[Span], start: int) -> list[tuple[float, float, float, float]]:
    """Left, low, right and high of shades as high as the axes.

    Spans closer to one another than a figure can show are one.
    """
    merged: list[tuple[int, int]] = []
    ordered = sorted(spans, key=lambda span: span.start_ns)
    gap = (max(s.end_ns for s in spans) - ordered[0].start_ns) // _MOST if spans else 0
    for span in ordered:
        if merged and span.start_ns <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end_ns))
        else:
            merged.append((span.start_ns, span.end_ns))
    return [((begin - start) / 1e9, 0.0, (end - start) / 1e9, 1.0) for begin, end in merged]


def span_boxes(
    spans: Sequence[Span], start: int, threads: Sequence[int], window: tuple[int, int]
) -> list[tuple[float, float, float, float]]:
    """Left, low, right and high of boxes in the strip: layers in their thread's lane.

    What together is too narrow to be seen is one.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        lane = found.setdefault(0 if span.layer is None else threads.index(span.thread or 0), [])
        if lane and span.end_ns - lane[-1][0] < (window[1] - window[0]) // _MOST:
            lane[-1] = lane[-1][0], max(lane[-1][1], span.end_ns)
        elif span.start_ns < window[1] and span.end_ns > window[0]:
            lane.append((span.start_ns, span.end_ns))
    height = 0.9 * (1 if spans[0].layer is not None else max(len(threads), 1))
    return [
        ((begin - start) / 1e9, lane + 0.05, (end - start) / 1e9, lane + 0.05 + height)
        for lane, joined in found.items()
        for begin, end in joined
    ]
