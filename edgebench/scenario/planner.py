"""Planners: which of a sweep's points are tried, and when. All at once, or in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from edgebench.records import TrialRecord
from edgebench.scenario.plans import WALK
from edgebench.scenario.points import PlannedTrial, Point, own_trials, plan
from edgebench.scenario.walk_planner import WalkPlanner

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
    limits, strategies = scenario.limits, scenario.strategies
    common = points, scenario.repeats, scenario.seed
    if limits.plan == WALK:
        return WalkPlanner(*common, strategies, limits.starts)
    return GridPlanner(*common, strategies)
