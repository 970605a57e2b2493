"""The search for the largest batch below a limit: doubled until one fails, then bisected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgebench.records import TrialRecord
from edgebench.scenario.points import PlannedTrial, Point

#: Where it begins, and how often either end of the answer is seen.
_FIRST, _CONFIRMED = 8, 2


@dataclass(frozen=True)
class TriedBatch:
    """One batch that was tried; ``outcome`` is another than ``ok`` if any of its trials' was."""

    batch: int
    outcome: str
    reason: str | None
    trials: int
    peak_bytes: int | None


@dataclass(frozen=True)
class LargestBatch:
    """The largest that fits, and the least above it that doesn't; None where there is none."""

    fits: TriedBatch | None
    too_large: TriedBatch | None


def candidates(most: int) -> Iterator[int]:
    """Every batch up to 64, and from there on in steps of at most 3 %."""
    batch = 1
    while batch <= most:
        yield batch
        batch += max(1, batch // 32)


class BatchPlanner:
    """Chooses the next batch to try, one trial after the other.

    Args:
        points: one a batch, all of one workload and at one limit.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = {int(point.settings["batch"]): point for point in points}

    def first(self) -> list[PlannedTrial]:
        """A small batch, which most limits hold."""
        return [self._trial([], self._nearest(_FIRST, list(self._points)))]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """The next batch to try; empty once both ends are known and confirmed."""
        wanted = self._next(self.found(planned, records))
        return [] if wanted is None else [self._trial(planned, wanted)]

    def found(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> LargestBatch:
        """What is known so far."""
        tried = [self._tried(batch, planned, records) for batch in self._points]
        known = [one for one in tried if one]
        bad = [one for one in known if one.outcome != "ok"]
        edge = min(bad, key=lambda one: one.batch, default=None)
        # Below what did not fit: a larger one that did was luck.
        good = [o for o in known if o.outcome == "ok" and (edge is None or o.batch < edge.batch)]
        return LargestBatch(max(good, key=lambda one: one.batch, default=None), edge)

    def _tried(
        self, batch: int, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> TriedBatch | None:
        own = [
            records[one.trial]
            for one in planned
            if one.point_id == self._points[batch].id and one.trial in records
        ]
        if not own:
            return None
        lost = next((record for record in own if record.outcome != "ok"), None)
        peaks = [record.peak_bytes for record in own if record.peak_bytes is not None]
        return TriedBatch(
            batch,
            lost.outcome if lost else "ok",
            lost.reason if lost else None,
            len(own),
            max(peaks, default=None),
        )

    def _next(self, found: LargestBatch) -> int | None:
        low = found.fits.batch if found.fits else 0
        high = found.too_large.batch if found.too_large else math.inf
        between = [batch for batch in self._points if low < batch < high]
        if between:
            return self._nearest(self._aim(low, high), between)
        for one in (found.fits, found.too_large):
            if one and one.trials < _CONFIRMED:
                return one.batch
        return None

    @staticmethod
    def _aim(low: int, high: float) -> float:
        if math.isinf(high):
            return 2 * low
        return math.sqrt(max(low, 1) * high)

    @staticmethod
    def _nearest(aim: float, among: Sequence[int]) -> int:
        return min(among, key=lambda batch: abs(math.log(batch / aim)))

    def _trial(self, planned: Sequence[PlannedTrial], batch: int) -> PlannedTrial:
        point = self._points[batch]
        repeat = sum(one.point_id == point.id for one in planned)
        return PlannedTrial(f"{len(planned) + 1:04d}", point.id, len(planned), repeat)
