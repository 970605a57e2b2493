"""What a sweep under way remembers of its trials: little, for there may be very many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from edgebench.records.records import Outcome, TrialRecord


class Remembered(NamedTuple):
    """Of one trial. ``why`` is why its strategy told nothing."""

    point: str
    outcome: Outcome
    wall_s: float | None
    demand_bytes: int | None
    strategy: str | None
    why: str | None


def remember(record: TrialRecord) -> Remembered:
    """What is kept of a record that is on the disk."""
    why = record.missing.get("reading") or record.reason if record.strategy else None
    return Remembered(
        record.point, record.outcome, record.wall_s, record.demand_bytes, record.strategy, why
    )


class ReadWhenAsked(Mapping[str, TrialRecord]):
    """Trial → record, read from the disk only if a planner looks at them."""

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
