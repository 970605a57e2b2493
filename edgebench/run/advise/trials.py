"""What the trials of ``advise`` came to: each candidate's times against the plain workload's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.distributions import t_quantile
from edgebench.records import TrialRecord
from edgebench.run.advise.candidates import PLAIN, Candidate
from edgebench.run.walk.pace import Pace, median_pace
from edgebench.scenario.points import PlannedTrial

#: The first block of each stage: the plain workload alone; each remedy; two at once; the best anew
#: under the limit; and without one.
SCREENING, COMBINING, MEASURING, UNLIMITED = 100, 200, 300, 400


@dataclass(frozen=True)
class PairedRatio:
    """Time with a remedy ÷ plain time of the same block: the geometric mean over pairs.

    ``low`` to ``high`` is its interval by Student's t of the logarithms; of a single pair all.
    """

    ratio: float
    low: float
    high: float
    pairs: int


def paired_ratio(logs: Sequence[float], confidence: float) -> PairedRatio | None:
    """From the logarithm of each pair's ratio; None without any pair."""
    if not logs:
        return None
    middle, half = statistics.fmean(logs), math.inf
    if len(logs) > 1:
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        half = t_quantile((1 - confidence) / 2, len(logs) - 1) * error
    # A half width beyond all numbers has no exponential.
    low, high = (0.0, math.inf) if half > 50 else (math.exp(middle - half), math.exp(middle + half))
    return PairedRatio(math.exp(middle), low, high, len(logs))


def whole_s(record: TrialRecord) -> float:
    """Return what a trial took, the harness's part included."""
    return (record.wall_s or 0.0) + (record.harness_s or 0.0)


class AdviceTrials:
    """The trials that are recorded, by candidate, limit and stage.

    Args:
        candidates: all of them, the plain workload first.
        planned: every trial so far, in order.
        records: trial → its record.
        pace: the time of a round.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        planned: Sequence[PlannedTrial],
        records: Mapping[str, TrialRecord],
        pace: Pace,
    ) -> None:
        self._candidates = {one.name: one for one in candidates}
        self._pace = pace
        by_point = {one.unlimited.id: (one.name, False) for one in candidates}
        by_point |= {one.limited.id: (one.name, True) for one in candidates}
        self._planned = [(*by_point[one.point_id], one.block, one.trial) for one in planned]
        self._records = records

    def is_planned(self, name: str, block: int, *, limited: bool = True) -> bool:
        """Whether the block has the candidate's trial, recorded or not."""
        return any(one[:3] == (name, limited, block) for one in self._planned)

    def has_begun(self, stage: int) -> bool:
        """Whether a trial of that stage, or of a later one, is planned."""
        return any(block >= stage for _, _, block, _ in self._planned)

    def records(
        self, name: str, first: int = 0, end: int = UNLIMITED, *, limited: bool = True
    ) -> dict[int, TrialRecord]:
        """Block → record of a candidate's trials in the blocks from ``first`` up to ``end``."""
        return {
            block: self._records[trial]
            for whose, is_limited, block, trial in self._planned
            if whose == name
            and is_limited == limited
            and first <= block < end
            and trial in self._records
        }

    def seconds(
        self, name: str, first: int = 0, end: int = UNLIMITED + 100, *, limited: bool = True
    ) -> float | None:
        """Return the median time of a round's work; None if no trial finished."""
        found = self.records(name, first, end, limited=limited).values()
        pace = median_pace(list(found), self._pace)
        return None if pace is None else pace / self._candidates[name].setting.work

    def logs(self, name: str, first: int, end: int, *, limited: bool = True) -> list[float]:
        """Return the logarithm of remedy ÷ plain, of each block in which both finished.

        In the race the median of the first plain trials stands for one that was killed, and for
        that of the first block, which has none.
        """
        own = self.records(name, first, end, limited=limited)
        plain = self.records(PLAIN, first, end, limited=limited)
        work = self._candidates[name].setting.work
        first_s = self.seconds(PLAIN, 0, SCREENING, limited=limited)
        beside = {block: self._pace(record) for block, record in plain.items()}
        times = (
            (self._pace(record), beside.get(block) or (first_s if block < MEASURING else None))
            for block, record in own.items()
        )
        return [math.log(mine / work / theirs) for mine, theirs in times if mine and theirs]

    def work(self, name: str) -> float:
        """Return what a round of a candidate does, as a part of what a plain one does."""
        return self._candidates[name].setting.work

    def took_s(self, first: int = 0, end: int = UNLIMITED + 100) -> float:
        """Return what the trials of these blocks took, the harness's part included."""
        own = [self._records.get(t) for _, _, block, t in self._planned if first <= block < end]
        return sum(whole_s(record) for record in own if record)

    @property
    def slowdowns(self) -> list[float]:
        """Limited ÷ unlimited time of the plain workload, of each of its first pairs."""
        limited = self.records(PLAIN, 0, SCREENING)
        free = self.records(PLAIN, 0, SCREENING, limited=False)
        times = ((self._pace(limited[b]), self._pace(free[b])) for b in limited if b in free)
        return [slow / fast for slow, fast in times if slow and fast]

    @property
    def plain_end(self) -> str:
        """How the plain workload ends under the limit: ``ok``, or how a first trial failed."""
        outcomes = [one.outcome for one in self.records(PLAIN, 0, SCREENING).values()]
        return next((outcome for outcome in outcomes if outcome != "ok"), "ok")

    @property
    def remedies(self) -> list[str]:
        """The candidates but the plain workload."""
        return [name for name in self._candidates if name != PLAIN]

    def trial_s(self, name: str, *, limited: bool = True) -> float | None:
        """Return the median of what whole trials took, the harness's part included."""
        found = self.records(name, limited=limited).values()
        return statistics.median(map(whole_s, found)) if found else None

    def longest_s(self, name: str, *, limited: bool = True) -> float | None:
        """Return the longest trial before the winner is measured.

        Those that are killed may be short.
        """
        found = self.records(name, 0, MEASURING, limited=limited).values()
        return max(map(whole_s, found), default=None)

    def plain_wall_s(self, *, limited: bool) -> float:
        """Return the median wall time of a whole plain trial."""
        found = self.records(PLAIN, limited=limited).values()
        return statistics.median([one.wall_s or 0.0 for one in found] or [0.0])

    def end(self, name: str, first: int = 0, end: int = MEASURING) -> str:
        """How a candidate ends under the limit: ``ok``, the first other outcome, or ``changed``.

        ``changed``: its outputs are not those of the plain workload.
        """
        own = list(self.records(name, first, end).values())
        lost = next((one.outcome for one in own if one.outcome != "ok"), None)
        if lost is None and any(self._differs(name, one) for one in own):
            return "changed"
        return lost or "ok"

    def _differs(self, name: str, record: TrialRecord) -> bool:
        """Whether its outputs differ from the plain workload's by more than they may."""
        plain = [
            one
            for limited in (False, True)
            for one in self.records(PLAIN, 0, SCREENING, limited=limited).values()
            if one.outcome == "ok"
        ]
        return outputs_differ(self._candidates[name], record, plain)


