"""Torch's own allocations, from its profiler, in a trial of its own."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from edgebench.measures.strategy import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.torch_profiler import (
    ALLOCATIONS,
    MARKER,
    ProfilerView,
    Timeline,
    cut_short,
    read_profile,
    span_times,
)
from edgebench.measures.view import Descriptors

_THREADS = "it ran in a thread of its own, which torch's profiler does not follow"


class AllocationsView(ProfilerView):
    """Writes torch's allocations to a file."""

    with_memory = True

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._file = folder / ALLOCATIONS

    def close(self) -> None:
        """Write every allocation (bytes; a free is negative) and boundary, on one clock in ns."""
        if not self.running:
            return
        allocations: list[tuple[int, int]] = []
        boundaries: list[tuple[int, int]] = []
        for event in self.stopped().profiler.kineto_results.events():
            name = event.name()
            if name == "[memory]":
                allocations.append((event.start_ns(), event.nbytes()))
            elif name.startswith(MARKER):
                boundaries.append((event.start_ns(), int(name.removeprefix(MARKER))))
        told = {"allocations": sorted(allocations), "boundaries": sorted(boundaries)}
        self._file.write_text(json.dumps(told))


@registered_strategy
class TorchAllocations(Strategy):
    """What torch's CPU allocator has handed out and not got back, since torch was imported."""

    name = "torch"
    title = "torch's allocations"
    counts = "tensors and workspace that torch's CPU allocator handed out, byte for byte"
    blind_to = (
        "weights, which the loaders map themselves; all memory not from torch's allocator "
        "(Python, the libraries' own data and buffers); threads that a schedule starts; whether a "
        "byte was ever touched"
    )
    own_trial = True
    view = AllocationsView
    inside_worker = True
    library = "torch"

    def read(self, trial: TrialData) -> Reading:
        """From the file the worker left.

        Raises:
            ResultsError: there is none, or it is cut short.
        """
        timeline, boundaries = _profile(read_profile(trial, ALLOCATIONS))
        exact = ErrorBar(0, "every allocation is recorded, with its size")
        times = span_times(trial, boundaries)
        spans = tuple(
            SpanReading(number, timeline.at(start), timeline.most(start, end), timeline.at(end))
            for number, (start, end) in times.items()
        )
        unseen = sum(s.layer is not None and s.id not in times for s in trial.spans)
        return Reading(
            strategy=self.name,
            peak_bytes=max(timeline.held, default=0),
            method="the running sum of its profiler's allocations",
            error=exact,
            spans=spans,
            span_method="the largest sum between the span's ends",
            span_error=exact,
            line=_line(timeline, boundaries, trial.events),
            missing={"spans": f"{unseen} layers: {_THREADS}"} if unseen else {},
        )


def _profile(told: Mapping[str, Any]) -> tuple[Timeline, dict[int, int]]:
    """Bytes in use over the profiler's time, and number of a boundary → when it was."""
    try:
        allocations = [(int(t), int(size)) for t, size in told["allocations"]]
        boundaries = {int(number): int(t) for t, number in told["boundaries"]}
    except (ValueError, KeyError, TypeError) as error:
        raise cut_short(error) from None
    sizes = list(accumulate(size for _, size in allocations))
    return Timeline([t for t, _ in allocations], sizes), boundaries


def _line(
    timeline: Timeline, boundaries: Mapping[Any, int], events: Sequence[Mapping[str, Any]]
) -> tuple[tuple[int, int], ...]:
    """The sum over time on the events' clock, set by the boundaries that both know."""
    pairs = sorted(
        (boundaries[boundary], event["t_ns"] - boundaries[boundary])
        for event in events
        if (boundary := (event.get("view") or {}).get("boundary")) in boundaries
    )
    if not pairs:
        return ()
    known = [t for t, _ in pairs]
    return tuple(
        (t + pairs[max(0, bisect_left(known, t) - 1)][1], size)
        for t, size in zip(timeline.times, timeline.held, strict=True)
    )
