"""Planners: which of a sweep's points are tried, and when. All at once, or in rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from edgebench.records import NOT_REACHED, TrialRecord
from edgebench.scenario.limits import WALK
from edgebench.scenario.points import PlannedTrial, Point, own_trials, plan

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario


#: Walks of a workload beyond the scenario's repeats, while the last one was killed.
MOST_AGAIN = 1


class Planner(Protocol):
    """Plans trials among the points of a sweep. The same records give the same trials."""

    def first(self) -> list[PlannedTrial]:
        """Return the trials to begin with."""

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the trials to go on with, once all planned ones are recorded; empty at the end."""


@dataclass(frozen=True)
class FixedPlanner:
    """All trials are planned at first."""

    trials: Sequence[PlannedTrial]

    def first(self) -> list[PlannedTrial]:
        """All trials."""
        return list(self.trials)

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """None."""
        return []


def planner_of(scenario: Scenario, points: Sequence[Point]) -> Planner:
    """Return the planner that a scenario asks for."""
    limits, strategies = scenario.limits, scenario.strategies
    if limits.plan == WALK:
        return WalkPlanner(points, scenario.repeats, scenario.seed, strategies, limits.starts)
    # Every point, then each strategy's own trials.
    timed = plan(points, scenario.repeats, scenario.seed)
    return FixedPlanner(timed + own_trials(points, timed, strategies))


@dataclass(frozen=True)
class WalkPlanner:
    """``repeats`` walks of each workload, and a fresh trial for the start at some of its limits.

    A workload whose last walk was killed on the way down is walked ``MOST_AGAIN`` more times at
    most, above that limit. One of which no walk came to its end is walked once more, without any
    limit: only the end of a walk shows the working set.

    ``starts`` are these limits' labels; None: at all.

    The unlimited trial that comes first shows the demand of which limits may be shares: under a
    walk the statistics that tell it are not read, since that may prevent a kill.
    """

    points: Sequence[Point]
    repeats: int
    seed: int
    strategies: Sequence[str] = ()
    starts: Sequence[str] | None = None

    def first(self) -> list[PlannedTrial]:
        """Every workload once, unlimited."""
        return self._block([p for p in self.points if p.unlimited], 0, 0, 1)

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the walks, fresh trials among the first of them.

        Then each strategy's own trials.
        """
        if any(one.walk for one in planned):
            if any(one.strategy for one in planned):
                return []
            again = self._after_kills(planned, records) or self._unlimited(planned, records)
            return again or own_trials(self.points, planned, self.strategies)
        made: list[PlannedTrial] = []
        for repeat in range(self.repeats):
            # Fresh trials show the start at these limits.
            starts = [p for p in self.points if not p.unlimited and has_start(p, self.starts)]
            fresh = starts if repeat == 0 else []
            number = len(planned) + len(made) + 1
            made += self._block(fresh, repeat + 1, repeat, number, walked=True)
        return made

    def _after_kills(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """One more walk of each workload whose last one was killed."""
        killed = {
            one.walk.walk
            for one in records.values()
            if one.walk and one.direction == "down" and one.outcome == "oom-killed"
        }
        most = self.repeats + MOST_AGAIN
        return self._again(planned, lambda own: own[-1].trial in killed and len(own) < most)

    def _unlimited(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return a walk without a limit of each workload of which none came to its end."""

        def is_unseen(own: Sequence[PlannedTrial]) -> bool:
            firsts = [records[one.trial] for one in own if one.trial in records]
            # One that fails without a limit would fail again.
            ran = [one for one in firsts if one.walk and one.outcome == "ok"]
            unseen = all(one.missing.get("working_set") == NOT_REACHED for one in ran)
            return bool(ran) and unseen and not any(one.unlimited for one in own)

        made = self._again(planned, is_unseen)
        return [replace(one, unlimited=True) for one in made]

    def _again(
        self, planned: Sequence[PlannedTrial], wanted: Callable[[Sequence[PlannedTrial]], bool]
    ) -> list[PlannedTrial]:
        """One more walk of each workload of whose walks that is so."""
        made: list[PlannedTrial] = []
        for point in (p for p in self.points if p.unlimited):
            own = [one for one in planned if one.walk and one.point_id == point.id]
            if wanted(own):
                name = f"{len(planned) + len(made) + 1:04d}"
                made.append(PlannedTrial(name, point.id, len(own) + 1, len(own), walk=True))
        return made

    def _block(
        self, fresh: Sequence[Point], block: int, repeat: int, number: int, walked: bool = False
    ) -> list[PlannedTrial]:
        """Fresh trials, and a walk of every workload, in an order drawn from the seed."""
        walks = [p for p in self.points if p.unlimited] if walked else []
        pairs = [(point, False) for point in fresh] + [(point, True) for point in walks]
        order = random.Random(f"{self.seed} {block}").sample(pairs, len(pairs))
        return [
            PlannedTrial(f"{place:04d}", point.id, block, repeat, walk=walk)
            for place, (point, walk) in enumerate(order, start=number)
        ]


def has_start(point: Point, starts: Sequence[str] | None) -> bool:
    """Whether a plan of walks with these starts has a fresh trial of the point."""
    return point.unlimited or starts is None or point.limits.label in starts
