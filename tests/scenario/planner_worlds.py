"""Worlds with a known slowdown, in which a planner's trials come out at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from edgebench.records import LimitSetting, PhaseSum, TrialRecord
from edgebench.scenario.points import PlannedTrial, Planner, Point, limits_of
from edgebench.text import parse_share

MIB = 1 << 20
DEMAND = 400 * MIB


def points_of(shares: list[int], networks: tuple[str, ...] = ("net",)) -> list[Point]:
    labels = ["max", *(f"{share}%" for share in shares)]
    pairs = [(network, label) for network in networks for label in labels]
    return [
        Point(
            f"p{number:03d}",
            {"kind": "inference", "networks": [network]},
            LimitSetting(label, None, "file", 4096 * MIB),
            parse_share(label),
        )
        for number, (network, label) in enumerate(pairs, start=1)
    ]


@dataclass
class World:
    """Trials take ``slowdown(share)`` seconds; killed below an edge."""

    points: list[Point]
    slowdown: Callable[[float], float]
    killed_below: float = 0.0
    records: dict[str, TrialRecord] = field(default_factory=dict)
    planned: list[PlannedTrial] = field(default_factory=list)

    def explore(self, planner: Planner, rounds: int = 1000) -> list[PlannedTrial]:
        more = planner.first() if not self.planned else planner.further(self.planned, self.records)
        while more and rounds:
            self.planned += more
            self.records |= {one.trial: self.make(one) for one in more}
            more = planner.further(self.planned, self.records)
            rounds -= 1
        return self.planned

    def make(self, planned: PlannedTrial) -> TrialRecord:
        (point,) = (point for point in self.points if point.id == planned.point_id)
        limits = limits_of(point, DEMAND)
        share = math.inf if limits.memory_bytes is None else limits.memory_bytes / DEMAND
        seconds = self.slowdown(share)
        killed = share < self.killed_below
        return TrialRecord(
            trial=planned.trial,
            point=point.id,
            block=planned.block,
            repeat=planned.repeat,
            settings=point.settings,
            limits=limits,
            outcome="oom-killed" if killed else "ok",
            started_utc="",
            limit_bytes=limits.memory_bytes,
            demand_bytes=DEMAND if limits.memory_bytes is None else None,
            phases=[] if killed else [PhaseSum(0, None, "round", seconds)],
        )

    def shares(self) -> list[float]:
        """The shares that were tried, in the order of the trials, unlimited ones left out."""
        by_id = {point.id: limits_of(point, DEMAND).memory_bytes for point in self.points}
        sizes = (by_id[one.point_id] for one in self.planned)
        return [size / DEMAND for size in sizes if size is not None]


def hinge(share: float, w: float = 0.9, a: float = 3.0, b: float = 1.5) -> float:
    return 1 + a * math.log(max(w / share, 1.0)) ** b
