"""Boundaries of spans, at which the figures of different strategies are compared.

Two peaks may be of different moments; then their difference means nothing. So figures are compared
at a boundary of a span, where the worker reads all counters at once: the one nearest to the peak.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgebench.measures.ledger import Figure
from edgebench.measures.strategies.process import resident
from edgebench.measures.strategy import ErrorBar
from edgebench.results.trial_readings import SpanKey, TrialReadings
from edgebench.spans import Span

Look = Mapping[str, int]


@dataclass(frozen=True)
class SpanBoundary:
    """One end of a span of the process's own trial.

    Args:
        key: which span.
        at_end: its end, else its start.
        look: what the worker read there.
        split: the nearest look that splits own memory by mapping.
        usage_bytes: the cgroup's usage there.
        kernel_bytes: the kernel's mark of the whole span; where it can't be reset, usage there.
        process_bytes: VmHWM of the whole span, or likewise the resident set there.
    """

    key: SpanKey
    span: Span
    at_end: bool
    look: Look
    split: Look
    usage_bytes: int
    kernel_bytes: int
    process_bytes: int

    @property
    def distance_bytes(self) -> int:
        """How far the cgroup's usage was from the span's peak."""
        return abs(self.kernel_bytes - self.usage_bytes)

    @property
    def resident_bytes(self) -> int:
        """The process's resident set there."""
        return resident(self.look) or 0

    @property
    def where(self) -> str:
        """In words."""
        return f"{'end' if self.at_end else 'start'} of {span_label(self.span)}"

    @property
    def where_marked(self) -> str:
        """Where the marks are of."""
        return self.where if self.span.peak_bytes is None else f"peak in {span_label(self.span)}"


def span_label(span: Span) -> str:
    """Write ``first alexnet features.8``."""
    words = [span.phase]
    if span.network:
        words.append(span.network)
    if span.layer is not None:
        words.append(span.name or f"layer {span.layer}")
    return " ".join(words)


def span_boundaries(process: TrialReadings) -> Iterator[SpanBoundary]:
    """Yield both ends of each span of which everything is known, in order of time.

    Spans around others are left out: their marks are of some instant inside, far from their ends.
    """
    looks, split = _looks(process), None
    outer = _outer(process)
    ends = [(span.start_ns, False, key) for key, span in process.spans.items()]
    ends += [(span.end_ns, True, key) for key, span in process.spans.items()]
    for _, at_end, key in sorted(ends):
        span = process.spans[key]
        look = looks.get((span.id, at_end))
        if look is not None and "in_files_bytes" in look:
            split = look
        reading = process.span_reading("process", key)
        if look is None or key in outer or reading is None or reading.peak_bytes is None:
            continue
        usage = span.usage_after_bytes if at_end else span.usage_before_bytes
        if usage is not None:
            # Two marks of one span may be subtracted; a mark and a figure at its end may not.
            kernel, marked = span.peak_bytes, reading.peak_bytes
            if kernel is None:
                kernel, marked = usage, resident(look) or 0
            yield SpanBoundary(key, span, at_end, look, split or {}, usage, kernel, marked)


def _outer(process: TrialReadings) -> set[SpanKey]:
    """Phases that have layers inside them."""
    layers = sorted(span.start_ns for span in process.spans.values() if span.layer is not None)
    return {
        key
        for key, span in process.spans.items()
        if span.layer is None
        and bisect_left(layers, span.start_ns) < bisect_left(layers, span.end_ns)
    }


def _looks(process: TrialReadings) -> dict[tuple[int, bool], Look]:
    return {
        (event["id"], event["event"] == "end"): event["view"]
        for event in process.seen.events
        if isinstance(event.get("view"), dict) and "rss_anon_bytes" in event["view"]
    }


def boundary_nearest_peak(ends: Sequence[SpanBoundary]) -> SpanBoundary | None:
    """Choose the end of a span that is nearer to its peak."""
    return min(ends, key=lambda moment: moment.distance_bytes, default=None)


def boundary_nearest_trial_peak(
    known: Sequence[SpanBoundary], slack_bytes: int
) -> SpanBoundary | None:
    """Find the boundary nearest to the kernel's peak of the whole trial.

    Under a limit many spans reach it: of those, the one where the process was largest.
    """
    highest = max((moment.kernel_bytes for moment in known), default=0)
    at_peak = [m for m in known if m.kernel_bytes >= highest - slack_bytes]
    nearest = min((m.distance_bytes for m in at_peak), default=0)
    near = [m for m in at_peak if m.distance_bytes <= max(nearest, slack_bytes)]
    return max(near, key=lambda m: (m.process_bytes, m.resident_bytes), default=None)


_READ = ErrorBar(None, "read at the boundaries of spans")


def trial_peak(trial: TrialReadings, strategy: str) -> Figure | None:
    """Return the whole trial's peak by this strategy; None if it has none."""
    reading = trial.readings.get(strategy)
    if reading is None or reading.peak_bytes is None:
        return None
    return Figure(strategy, reading.peak_bytes, trial.record.trial, "peak", reading.error)


def boundary_figure(trial: TrialReadings, strategy: str, size_bytes: int, where: str) -> Figure:
    """Make a figure that was read inside the trial."""
    reading = trial.readings.get(strategy)
    error = reading.span_error if reading else _READ
    return Figure(strategy, size_bytes, trial.record.trial, where, error)


def size_at_boundary(
    trial: TrialReadings, strategy: str, key: SpanKey, end: bool = True
) -> int | None:
    """Return what the strategy saw at the end of a span, or at its start."""
    reading = trial.span_reading(strategy, key)
    if reading is None:
        return None
    return reading.after_bytes if end else reading.before_bytes
