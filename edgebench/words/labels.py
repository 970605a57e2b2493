"""Limits, times and columns as every sentence and table names them."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.spread import Spread
from edgebench.throughput import throughput_words
from edgebench.units import format_duration, format_limit


def limit_label(point: PointFacts) -> str:
    """The limit as text: ``150.0 MiB``, ``75% (242.1 MiB)`` or ``unlimited``."""
    return format_limit(point.limits.label, point.limit_bytes)


def pass_words(workload: WorkloadFacts) -> str:
    """What ``total`` times: a round, or the whole trial where there are none."""
    if workload.has_steady:
        return "a steady round"
    return "the first round" if workload.has_rounds else "the whole trial"


def spread_words(times: Spread, repeats: str = "trials") -> str:
    """``3.2 s (3 trials, 3.1 s to 3.3 s)``, or ``3.2 s (one trial)``."""
    words = format_duration(times.median)
    if times.count < 2:
        return f"{words} (one trial)"
    low, high = format_duration(times.low), format_duration(times.high)
    between = f"all {low}" if low == high else f"{low} to {high}"
    return f"{words} ({times.count} {repeats}, {between})"


def throughput_column(workload: WorkloadFacts) -> list[str]:
    """The title of its column, ``tokens/s``; none where no throughput was measured."""
    point = next((p for p in workload.points if p.throughput_per_s), None)
    return [f"{point.unit or 'per s'}{'/s' if point.unit else ''}"] if point else []


def times_shown(found: Sequence[WorkloadFacts]) -> list[str]:
    """The times that answer for these workloads: ``start`` and ``steady``, or ``total``."""
    known = {name for one in found for point in one.points for name in point.times_s}
    whole = {"total"} if any(not one.has_rounds for one in found) else set()
    return [name for name in ("total", START, STEADY) if name in whole or name in known - {"total"}]


def throughput_of(point: PointFacts) -> str:
    """Its throughput, ``41.2 tokens/s``; empty where it is not known."""
    rate = point.throughput_per_s
    return throughput_words(rate.median, point.unit) if rate else ""
