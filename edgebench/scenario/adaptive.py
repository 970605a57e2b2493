"""The adaptive plan: trials are chosen round by round, where slowdown is most uncertain.

The scenario's limits are the candidates. Each round tries, of every workload, the candidate with
the largest uncertainty: where the curve bends, where trials begin to be killed, or where repeats
differ. It ends when no uncertainty exceeds the target, and at the latest with a third of the
trials that the grid would make. Rounds follow from the seed and from what
was recorded, so a sweep that was cut short goes on as it would have.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.kills import TOO_TIGHT
from edgebench.records import TrialRecord
from edgebench.scenario.points import (
    PlannedTrial,
    Point,
    demand_of,
    limits_of,
    own_trials,
    series_of,
)
from edgebench.scenario.uncertainty import knots, noise_of, uncertainty

#: The phases whose uncertainty counts; ``round`` is a whole pass on the clock.
_PHASES = ("load", "first", "execute", "round")
#: The part of the grid's trials that are made at the most.
MOST_SHARE = 1 / 3
#: At this many times the demand nothing is killed; the demand itself may be sampled a little low.
_SURELY = 1.1
#: Trials that every workload begins with: unlimited, and what `_Workload.opening` asks for.
_OPENING = 4


class AdaptivePlanner:
    """Chooses trials among the points of a scenario.

    Args:
        points: all of the scenario's.
        repeats: how often one point is tried at most.
        seed: of the order within a round.
        target_error: the uncertainty, a share of the time, at which a limit needs no more trials.
        strategies: each has a trial of its own of every point that was tried, at the end.
    """

    def __init__(
        self,
        points: Sequence[Point],
        repeats: int,
        seed: int,
        target_error: float,
        strategies: Sequence[str] = (),
    ) -> None:
        self._points = {point.id: point for point in points}
        self._repeats = repeats
        self._seed = seed
        self._target = target_error
        self._strategies = strategies

    def first(self) -> list[PlannedTrial]:
        """Every workload once, unlimited: its demand says where its limits lie."""
        return self._round([p.id for p in self._points.values() if p.unlimited], [])

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next round; empty when every limit is known well enough."""
        if any(one.strategy for one in planned):
            return []
        tried: dict[str, list[TrialRecord]] = {}
        for one in planned:
            tried.setdefault(one.point_id, []).append(records[one.trial])
        noise = _noise(list(tried.values()))
        uncertainties: dict[str, float] = {}
        for series in series_of(list(self._points.values())):
            demand = demand_of(series[0], self._points, planned, records)
            if demand is not None:
                uncertainties |= self._choose(_Workload(series, tried, demand, noise))
        room = max(0, most_trials(list(self._points.values()), self._repeats) - len(planned))
        chosen = sorted(uncertainties, key=lambda name: -uncertainties[name])[:room]
        if chosen:
            return self._round(chosen, planned)
        return own_trials([self._points[name] for name in tried], planned, self._strategies)

    def _choose(self, workload: _Workload) -> dict[str, float]:
        """The most uncertain point, if it exceeds the target; at the beginning several."""
        left = [p for p in workload.series if len(workload.trials(p)) < self._repeats]
        if not workload.limited():
            opening = workload.opening()
            return {point.id: math.inf for point in left if point in opening}
        uncertainties = {point.id: workload.uncertainty(point) for point in left}
        worst = max(uncertainties, key=lambda name: uncertainties[name], default=None)
        return (
            {worst: uncertainties[worst]} if worst and uncertainties[worst] > self._target else {}
        )

    def _round(self, chosen: Sequence[str], planned: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        """One trial of each chosen point, in an order drawn from the seed."""
        number = max((one.block for one in planned), default=-1) + 1
        order = random.Random(f"{self._seed} {number}").sample(list(chosen), len(chosen))
        before = [one.point_id for one in planned]
        return [
            PlannedTrial(f"{place:04d}", point, number, before.count(point))
            for place, point in enumerate(order, start=len(planned) + 1)
        ]


def most_trials(points: Sequence[Point], repeats: int) -> int:
    """A third of the grid's, or what every workload begins with."""
    begin = _OPENING * sum(point.unlimited for point in points)
    return max(begin, int(MOST_SHARE * len(points) * repeats))


@dataclass(frozen=True)
class _Workload:
    """The points of one workload, and what is known of them.

    ``noise``: of each phase, the standard deviation of a trial's ln t.
    """

    series: Sequence[Point]
    tried: Mapping[str, list[TrialRecord]]
    demand_bytes: int
    noise: Mapping[str, float]

    def trials(self, point: Point) -> list[TrialRecord]:
        return self.tried.get(point.id, [])

    def limited(self) -> list[Point]:
        """The points below a limit that were tried."""
        return [point for point in self.series if not point.unlimited and self.trials(point)]

    def bytes_of(self, point: Point) -> float:
        """The point's limit."""
        return float(limits_of(point, self.demand_bytes).memory_bytes or 0)

    def opening(self) -> list[Point]:
        """The tightest limit and the middle one below demand; and unlimited again."""
        limits = sorted((p for p in self.series if not p.unlimited), key=self.bytes_of)
        below = [point for point in limits if self.bytes_of(point) < self.demand_bytes]
        if not below:
            return limits[:1]
        middle = math.sqrt(self.bytes_of(below[0]) * self.demand_bytes)
        nearest = min(below, key=lambda point: abs(math.log(self.bytes_of(point) / middle)))
        unlimited = [point for point in self.series if point.unlimited]
        return [*unlimited, below[0], nearest]

    def uncertainty(self, point: Point) -> float:
        """How uncertain the time of a point is, in its most uncertain phase, as a share."""
        phases = self._phases()
        if point.unlimited:
            count = len(self.trials(point))
            return max(self.noise[phase] / math.sqrt(count) for phase in phases)
        limit = self.bytes_of(point)
        lost = [self.bytes_of(p) for p in self.limited() if self._was_lost(p)]
        edge = max(lost, default=0.0)
        if limit <= edge:
            return 0.0
        alive = [self.bytes_of(p) for p in self.limited() if not self._was_killed(p)]
        tightest = min(alive, default=_SURELY * self.demand_bytes)
        if lost and limit < tightest:
            # Killed on one side, finished on the other: the edge is somewhere between.
            return min(math.log(limit / edge), math.log(tightest / limit))
        return max(self._uncertainty_of(phase, limit) for phase in phases)

    def _was_killed(self, point: Point) -> bool:
        return any(record.outcome in TOO_TIGHT for record in self.trials(point))

    def _was_lost(self, point: Point) -> bool:
        """Whether its limit is too tight; a kill while swap was free doesn't show that."""
        trials = self.trials(point)
        return any(r.outcome in TOO_TIGHT and not r.killed_with_swap_free for r in trials)

    def _phases(self) -> list[str]:
        """Those that the workload has."""
        return [phase for phase in _PHASES if self._seconds(phase, self._unlimited())]

    def _unlimited(self) -> list[TrialRecord]:
        return [r for point in self.series if point.unlimited for r in self.trials(point)]

    def _seconds(self, phase: str, trials: Sequence[TrialRecord]) -> list[float]:
        return [s for record in trials if (s := seconds_of(record, phase)) is not None]

    def _uncertainty_of(self, phase: str, limit_bytes: float) -> float:
        times = {self.bytes_of(p): self._seconds(phase, self.trials(p)) for p in self.limited()}
        known = knots(
            {limit: seconds for limit, seconds in times.items() if seconds},
            self._seconds(phase, self._unlimited()),
            self.demand_bytes,
            self.noise[phase],
        )
        return uncertainty(known, limit_bytes)


def _noise(groups: Sequence[Sequence[TrialRecord]]) -> dict[str, float]:
    """For each phase how repeats differ, over all points of the sweep."""
    return {
        phase: noise_of(
            [[s for r in group if (s := seconds_of(r, phase)) is not None] for group in groups]
        )
        for phase in _PHASES
    }


def seconds_of(record: TrialRecord, phase: str) -> float | None:
    """One pass of a phase, the median over rounds; None if the trial has no such phase.

    A workload without rounds (a command) has its whole trial instead.
    """
    if record.outcome != "ok":
        return None
    rounds: dict[int, float] = {}
    for one in record.phases:
        if one.phase == phase and one.round >= 0:
            rounds[one.round] = rounds.get(one.round, 0.0) + one.wall_s / one.passes
    if rounds:
        return statistics.median(rounds.values())
    return record.wall_s if phase == "round" else None
