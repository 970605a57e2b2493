"""Events as lines of JSON, worded fast: a step of training that takes milliseconds has a dozen.

What is the same from event to event is worded once; ``json.dumps`` of a whole event takes several
times as long, which a small network's steps would show.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Used = resource.struct_rusage
_quoted = lru_cache(maxsize=4096)(json.dumps)


class Place(NamedTuple):
    """What a span is of."""

    phase: str
    round: int | None
    network: str | None
    layer: int | None
    name: str | None


def start_line(number: int, place: Place, thread: int, t_ns: int, seen: Mapping[str, Any]) -> str:
    """A span begins."""
    return (
        f'{{"event": "start", "id": {number}, "phase": {_quoted(place.phase)}, '
        f'"round": {_number(place.round)}, "network": {_quoted(place.network)}, '
        f'"layer": {_number(place.layer)}, "name": {_quoted(place.name)}, "thread": {thread}, '
        f'"t_ns": {t_ns}, {_seen(seen)}}}\n'
    )


def end_line(
    number: int, t_ns: int, seen: Mapping[str, Any], peak_bytes: int | None, used: tuple[Used, Used]
) -> str:
    """It ends; ``used``: what the process had used when it began, and now."""
    before, after = used
    return (
        f'{{"event": "end", "id": {number}, "t_ns": {t_ns}, {_seen(seen)}, '
        f'"peak_bytes": {_number(peak_bytes)}, "cpu_ns": {round_ns(after) - round_ns(before)}, '
        f'"major_faults": {after.ru_majflt - before.ru_majflt}, '
        f'"minor_faults": {after.ru_minflt - before.ru_minflt}, '
        f'"maxrss_bytes": {after.ru_maxrss * 1024}}}\n'
    )


def note_line(t_ns: int, data: Mapping[str, Any]) -> str:
    """Anything else worth keeping."""
    return json.dumps({"event": "note", "t_ns": t_ns, "data": data}) + "\n"


def round_ns(used: Used) -> int:
    """CPU time of a process in nanoseconds."""
    return round((used.ru_utime + used.ru_stime) * 1e9)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _seen(seen: Mapping[str, Any]) -> str:
    return ", ".join(
        f'"{key}": {_number(value) if value is None or type(value) is int else json.dumps(value)}'
        for key, value in seen.items()
    )
