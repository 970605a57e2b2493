"""What is known of each workload of a sweep: typed values without prose.

Every verb, figure and page takes its answers from here, and :mod:`edgebench.answers` its rows.
Made from records alone, without pandas, also of a sweep that is still running.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from edgebench.kills import TOO_TIGHT
from edgebench.records import LimitSetting
from edgebench.results.limit_to_give import AskedPace, LimitBracket, TriedLimit, given_bracket
from edgebench.results.miss_curve import MissCurve, curve_workload, record_curves
from edgebench.results.point_facts import PointFacts, point_facts
from edgebench.results.rounds import START, STEADY
from edgebench.results.sweep_reader import Sweep
from edgebench.results.unmeasured import Unmeasured
from edgebench.results.workload_key import WorkloadKey, workload_names


@dataclass(frozen=True)
class WorkloadFacts:
    """Points that differ in their memory limit alone, the widest limit first.

    ``miss_curve`` is what its rounds read again at each limit; None where nothing was counted.
    ``asked`` is how slow it may be at the limit to give.
    """

    name: str
    settings: dict[str, Any]
    points: tuple[PointFacts, ...]
    miss_curve: MissCurve | None = None
    asked: AskedPace = field(default_factory=AskedPace)

    @property
    def key(self) -> WorkloadKey:
        """What sets it apart from all others."""
        return self.points[0].key

    @cached_property
    def unlimited(self) -> PointFacts | None:
        """The point without a limit; None if it has no trial that finished."""
        free = (p for p in self.points if p.is_unlimited and "total" in p.times_s)
        return next(free, None)

    @cached_property
    def tried(self) -> tuple[PointFacts, ...]:
        """The points below a limit that have a trial."""
        return tuple(p for p in self.points if not p.is_unlimited and p.outcomes)

    @property
    def demand_bytes(self) -> float | None:
        """Its demand; None if no trial recorded it."""
        return next((p.demand_bytes for p in self.points if p.demand_bytes is not None), None)

    @property
    def needs_bytes(self) -> tuple[float, float] | None:
        """The least and the most that its trials without a limit needed; None: not known."""
        found = next((p.need_bytes for p in self.points if p.need_bytes), None)
        if found:
            return found.low, found.high
        return None if self.demand_bytes is None else (self.demand_bytes, self.demand_bytes)

    @property
    def most_slowdown(self) -> float | None:
        """How many times as slow it may be at the limit to give; None: as usual."""
        rate = self.unlimited.throughput_per_s if self.unlimited else None
        return self.asked.factor(1 / rate.median if rate else None)

    def bracket(self) -> LimitBracket:
        """Return the limit to give, and the largest that is not enough.

        Nothing is given to what still grew when it was stopped.
        """
        if self.unmeasured.growth is not None:
            return LimitBracket(None, None)
        least = next((p.least_to_give_bytes for p in self.points if p.least_to_give_bytes), 0)
        return given_bracket([*map(self._tried_limit, self.tried)], self.most_slowdown, least)

    def _tried_limit(self, point: PointFacts) -> TriedLimit:
        free, later_s = self.unlimited, None
        if free and point.slowdown and not (self.has_rounds or point.throughput_per_s):
            later_s = (point.slowdown - 1) * free.times_s["total"].median
        return TriedLimit(
            limit_bytes=point.limit_bytes or 0,
            # A walk may come to a limit more often than trials were planned.
            trials=max(point.planned or 0, point.made),
            finished=point.outcomes.get("ok", 0),
            killed="oom-killed" in point.outcomes,
            slowdown=point.slowdown,
            later_s=later_s,
        )

    @property
    def library_bytes(self) -> float | None:
        """What it maps of libraries, beside its demand; None if no trial recorded it."""
        return next((p.library_bytes for p in self.points if p.library_bytes is not None), None)

    @property
    def unmeasured(self) -> Unmeasured:
        """What its trials without a limit leave open."""
        free = (point.unmeasured for point in self.points if point.is_unlimited)
        return next(filter(None, free), Unmeasured())

    @property
    def limits(self) -> LimitSetting:
        """What all its limits have in common: swap, cores, CPU quota."""
        return self.points[0].limits

    @cached_property
    def has_steady(self) -> bool:
        """Whether ``total`` is a steady round's time, and ``start`` another."""
        return any(STEADY in point.times_s for point in self.points)

    @cached_property
    def has_rounds(self) -> bool:
        """Whether its trials have rounds, if only one."""
        return any(START in point.times_s for point in self.points)

    @cached_property
    def slowed(self) -> tuple[PointFacts, ...]:
        """Those of :attr:`tried` that are surely slower than without a limit."""
        return tuple(p for p in self.tried if p.is_slower)


@dataclass(frozen=True)
class SweepFacts:
    """What a sweep shows: its points in the plan's order, and its workloads."""

    points: tuple[PointFacts, ...]
    workloads: tuple[WorkloadFacts, ...]


def sweep_facts(sweep: Sweep) -> SweepFacts:
    """Return the facts of a sweep, complete, running or interrupted."""
    points = point_facts(sweep)
    timed = [*sweep.records, *sweep.upward_records]
    counted = [one for one in timed if one.round_counts or one.outcome in TOO_TIGHT]
    curves: dict[WorkloadKey, MissCurve] = {}
    if any(one.round_counts for one in counted):
        curves = {curve.workload: curve for curve in record_curves(counted)}
        for place, point in enumerate(points):
            # What its rounds read again, on the way that its curve is of.
            curve = curves.get(curve_workload(point.key))
            known = curve.known if curve else ()
            read = (one.round_bytes for one in known if one.limit_bytes == point.limit_bytes)
            points[place] = replace(point, read_again_bytes=next(read, None))
    # A search plans only some of its points.
    planned = [point for point in points if point.planned or point.outcomes]
    found = workload_facts(planned or points)
    try:
        asked = msgspec.convert(sweep.resolved.get("asked", {}), AskedPace)
    except msgspec.ValidationError:
        asked = AskedPace()
    return SweepFacts(
        tuple(points),
        tuple(
            replace(one, miss_curve=curves.get(curve_workload(one.key)), asked=asked)
            for one in found
        ),
    )


def workload_facts(points: Iterable[PointFacts]) -> list[WorkloadFacts]:
    """Every workload of a sweep, in the order of its points, each with a name of its own."""
    groups: dict[WorkloadKey, list[PointFacts]] = {}
    for point in points:
        groups.setdefault(point.key, []).append(point)

    def order(point: PointFacts) -> float:
        return -math.inf if point.limit_bytes is None else -point.limit_bytes

    names = workload_names([(group[0].settings, group[0].limits) for group in groups.values()])
    return [
        WorkloadFacts(name, group[0].settings, tuple(sorted(group, key=order)))
        for name, group in zip(names, groups.values(), strict=True)
    ]