#: A loss may differ by this share, or by so many times what the plain trials' differ by.
_LOSS_SHARE, _LOSS_SPREADS = 0.01, 3.0


def outputs_differ(candidate: Candidate, record: TrialRecord, plain: Sequence[TrialRecord]) -> bool:
    """Whether outputs or loss differ from those of plain trials, which finished.

    Outputs must be the same to the last bit, or, of a remedy that changes them, within its
    tolerance. What a program prints is not known.
    """
    digests = [one.notes.get("output_sha256") for one in plain]
    if digests and digests[0] and not candidate.changes:
        return record.notes.get("output_sha256") not in digests
    values = next((found for one in plain if (found := one.notes.get("output_values"))), None)
    if values:
        own = record.notes.get("output_values") or []
        return relative_distance(own, values) > candidate.tolerance
    return not candidate.lossy and _loss_differs(record, plain)


def relative_distance(own: Sequence[float | None], plain: Sequence[float | None]) -> float:
    """Return the length of their difference as a part of the plain ones'.

    Infinite if it has none.
    """
    if list(own) == list(plain):
        return 0.0
    pairs = list(zip(own, plain, strict=False))
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(own) != len(plain) or len(known) != len(plain):
        return math.inf
    length = math.hypot(*(b for _, b in known))
    return math.hypot(*(a - b for a, b in known)) / length if length else math.inf


def _loss_differs(record: TrialRecord, plain: Sequence[TrialRecord]) -> bool:
    losses = [loss for one in plain if (loss := one.notes.get("loss")) is not None]
    own = record.notes.get("loss")
    if own is None or not losses:
        return False
    middle, spread = statistics.median(losses), max(losses) - min(losses)
    return bool(abs(own - middle) > max(_LOSS_SHARE * abs(middle), _LOSS_SPREADS * spread))
