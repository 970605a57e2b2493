"""How a search of ``advise`` divides its time: trying remedies, and measuring the winner anew."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from edgebench.records import TrialRecord
from edgebench.run.advise.candidates import PLAIN
from edgebench.run.advise.trials import (
    COMBINING,
    MEASURING,
    SCREENING,
    UNLIMITED,
    AdviceTrials,
    whole_s,
)

#: Pairs in which the winner is measured anew: under the limit, and without it.
MEASURED_PAIRS, UNLIMITED_PAIRS = 5, 2
#: A plain trial that is killed makes no pair: so many blocks in all, if some are killed.
_MOST_BLOCKS = 8
#: So many remedies are tried in any case: if one has trials of so small a part of the plain ones'
#: time, and if none has.
_CLEAR, _LEAST_CLEAR, _LEAST = 0.8, 1, 3
#: What measuring is expected to take is multiplied by this, as no two trials take equally long.
_RESERVE = 1.05
#: As long as nothing helps, time is kept for a remedy whose trials take this part of plain ones.
_HOPED = 0.5
#: A trial is stopped after so many times the plain one's time, or so many times the fastest
#: remedy's; and never less than this much later than either.
_STOP, _BEATEN, _STOP_EXTRA_S = 1.25, 1.5, 2.0


@dataclass
class SearchClock:
    """What this start of a search takes beside its trials, seconds: networks prepared, imports."""

    began_s: float = field(default_factory=time.monotonic)
    began: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    _outside_s: float | None = None

    def outside_s(self, records: Mapping[str, TrialRecord]) -> float:
        """Return the time until the first trial of this start.

        Known once that trial is recorded.
        """
        if self._outside_s is None:
            own = [record for record in records.values() if self._is_own(record)]
            self._outside_s = max(0.0, time.monotonic() - self.began_s - sum(map(whole_s, own)))
        return self._outside_s

    def _is_own(self, record: TrialRecord) -> bool:
        return bool(record.started_utc) and (
            datetime.fromisoformat(record.started_utc) >= self.began
        )


@dataclass(frozen=True)
class AdviceBudget:
    """What a search may take, seconds: its preparation, all trials and the winner's measurement.

    Where trials take so long that this can't be, one remedy is tried all the same, or three if
    none helps clearly, and the winner is measured in any case.

    Args:
        seconds: all of it.
        outside_s: what is not spent in trials.
    """

    seconds: float
    outside_s: float = 0.0

    def allows(self, seen: AdviceTrials, more_s: float, helping: str | None) -> bool:
        """Whether trials that take ``more_s`` leave the time in which the winner is measured.

        ``helping``: the fastest remedy so far of those that help.
        """
        tried = sum(bool(seen.records(name, SCREENING, MEASURING)) for name in seen.remedies)
        if tried < (_LEAST_CLEAR if self._is_clear(seen, helping) else _LEAST):
            return True
        spent_s = self.outside_s + seen.took_s(0, MEASURING)
        return spent_s + more_s + _RESERVE * self._measuring_s(seen, helping) <= self.seconds

    @staticmethod
    def _is_clear(seen: AdviceTrials, helping: str | None) -> bool:
        helped_s = seen.trial_s(helping) if helping else None
        limited_s = seen.trial_s(PLAIN) or 0.0
        return helped_s is not None and (seen.plain_end != "ok" or helped_s <= _CLEAR * limited_s)

    def _measuring_s(self, seen: AdviceTrials, helping: str | None) -> float:
        """Return what measuring the winner takes, if each trial is as long as the longest."""
        limited, free = (seen.longest_s(PLAIN, limited=limited) or 0.0 for limited in (True, False))
        hoped_s = max(_HOPED * limited, free)
        helped_s = (seen.longest_s(helping) if helping else None) or hoped_s
        return MEASURED_PAIRS * (limited + helped_s) + 2 * UNLIMITED_PAIRS * free

    def blocks(self, seen: AdviceTrials, winner: str) -> int:
        """In how many blocks the winner is measured: as many more as plain trials were killed.

        Only where some of them finish, and while the budget lasts.
        """
        plain = seen.records(PLAIN, MEASURING, UNLIMITED).values()
        lost = sum(record.outcome != "ok" for record in plain)
        if lost in (0, len(plain)):
            return MEASURED_PAIRS
        both_s = sum(seen.longest_s(name) or 0.0 for name in (PLAIN, winner))
        free_s = 2 * UNLIMITED_PAIRS * (seen.trial_s(PLAIN, limited=False) or 0.0)
        # Blocks that began count as before, so that a search goes on as it would have.
        begun = max(len(seen.records(name, MEASURING, UNLIMITED)) for name in (PLAIN, winner))
        spent_s = self.outside_s + seen.took_s(0, UNLIMITED) + free_s
        more = max(0, int((self.seconds - spent_s) / both_s)) if both_s else 0
        return min(MEASURED_PAIRS + lost, _MOST_BLOCKS, max(MEASURED_PAIRS, begun + more))

    def unlimited_pairs(self, seen: AdviceTrials) -> int:
        """Pairs without a limit: one if there is no time for two."""
        spent_s = self.outside_s + seen.took_s(0, UNLIMITED)
        free_s = 2 * UNLIMITED_PAIRS * (seen.trial_s(PLAIN, limited=False) or 0.0)
        return UNLIMITED_PAIRS if spent_s + free_s <= self.seconds else 1


def needed_s(seen: AdviceTrials, name: str, block: int, names: Sequence[str]) -> float:
    """Return what the next trial may take.

    Of a later block all that is in it, and 0 once it has begun.
    """
    plain_s = seen.trial_s(PLAIN) or 0.0
    if block == SCREENING:
        return stop_s(seen, name, block) or max(plain_s, seen.trial_s(PLAIN, limited=False) or 0.0)
    if any(seen.is_planned(one, block) for one in (PLAIN, *names)):
        return 0.0
    return plain_s + sum(seen.trial_s(one) or plain_s for one in names)


def stop_s(seen: AdviceTrials, name: str, block: int) -> float | None:
    """When a remedy's trial is stopped, since it has lost; None: it is not.

    It is slower than the plain one; or, of the first trials, than the fastest one so far, if that
    is kept up. What fails under the limit without a remedy is no measure.
    """
    if name == PLAIN or block >= MEASURING:
        return None
    known = [(seen.plain_wall_s(limited=True), _STOP)] if seen.plain_end == "ok" else []
    if block == SCREENING and (fastest := fastest_wall_s(seen, name)):
        known.append((fastest, _BEATEN))
    return min((max(part * s, s + _STOP_EXTRA_S) for s, part in known), default=None)


def fastest_wall_s(seen: AdviceTrials, name: str) -> float | None:
    """Return the shortest trial of a remedy, as long as ``name`` takes for as much work."""
    own_work = max(1.0, seen.work(name))
    fine = [one for one in seen.remedies if seen.end(one, SCREENING, COMBINING) == "ok"]
    walls = (
        (record.wall_s or 0.0) / seen.work(one)
        for one in fine
        for record in seen.records(one, SCREENING, COMBINING).values()
    )
    return min((own_work * s for s in walls), default=None)


def unbeaten(names: Sequence[str], scores: Mapping[str, float]) -> list[str]:
    """Those that are not so much slower than the fastest that they can't win."""
    best = min((scores[name] for name in names), default=0.0)
    return [name for name in names if scores[name] <= _BEATEN * best]
