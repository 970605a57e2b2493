"""How much slower a point is than the same workload without a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgebench.results.spread import ratio_of
from edgebench.results.stages import STEADY
from edgebench.results.workload_labels import workload_key
from edgebench.throughput import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.records import LimitSetting
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


def _held(at: LimitSetting) -> tuple[Any, ...]:
    """What of the limits is the same of twins: what storage costs is no slowdown of the limit."""
    return at.cores, at.cpu_quota, at.storage, at.board, at.accelerator_bytes


def unlimited_twin(point: PointSummary, points: Sequence[PointSummary]) -> PointSummary | None:
    """The same workload, cores, storage and board, without a limit; the same swap if there is."""
    key, held = workload_key(point.settings), _held(point.limits)
    twins = [
        p
        for p in points
        if p.limits.memory_bytes is None
        and p.limits.label == "max"
        and _held(p.limits) == held
        and p.times_s
        and workload_key(p.settings) == key
    ]
    swap = (point.limits.swap_kind, point.limits.swap_bytes)
    same_swap = [p for p in twins if (p.limits.swap_kind, p.limits.swap_bytes) == swap]
    return next(iter([*same_swap, *twins]), None)
