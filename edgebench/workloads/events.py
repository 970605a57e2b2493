"""The event protocol between the worker inside the limit and the harness outside.

One JSON object a line, written to the descriptor the harness gave: spans once the outermost one
has ended (:mod:`edgebench.workloads.record_buffer`), all others at once.
``t_ns`` is ``CLOCK_MONOTONIC``, the sampler's clock too. Its shapes:

``{"event": "start", "id": 7, "phase": "load", "round": 0, "network": "alexnet", "layer": 3,
"name": "features.6", "thread": 0, "t_ns": …, "usage_bytes": …, "swap_bytes": …}``
    A span begins. ``layer`` and ``name`` are null for a whole phase, ``network`` and ``round``
    are null outside rounds. The phase ``round`` spans one whole round.

``{"event": "end", "id": 7, "t_ns": …, "usage_bytes": …, "swap_bytes": …, "peak_bytes": …,
"cpu_ns": …, "major_faults": …, "minor_faults": …, "maxrss_bytes": …}``
    The span with that id ends. ``peak_bytes`` is the kernel's peak of the cgroup within the
    span (the mark was reset at its start and at every boundary inside it), null where the
    kernel can't reset its mark. The last four are the whole process's, from ``getrusage``;
    ``maxrss_bytes`` is its largest resident set so far, the mark that GNU time prints in the end.

    Of a span that an engine's own profiler timed only ``t_ns`` is known.

``{"event": "note", "t_ns": …, "data": {…}}``
    Anything else worth keeping: library versions, threads, a digest of the output.

``{"event": "collection", "generation": 2, "start_ns": …, "t_ns": …, "collected": …}``
    Python's garbage collector ran until ``t_ns`` and freed so many objects. Full collections
    (generation 2) have one, and others that took a millisecond or more.

``{"event": "counts", "t_ns": …, "round": 3, "in_bytes": …, "swap_in_bytes": …, "out_bytes": …,
"major_faults": …}``
    What a whole round read and wrote (:mod:`edgebench.workloads.round_counters`), read outside its
    time.

``{"event": "limit", "t_ns": …, "limit_bytes": …, "direction": "down"}``
    In a walk: the harness has moved the memory limit, and what follows ran at it. Null bytes: there
    is no limit.

``{"event": "accelerator", "t_ns": …, "identity": {…}}`` and ``{…, "phases": […], "total": {…}}``
    Which accelerator it is; then, once the outermost span has ended, its memory and its copies in
    each phase since the last such event, and in all so far
    (:mod:`edgebench.workloads.accelerator_phases`).

In a trial of a strategy that looks from inside (:mod:`edgebench.measures.view`), starts and
ends carry ``view``, what it saw there, and ends ``view_peak_bytes``, its own mark within the span.

A null is a value the kernel doesn't tell. Keys may be added.

In a walk the harness answers: before each round the worker writes :data:`READY` to the control's
descriptor and waits, so nothing of the control happens within a round. The answer :data:`GO` is one
more round; any other, and the end of the connection, is the end of the rounds.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

from edgebench.measures.view import Descriptors

READY, GO, STOP = b"r", b"g", b"s"
Used = resource.struct_rusage
_quoted = lru_cache(maxsize=4096)(json.dumps)


class WorkerSpec(TypedDict):
    """What the worker gets: JSON in its one argument."""

    kind: str
    settings: dict[str, object]
    descriptors: Descriptors


class Spent(NamedTuple):
    """What the process used within a span; its largest resident set is of its whole life so far."""

    cpu_ns: int
    major_faults: int
    minor_faults: int
    maxrss_bytes: int


class SpanPlace(NamedTuple):
    """What a span is of."""

    phase: str
    round: int | None
    network: str | None
    layer: int | None
    name: str | None


def start_line(
    number: int, place: SpanPlace, thread: int, t_ns: int, seen: Mapping[str, Any]
) -> str:
    """A span begins."""
    return (
        f'{{"event": "start", "id": {number}, "phase": {_quoted(place.phase)}, '
        f'"round": {_number(place.round)}, "network": {_quoted(place.network)}, '
        f'"layer": {_number(place.layer)}, "name": {_quoted(place.name)}, "thread": {thread}, '
        f'"t_ns": {t_ns}, {_seen(seen)}}}\n'
    )


def end_line(
    number: int, t_ns: int, seen: Mapping[str, Any], peak_bytes: int | None, spent: Spent
) -> str:
    """It ends."""
    return (
        f'{{"event": "end", "id": {number}, "t_ns": {t_ns}, {_seen(seen)}, '
        f'"peak_bytes": {_number(peak_bytes)}, "cpu_ns": {spent.cpu_ns}, '
        f'"major_faults": {spent.major_faults}, "minor_faults": {spent.minor_faults}, '
        f'"maxrss_bytes": {spent.maxrss_bytes}}}\n'
    )


def timed_lines(number: int, place: SpanPlace, start_ns: int, end_ns: int) -> str:
    """A span of which only the times are known."""
    start = start_line(number, place, 0, start_ns, {"usage_bytes": None, "swap_bytes": None})
    return f'{start}{{"event": "end", "id": {number}, "t_ns": {end_ns}}}\n'


def spent_between(before: Used, after: Used) -> tuple[int, int, int, int]:
    """What the process used from one reading of ``getrusage`` to a later one, as ``Spent``."""
    return (
        round((after.ru_utime + after.ru_stime) * 1e9)
        - round((before.ru_utime + before.ru_stime) * 1e9),
        after.ru_majflt - before.ru_majflt,
        after.ru_minflt - before.ru_minflt,
        after.ru_maxrss * 1024,
    )


def note_line(t_ns: int, data: Mapping[str, Any]) -> str:
    """Anything else worth keeping."""
    return json.dumps({"event": "note", "t_ns": t_ns, "data": data}) + "\n"


def counts_line(t_ns: int, number: int | None, counts: Mapping[str, int | None]) -> str:
    """What a round came to."""
    return json.dumps({"event": "counts", "t_ns": t_ns, "round": number, **counts}) + "\n"


def collection_line(start_ns: int, end_ns: int, generation: int, collected: int) -> str:
    """The garbage collector ran; ``collected``: how many objects it freed."""
    return (
        f'{{"event": "collection", "generation": {generation}, "start_ns": {start_ns}, '
        f'"t_ns": {end_ns}, "collected": {collected}}}\n'
    )


def accelerator_line(t_ns: int, data: Mapping[str, Any]) -> str:
    """What an accelerator did in phases that have ended, or which it is."""
    return json.dumps({"event": "accelerator", "t_ns": t_ns, **data}) + "\n"


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _seen(seen: Mapping[str, Any]) -> str:
    return ", ".join(
        f'"{key}": {_number(value) if value is None or type(value) is int else json.dumps(value)}'
        for key, value in seen.items()
    )
