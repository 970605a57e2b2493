"""Torch's own allocations, from its profiler, in a trial of its own."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.measures.inside import ALLOCATIONS, FOLDER_VARIABLE, TORCH, VIEW_VARIABLE
from edgebench.measures.strategy import ErrorBar, Reading, Seen, SpanReading, Strategy
from edgebench.records.phases import Span

_THREADS = "it ran in a thread of its own, which torch's profiler does not follow"


@dataclass(frozen=True)
class _Profile:
    """Allocations in order: when (the profiler's clock), and bytes in use after each."""

    times: list[int]
    in_use: list[int]
    #: Number of a boundary → when it was.
    boundaries: dict[int, int]

    def at(self, t_ns: int) -> int:
        """Bytes in use at a moment."""
        before = bisect_left(self.times, t_ns)
        return self.in_use[before - 1] if before else 0

    def most(self, start: int, end: int) -> int:
        """The most in use between two moments."""
        inside = self.in_use[bisect_left(self.times, start) : bisect_left(self.times, end)]
        return max([self.at(start), *inside])


class TorchAllocations(Strategy):
    """What torch's CPU allocator has handed out and not got back, since torch was imported."""

    name = "torch"
    title = "torch's allocations"
    counts = "tensors and workspace that torch's CPU allocator handed out, byte for byte"
    blind_to = (
        "weights, which the loaders map themselves; whatever does not come from torch's allocator "
        "(Python, the libraries' own data and buffers); threads that a schedule starts; whether a "
        "byte was ever touched"
    )
    own_trial = True
    inside_worker = True

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The worker runs torch's profiler and leaves a file."""
        return list(command), {**env, VIEW_VARIABLE: TORCH, FOLDER_VARIABLE: str(folder)}

    def read(self, seen: Seen) -> Reading:
        """From the file the worker left.

        Raises:
            ResultsError: there is none, or it is cut short.
        """
        profile = _profile(seen.folder)
        exact = ErrorBar(0, "every allocation is told, with its size")
        moments = moments_of(seen.events, profile.boundaries)
        spans = tuple(
            reading for span in seen.spans if (reading := _span(profile, moments, span)) is not None
        )
        unseen = sum(span.layer is not None for span in seen.spans) - sum(
            span.layer is not None for span in seen.spans if span.id in moments
        )
        return Reading(
            strategy=self.name,
            peak_bytes=max(profile.in_use, default=0),
            method="the running sum of its profiler's allocations",
            error=exact,
            spans=spans,
            span_method="the largest sum between the span's ends",
            span_error=exact,
            line=_line(profile, seen.events),
            missing={"spans": f"{unseen} layers: {_THREADS}"} if unseen else {},
        )


def _profile(folder: Path | None) -> _Profile:
    path = (folder or Path()) / ALLOCATIONS
    try:
        told: dict[str, Any] = json.loads(path.read_bytes())
        allocations = [(int(t), int(size)) for t, size in told["allocations"]]
        boundaries = {int(number): int(t) for t, number in told["boundaries"]}
    except FileNotFoundError:
        raise ResultsError("torch's profiler left no file: the worker ended before it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"torch's profile is cut short: {error}") from None
    sizes = accumulate(size for _, size in allocations)
    return _Profile([t for t, _ in allocations], list(sizes), boundaries)


def moments_of(
    events: Sequence[Mapping[str, Any]], boundaries: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Span's id → its start and end on the profiler's clock, from its boundaries' numbers."""
    starts: dict[object, int] = {}
    found: dict[int, tuple[int, int]] = {}
    for event in events:
        boundary: int = (event.get("view") or {}).get("boundary", 0)
        if boundary not in boundaries:
            continue
        if event.get("event") == "start":
            starts[event.get("id")] = boundaries[boundary]
        elif event.get("id") in starts:
            found[event["id"]] = (starts[event["id"]], boundaries[boundary])
    return found


def _span(
    profile: _Profile, moments: Mapping[int, tuple[int, int]], span: Span
) -> SpanReading | None:
    if span.id not in moments:
        return None
    start, end = moments[span.id]
    return SpanReading(span.id, profile.at(start), profile.most(start, end), profile.at(end))


def _line(profile: _Profile, events: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, int], ...]:
    """The sum over time on the events' clock, set by the boundaries that both know."""
    pairs = sorted(
        (profile.boundaries[boundary], event["t_ns"] - profile.boundaries[boundary])
        for event in events
        if (boundary := (event.get("view") or {}).get("boundary")) in profile.boundaries
    )
    if not pairs:
        return ()
    known = [t for t, _ in pairs]
    return tuple(
        (t + pairs[max(0, bisect_left(known, t) - 1)][1], size)
        for t, size in zip(profile.times, profile.in_use, strict=True)
    )
