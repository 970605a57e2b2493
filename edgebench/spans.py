"""From a worker's events to spans and to each phase's sum.

The events may come from a worker that was killed at any instant, or from a broken one:
incomplete spans are left out, nothing is guessed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

from edgebench.records import LARGEST, PhaseSum

#: The ``round`` of a phase that runs before the first round (``import``, ``init``).
NO_ROUND = -1
#: Phases whose time is that on the clock: much of it is spent between layers, as in attention.
_ON_THE_CLOCK = ("prefill", "decode")
#: What no time of a trial's rounds holds.
BEFORE_ROUNDS = ("import", "init")


class Span(NamedTuple):
    """One phase, or one layer in a phase, that began and ended.

    ``cpu_s`` and the faults are the whole process's within the span; ``usage_*`` and ``swap_*``
    are the cgroup's at its start and end. ``round`` is -1 outside rounds. ``id`` is the span's
    in its events.
    """

    id: int
    phase: str
    round: int
    network: str | None
    layer: int | None
    name: str | None
    thread: int | None
    start_ns: int
    end_ns: int
    cpu_s: float | None
    usage_before_bytes: int | None
    usage_after_bytes: int | None
    swap_before_bytes: int | None
    swap_after_bytes: int | None
    peak_bytes: int | None
    major_faults: int | None
    minor_faults: int | None

    @property
    def wall_s(self) -> float:
        """Seconds from start to end."""
        return (self.end_ns - self.start_ns) / 1e9


def finished_spans(events: Iterable[dict[str, Any]]) -> list[Span]:
    """Return the spans that began and ended, in the order they ended."""
    spans = (_span(*pair) for pair in paired_events(events))
    return [span for span in spans if span is not None]


def paired_events(
    events: Iterable[dict[str, Any]], open_spans: dict[int, dict[str, Any]] | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the start and the end of each span, in the order they ended.

    ``open_spans`` keeps the starts of those under way, by their ids, the innermost last.
    """
    begun = {} if open_spans is None else open_spans
    for event in events:
        number = _count(event, "id")
        if number is not None and event.get("event") == "start":
            begun[number] = event
        elif number in begun and event.get("event") == "end":
            yield begun.pop(number), event


def unfinished_span(events: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the start event of the innermost span that never ended; None if all ended."""
    unfinished = unfinished_spans(events)
    return unfinished[-1] if unfinished else None


def unfinished_spans(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the start events of the spans that never ended, the innermost last."""
    open_spans: dict[int, dict[str, Any]] = {}
    deque(paired_events(events, open_spans), maxlen=0)
    return list(open_spans.values())


def events_to_phases(events: Iterable[dict[str, Any]]) -> list[PhaseSum]:
    """Each phase's sum per round and network.

    Where a phase has spans of layers, these are summed and its whole-phase spans are not: they
    would count twice; of ``prefill`` and ``decode`` the whole-phase spans are.
    ``import``, ``init`` and ``round`` are their own spans. A round that never
    ended is left out, since a partial sum looks like a whole one.
    """
    events = list(events)
    cut = {_round(start) for start in unfinished_spans(events)} - {NO_ROUND}
    groups: dict[tuple[int, str | None, str], list[Span]] = {}
    for span in finished_spans(events):
        if span.round not in cut:
            groups.setdefault((span.round, span.network, span.phase), []).append(span)
    return [_sum(spans) for spans in groups.values()]


def first_round_end_ns(events: Iterable[dict[str, Any]]) -> int | None:
    """When the first round ended, monotonic; None: none did."""
    rounds = (span for span in finished_spans(events) if span.phase == "round")
    return min((span.end_ns for span in rounds), default=None)


def collections_s(events: Sequence[dict[str, Any]]) -> float | None:
    """Seconds of garbage collections within rounds; None of a workload without events.

    One between two phases of a round counts; those before the first round and between rounds delay
    nothing that is timed.
    """
    if not events:
        return None
    collections = [event for event in events if event.get("event") == "collection"]
    if not collections:
        return 0.0
    # Layers lie within their phase, so the many spans of layers need not be looked at.
    whole = finished_spans(event for event in events if event.get("layer") is None)
    spans = (span for span in whole if span.phase not in BEFORE_ROUNDS)
    rounds = sorted(spans, key=attrgetter("start_ns"))
    # By the latest end so far, a long training's spans need not all be looked at again.
    latest = list(accumulate((span.end_ns for span in rounds), max))
    return sum(_longest_overlap(one, rounds, latest) for one in collections) / 1e9


def _longest_overlap(
    collection: dict[str, Any], spans: Sequence[Span], latest: Sequence[int]
) -> int:
    """Nanoseconds of it within the span that has most of it: spans nest, or run side by side.

    ``spans`` by their start; ``latest`` is the latest end of each and all before it.
    """
    start, end = _count(collection, "start_ns"), _count(collection, "t_ns")
    if start is None or end is None:
        return 0
    first, last = bisect_right(latest, start), bisect_left(spans, end, key=attrgetter("start_ns"))
    shared = (min(end, span.end_ns) - max(start, span.start_ns) for span in spans[first:last])
    return max(0, max(shared, default=0))


def _sum(spans: Sequence[Span]) -> PhaseSum:
    layers = [span for span in spans if span.layer is not None]
    counted = layers or spans
    if spans[0].phase in _ON_THE_CLOCK or (layers and layers[0].cpu_s is None):
        counted = [span for span in spans if span.layer is None] or spans
    passes = Counter(span.layer for span in counted)
    return PhaseSum(
        round=spans[0].round,
        network=spans[0].network,
        phase=spans[0].phase,
        wall_s=sum(span.wall_s for span in counted),
        cpu_s=_total([span.cpu_s for span in counted]),
        # The glue between layers has a peak too, so the whole-phase spans count here.
        peak_bytes=max((s.peak_bytes for s in spans if s.peak_bytes is not None), default=None),
        major_faults=_total([span.major_faults for span in counted]),
        passes=max(passes.values()),
    )


def _total(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)


def _span(start: dict[str, Any], end: dict[str, Any]) -> Span | None:
    start_ns, end_ns, phase = _count(start, "t_ns"), _count(end, "t_ns"), _text(start, "phase")
    if start_ns is None or end_ns is None or phase is None or end_ns < start_ns:
        return None
    cpu_ns = _count(end, "cpu_ns")
    return Span(
        id=start["id"],
        phase=phase,
        round=_round(start),
        network=_text(start, "network"),
        layer=_count(start, "layer"),
        name=_text(start, "name"),
        thread=_count(start, "thread"),
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_s=cpu_ns / 1e9 if cpu_ns is not None else None,
        usage_before_bytes=_count(start, "usage_bytes"),
        usage_after_bytes=_count(end, "usage_bytes"),
        swap_before_bytes=_count(start, "swap_bytes"),
        swap_after_bytes=_count(end, "swap_bytes"),
        peak_bytes=_count(end, "peak_bytes"),
        major_faults=_count(end, "major_faults"),
        minor_faults=_count(end, "minor_faults"),
    )


def _round(start: dict[str, Any]) -> int:
    number = _count(start, "round")
    return NO_ROUND if number is None else number


def _count(event: dict[str, Any], key: str) -> int | None:
    value = event.get(key)
    # What is_count asks, without a call: a training has a million of these numbers.
    return value if type(value) is int and -LARGEST <= value <= LARGEST else None


def _text(event: dict[str, Any], key: str) -> str | None:
    value = event.get(key)
    return value if isinstance(value, str) else None
