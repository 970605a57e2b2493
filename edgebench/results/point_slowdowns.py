"""How much slower a point is than the same workload without a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgebench.results.spread import ratio_of
from edgebench.results.stages import STEADY
from edgebench.throughput import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.results.summary import PointSummary


def with_slowdowns(point: PointSummary, points: Sequence[PointSummary]) -> PointSummary:
    """The point with what it is compared with its twin without a limit."""
    twin = unlimited_twin(point, points)
    if twin is None:
        return point
    ratios = {
        name: ratio_of(spread, twin.times_s[name])
        for name, spread in point.times_s.items()
        if name in twin.times_s and twin.times_s[name].median > 0
    }
    if point.steady_relative and twin.steady_relative:
        walked = ratio_of(point.steady_relative, twin.steady_relative)
        ratios |= {name: walked for name in (STEADY, "total") if name in ratios}
    if point.throughput_per_s and twin.throughput_per_s and point.throughput_per_s.low > 0:
        ratios[THROUGHPUT] = ratio_of(twin.throughput_per_s, point.throughput_per_s)
    demand = point.demand_bytes if point.demand_bytes is not None else twin.demand_bytes
    slowdowns = {name: ratio.median for name, ratio in ratios.items()}
    energy = point.energy.ratio_to(twin.energy) if point.energy else None
    made = replace(point, slowdowns=slowdowns, ratios=ratios, demand_bytes=demand)
    return replace(made, energy_ratio=energy)


def unlimited_twin(point: PointSummary, points: Sequence[PointSummary]) -> PointSummary | None:
    """The same workload without a limit, with the same swap if there is."""
    key = point.key
    twins = [
        p
        for p in points
        if p.limits.label == "max" and p.times_s and p.key.any_swap == key.any_swap
    ]
    same_swap = [p for p in twins if p.key == key]
    return next(iter([*same_swap, *twins]), None)
