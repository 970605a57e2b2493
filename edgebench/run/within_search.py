"""One limit tried often enough to say whether a program or network fits in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgebench.records import TrialRecord
from edgebench.run.limit_bracket import TriedLimit
from edgebench.run.limit_search import limit_of
from edgebench.run.limit_trials import Pace, median_pace, trials_by_point, tried_limit
from edgebench.run.search_planner import SearchPlanner
from edgebench.scenario.points import PlannedTrial, Point


class WithinPlanner(SearchPlanner):
    """Unlimited first, then the limit until a trial fails or enough have finished.

    Args:
        points: one unlimited point, and one with the limit.
        pace: what slowdown is told from.
        compared: whether a slowdown is asked for, so that the unlimited trial is made twice.
        confirm: how many further trials must finish.
        timeout_s: the time limit of a trial; None: the scenario's.
    """

    def __init__(
        self,
        points: Sequence[Point],
        pace: Pace,
        *,
        compared: bool,
        confirm: int,
        timeout_s: float | None = None,
    ) -> None:
        (self._unlimited,) = [point for point in points if point.unlimited]
        (self._limited,) = [point for point in points if not point.unlimited]
        self.pace = pace
        self._count = 2 if compared else 1
        self._confirm = confirm
        self._timeout_s = timeout_s

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, the limit is not to blame."""
        return [self._planned([], self._unlimited)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next trial; empty once one failed, or enough have finished."""
        by_point = trials_by_point(planned, records)
        unlimited, limited = (by_point.get(p.id, []) for p in (self._unlimited, self._limited))
        if any(record.outcome != "ok" for record in (*unlimited, *limited)):
            return []
        if len(unlimited) < self._count:
            return [self._planned(planned, self._unlimited)]
        if len(limited) <= self._confirm:
            return [self._planned(planned, self._limited)]
        return []

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """The limit, once it was tried."""
        by_point = trials_by_point(planned, records)
        base = median_pace(by_point.get(self._unlimited.id, []), self.pace)
        own = by_point.get(self._limited.id)
        return [tried_limit(limit_of(self._limited, 0), own, base, self.pace)] if own else []

    def _planned(self, planned: Sequence[PlannedTrial], point: Point) -> PlannedTrial:
        number, repeat = len(planned), sum(one.point_id == point.id for one in planned)
        return PlannedTrial(f"{number + 1:04d}", point.id, number, repeat, None, self._timeout_s)
