"""The recorded trials of a sweep: a few values of each in memory, whole records from the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from edgebench.measures.machine.noise import spread_doubts
from edgebench.records import Doubt, Outcome, TrialRecord
from edgebench.results.workload_key import workload_label
from edgebench.scenario.points import Point


class RecordedTrial(NamedTuple):
    """What is kept of one trial.

    ``reason`` says why its strategy has no reading, ``broken`` which limits did not hold for it.
    """

    point: str
    outcome: Outcome
    wall_s: float | None
    demand_bytes: int | None
    strategy: str | None
    reason: str | None
    broken: list[Doubt]


class RecordedTrials(Mapping[str, RecordedTrial]):
    """Trial → what is kept of it: little, since there may be very many."""

    def __init__(self) -> None:
        self._trials: dict[str, RecordedTrial] = {}

    def __getitem__(self, trial: str) -> RecordedTrial:
        return self._trials[trial]

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, record: TrialRecord) -> None:
        """Keep what is needed of a record that is on the disk."""
        reason = record.missing.get("reading") or record.reason if record.strategy else None
        if record.walk and record.walk.step and record.outcome == "ok":
            # One trial is one line of the summary, however many limits it visited.
            return
        # How long a walk took says nothing of repeats.
        wall_s = None if record.walk else record.wall_s
        kept = (record.point, record.outcome, wall_s, record.demand_bytes, record.strategy)
        self._trials[record.trial] = RecordedTrial(*kept, reason, record.broken_limits)

    def timed(self) -> list[RecordedTrial]:
        """Those that are no strategy's own."""
        return [one for one in self._trials.values() if one.strategy is None]

    def outcomes(self) -> dict[str, int]:
        """Outcome → how many timed trials ended so."""
        return dict(Counter(one.outcome for one in self.timed()))

    def doubts(self, points: Iterable[Point]) -> list[Doubt]:
        """Repeats that differ much, limits that did not hold, strategies without a reading."""
        times: dict[str, list[float]] = {}
        for one in self.timed():
            if one.outcome == "ok" and one.wall_s is not None:
                times.setdefault(one.point, []).append(one.wall_s)
        spread = [
            structs.replace(
                doubt, workload=workload_label(point.settings), limit=point.limits.label
            )
            for point in points
            for doubt in spread_doubts(times.get(point.id, []))
        ]
        broken = [structs.replace(d, trial=name) for name, one in self.items() for d in one.broken]
        reasons = [(one.strategy, one.reason) for one in self._trials.values() if one.strategy]
        lacking = [
            Doubt("no_reading", names=[name, why]) for name, why in dict.fromkeys(reasons) if why
        ]
        return [*spread, *broken, *lacking]


class StoredRecords(Mapping[str, TrialRecord]):
    """Trial → record, read from the disk only when a planner looks at one."""

    def __init__(self, read: Callable[[], Sequence[TrialRecord]]) -> None:
        self._read = read

    @cached_property
    def _records(self) -> dict[str, TrialRecord]:
        return {record.trial: record for record in self._read()}

    def __getitem__(self, trial: str) -> TrialRecord:
        return self._records[trial]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)
