"""What decides which of a sweep's points are tried, and when: all at once, or in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from edgebench.plan.plan import PlannedTrial, Point, own_trials, plan, resolve
from edgebench.records.records import LimitSetting, TrialRecord

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario


class Planner(Protocol):
    """Plans trials among the points of a sweep. The same records give the same trials."""

    def first(self) -> list[PlannedTrial]:
        """The trials to begin with."""

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The trials to go on with, once all planned ones are recorded; empty at the end."""


@dataclass(frozen=True)
class GridPlanner:
    """Every point, ``repeats`` times, then each strategy's own trials: all is planned at first."""

    points: Sequence[Point]
    repeats: int
    seed: int
    strategies: Sequence[str] = ()

    def first(self) -> list[PlannedTrial]:
        """All trials."""
        timed = plan(self.points, self.repeats, self.seed)
        return timed + own_trials(self.points, timed, self.strategies)

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """None."""
        return []


def planner_of(scenario: Scenario, points: Sequence[Point]) -> Planner:
    """The planner that a scenario asks for."""
    from edgebench.plan.adaptive import AdaptivePlanner

    limits, strategies = scenario.limits, scenario.memory.strategies
    common = points, scenario.repeats, scenario.seed
    if limits.plan == "adaptive":
        return AdaptivePlanner(*common, limits.wanted_error, strategies)
    return GridPlanner(*common, strategies)


class HasDemand(Protocol):
    """A record, or what is remembered of one."""

    @property
    def demand_bytes(self) -> int | None:
        """What the trial needed; None if that is not known."""


def limits_of(point: Point, demand_bytes: int) -> LimitSetting:
    """The point's limits; a share as that part of the demand."""
    if point.share is None:
        return point.limits
    return resolve(point.limits, point.share, demand_bytes)


def demand_of(
    point: Point,
    points: Mapping[str, Point],
    planned: Sequence[PlannedTrial],
    records: Mapping[str, HasDemand],
) -> int | None:
    """Demand of the point's workload, from its first unlimited trial that finished, if any did."""
    for one in planned:
        record = records.get(one.trial)
        if record and record.demand_bytes and points[one.point_id].same_workload(point):
            return record.demand_bytes
    return None
