"""The limits that a walk goes through: the scenario's, and closer ones between them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from edgebench.records import UP, Direction, LimitSetting, TrialRecord
from edgebench.run.pace import visited
from edgebench.scenario.points import Point, limits_of, series_of
from edgebench.scenario.walk import Visited
from edgebench.units import MIB

#: So many pages the kernel charges at once, for each CPU: limits closer together are the same.
_CHARGED_PAGES = 64
#: Labels of shares are written to this part of the demand.
_LABEL_PART = 0.001


@dataclass(frozen=True)
class WalkedLimits:
    """The limits of one workload.

    Args:
        points: the scenario's points of the workload, the unlimited one first.
        demand_bytes: what shares are of; 0 where there are none.
        target: how well the knee is to be known, as a share of the limit.
        killed: the largest limit at which a walk of the workload was killed before, with what its
            rounds had come to; empty: at none. A walk doesn't go there again.
        moved: told each limit that a walk comes to; None: nobody is.
    """

    points: tuple[Point, ...]
    demand_bytes: int
    target: float
    killed: Mapping[int, Visited] = field(default_factory=dict)
    moved: Callable[[LimitSetting], None] | None = None

    @property
    def scenario_bytes(self) -> tuple[int, ...]:
        """The scenario's limits, but for those at which it was killed."""
        return tuple(size for size in self._settings if size > max(self.killed, default=0))

    @property
    def step_bytes(self) -> int:
        """Limits closer together than this are the same."""
        charged = _CHARGED_PAGES * mmap.PAGESIZE * (os.cpu_count() or 1)
        shown = int(self.demand_bytes * _LABEL_PART) if self._shares else MIB // 10
        return max(charged, -(-shown // mmap.PAGESIZE) * mmap.PAGESIZE)

    def after(self, records: Sequence[TrialRecord], again: bool) -> WalkedLimits:
        """Return the same, by what the sweep's trials came to.

        Args:
            records: of the sweep so far.
            again: whether the walk goes on where one before was killed.
        """
        left = points_after_kill(self.points, records) if again else self.points
        return replace(self, points=left, killed=killed_limit(self.points, records))

    def setting(self, memory_bytes: int | None) -> LimitSetting:
        """Return the limits of a trial at that limit of memory, with its label."""
        if memory_bytes is None:
            return self.points[0].limits
        known = self._settings.get(memory_bytes)
        if known is not None:
            return known[1]
        share = 100 * memory_bytes / self.demand_bytes if self._shares else 0.0
        label = f"{share:.1f}%" if self._shares else f"{memory_bytes / MIB:.1f}M"
        return structs.replace(self.points[0].limits, label=label, memory_bytes=memory_bytes)

    def point(self, memory_bytes: int | None, direction: Direction | None) -> str:
        """Return the point that it is of; the way up has points of its own."""
        if memory_bytes is None:
            return self.points[0].id
        known = self._settings.get(memory_bytes)
        name = known[0] if known else f"{self.points[0].id}-{memory_bytes}"
        return f"{name}-{UP}" if direction == UP else name

    @property
    def _settings(self) -> dict[int, tuple[str, LimitSetting]]:
        """Bytes → point and limits, of the scenario's limits."""
        resolved = ((point.id, limits_of(point, self.demand_bytes)) for point in self.points)
        return {at.memory_bytes: (name, at) for name, at in resolved if at.memory_bytes is not None}

    @property
    def _shares(self) -> bool:
        return any(point.share is not None for point in self.points)


def workload_points(unlimited: Point, points: Sequence[Point]) -> tuple[Point, ...]:
    """Those of a workload without a limit and at all of its limits."""
    found = next(own for own in series_of(points) if unlimited in own)
    return unlimited, *(point for point in found if point != unlimited)


def points_after_kill(points: Sequence[Point], records: Sequence[TrialRecord]) -> tuple[Point, ...]:
    """Those that a walk after a killed one visits: the unlimited one and the lowest that finished.

    A closer look may have been killed between limits that finished: then the lowest above it.

    Args:
        points: the scenario's of the workload, the unlimited one first.
        records: of the sweep so far.
    """
    sizes = {
        record.point: record.limit_bytes
        for record in records
        if record.walk and record.direction == "down" and record.outcome == "ok"
    }
    finished = [point for point in points[1:] if sizes.get(point.id)]
    killed = max(killed_limit(points, records), default=0)
    above = [point for point in finished if (sizes[point.id] or 0) > killed]
    lowest = min(above, key=lambda point: sizes[point.id] or 0, default=None)
    left = [point for point in points[1:] if point not in finished or point is lowest]
    return points[0], *left


def killed_limit(points: Sequence[Point], records: Iterable[TrialRecord]) -> dict[int, Visited]:
    """Return the largest limit at which a walk of these points was killed; empty: none was.

    A fresh process may be killed by its start, where one that has started lives.
    """
    names = {point.id for point in points}
    ended = (one for one in records if one.walk and one.outcome == "oom-killed")
    killed = [one for one in ended if one.limit_bytes and walked_point(one) in names]
    if not killed:
        return {}
    largest = max(killed, key=lambda one: one.limit_bytes or 0)
    return {largest.limit_bytes or 0: visited(largest.phases, largest.round_counts)}


def walked_point(record: TrialRecord) -> str:
    """Return the scenario's point that the record is of, or beside which a walk looked closer."""
    return record.point.partition("-")[0]
