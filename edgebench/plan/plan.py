"""From a scenario to its points, and from points to an ordered plan of trials."""

from __future__ import annotations

import mmap
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from edgebench.records.records import LimitSetting
from edgebench.units import parse_share

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class Point:
    """One combination of workload settings and limits.

    ``share`` is the part of measured demand that the limit is; None for a size or ``max``.
    """

    id: str
    settings: dict[str, Any] = field(hash=False)
    limits: LimitSetting
    share: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nothing limits its memory, so that its trials show demand."""
        return self.limits.memory_bytes is None and self.share is None

    def same_workload(self, other: Point) -> bool:
        """Whether both do the same work on the same cores: then their demand is the same.

        Swap doesn't count: what nothing limits is not swapped.
        """
        mine = self.settings, self.limits.cores, self.limits.cpu_quota
        return mine == (other.settings, other.limits.cores, other.limits.cpu_quota)


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to come. ``trial`` is its place in the plan, the same after every resume.

    ``strategy`` names the way of telling memory whose own trial it is; None: it is timed.
    """

    trial: str
    point_id: str
    block: int
    repeat: int
    strategy: str | None = None


def points(scenario: Scenario) -> list[Point]:
    """Every combination of the scenario's axes, always in the same order."""
    combinations = [
        (settings, limits)
        for settings in scenario.workload_settings()
        for limits in scenario.limits.settings()
    ]
    width = max(3, len(str(len(combinations))))
    return [
        Point(f"p{number:0{width}d}", settings, limits, parse_share(limits.label))
        for number, (settings, limits) in enumerate(combinations, start=1)
    ]


def plan(points: Sequence[Point], repeats: int, seed: int) -> list[PlannedTrial]:
    """``repeats`` blocks, each with every point once, in an order drawn from the seed.

    In the first block, the unlimited points whose demand gives others their limit come first.
    """
    rng = random.Random(seed)
    width = max(4, len(str(len(points) * repeats)))
    planned: list[PlannedTrial] = []
    for block in range(repeats):
        order = rng.sample(list(points), len(points))
        if block == 0:
            order = _needed_first(order)
        planned += [
            PlannedTrial(f"{number:0{width}d}", point.id, block, block)
            for number, point in enumerate(order, start=len(planned) + 1)
        ]
    return planned


def own_trials(
    points: Sequence[Point], timed: Sequence[PlannedTrial], strategies: Sequence[str]
) -> list[PlannedTrial]:
    """Each strategy's own trial of every point, in a block of its own after all timed ones."""
    block = max((planned.block for planned in timed), default=-1) + 1
    pairs = [(strategy, point) for strategy in strategies for point in points]
    return [
        PlannedTrial(f"{number:04d}", point.id, block, 0, strategy)
        for number, (strategy, point) in enumerate(pairs, start=len(timed) + 1)
    ]


def _needed_first(order: list[Point]) -> list[Point]:
    shares = [point for point in order if point.share is not None]
    needed = {
        point.id for point in order if point.unlimited and any(map(point.same_workload, shares))
    }
    return sorted(order, key=lambda point: point.id not in needed)


def resolve(limit: LimitSetting, share: float, demand_bytes: int) -> LimitSetting:
    """The limit with its bytes: that share of demand, rounded up to a whole page."""
    pages = -(-share * demand_bytes // mmap.PAGESIZE)
    return replace(limit, memory_bytes=int(pages) * mmap.PAGESIZE)
