"""Which trial ``advise`` makes next: each remedy in turn with the plain workload.

1. The plain workload without and with the limit, twice unless it is slowed far. Without pressure
   nothing more is tried.
2. Every remedy once, those that mostly buy most first, then the easiest; the faster half again; and
   the faster half of these: three pairs.
3. The best two and the plain workload in turns, five times.

No trial begins that would not end within the budget, and none is let run beyond it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from edgebench.distributions import fisher_tail, t_quantile
from edgebench.records import TrialRecord
from edgebench.remedies import Remedy, RemedySetting
from edgebench.run.search.search import Pace, median_pace, whole_s
from edgebench.scenario.points import PlannedTrial, Point

PLAIN = "plain"
#: The first block of each stage: the plain workload alone, each remedy, the best two.
SCREENING, CONFIRMING = 100, 200
#: Pairs of each stage, at most.
_FIRST, _SCREENED, _CONFIRMED = 2, 3, 5
#: A slowdown below this, in either first pair, is no pressure; from the other on one pair will do.
PRESSURE, _CLEAR = 1.1, 3.0
#: A remedy must take at most this part of the plain time to be worth setting.
WORTH = 0.95
#: Confidence of the winner's interval; the chance at which a difference may still be luck.
MEASURED, _LUCK = 0.95, 0.1
#: Remedies whose times differ by less are alike: the one that is easiest to set wins.
_ALIKE = 1.05
#: A trial is stopped after so many times the plain one's time, or so many times the fastest
#: remedy's; and never less than this much later than either.
_STOP, _BEATEN, _STOP_EXTRA_S = 1.25, 1.5, 2.0
#: A trial or a block begins if this many times what it may take is left, as no two take equally
#: long; and so much more than what confirming may take is kept for it.
_SLACK, _RESERVE = 1.25, 1.05
#: An interval that is wider, as a logarithm, tells nothing.
_WIDEST = 50
#: Candidate, block, whether it is under the limit, and the time that this needs, seconds.
_Next = tuple[str, int, bool, float]


@dataclass(frozen=True)
class Candidate:
    """The workload as it is (named :data:`PLAIN`), or with a remedy, under the limit.

    ``any_loss``: it was asked for what changes results, too.
    """

    name: str
    point: Point
    remedy: Remedy | None = None
    setting: RemedySetting = field(default_factory=RemedySetting)
    any_loss: bool = False

    @property
    def changes(self) -> str:
        """What it may change in results; empty: nothing."""
        return self.remedy.changes if self.remedy else ""


@dataclass(frozen=True)
class PairedRatio:
    """Time with a remedy ÷ plain time of the same block: the geometric mean over pairs.

    ``low`` to ``high`` is its interval by Student's t of the logarithms; None: of a single pair.
    """

    ratio: float
    low: float | None
    high: float | None
    pairs: int


def paired_ratio(logs: Sequence[float], confidence: float) -> PairedRatio | None:
    """Return the ratio from the logarithm of each pair's; None without any pair."""
    if not logs:
        return None
    middle, half = statistics.fmean(logs), math.inf
    if len(logs) > 1:
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        half = t_quantile((1 - confidence) / 2, len(logs) - 1) * error
    if half > _WIDEST:
        return PairedRatio(math.exp(middle), None, None, len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    return PairedRatio(math.exp(middle), low, high, len(logs))


class AdvicePlanner:
    """Chooses the next trial from what all earlier ones came to, and compares them.

    Args:
        unlimited: the plain workload without the limit.
        candidates: what is tried under it, the plain workload first, then from the easiest to set
            on.
        pace: the time of a round.
        budget_s: what the search may take, its preparation included.
        timeout_s: the time limit of a trial.
        began_s: when the search began, on the monotonic clock.
    """

    def __init__(
        self,
        unlimited: Point,
        candidates: Sequence[Candidate],
        pace: Pace,
        budget_s: float,
        timeout_s: float = math.inf,
        began_s: float | None = None,
    ) -> None:
        self._unlimited = unlimited
        self._candidates = {candidate.name: candidate for candidate in candidates}
        remedies = [remedy for candidate in candidates if (remedy := candidate.remedy)]
        #: Those that mostly buy most first, then the easiest.
        self.remedies = [remedy.name for remedy in sorted(remedies, key=lambda one: -one.promise)]
        self.pace, self.budget_s, self._timeout_s = pace, budget_s, timeout_s
        self._began_s = time.monotonic() if began_s is None else began_s
        #: What this start took beside its trials, as preparing networks does; None: not known yet.
        self.outside_s: float | None = None
        self._planned: list[tuple[str, bool, int, str]] = []
        self._records: Mapping[str, TrialRecord] = {}

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, no limit is to blame."""
        left_s = self.budget_s - (time.monotonic() - self._began_s)
        limit_s = min(self._timeout_s, max(1.0, left_s))
        return [PlannedTrial("0001", self._unlimited.id, 0, 0, None, limit_s)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the next trial; empty once the best are confirmed, or time is up."""
        self.read(planned, records)
        if self.outside_s is None:
            now_s = time.monotonic()
            began = datetime.now(timezone.utc).timestamp() - (now_s - self._began_s)
            # Trials of an earlier start, which this one goes on with, were not made in its time.
            made_s = sum(
                whole_s(record)
                for record in records.values()
                if record.started_utc
                and datetime.fromisoformat(record.started_utc).timestamp() >= began
            )
            self.outside_s = max(0.0, now_s - self._began_s - made_s)
        left_s = self.budget_s - self.outside_s - self.took_s()
        wanted = self._next(left_s)
        if wanted is None or wanted[-1] >= left_s:
            return []
        name, block, limited, _ = wanted
        point = self._candidates[name].point if limited else self._unlimited
        stop_s = (self._stop_s(name, block) if limited else None) or self._timeout_s
        number, repeat = len(planned), sum(trial.point_id == point.id for trial in planned)
        stop_s = min(stop_s, left_s)
        return [PlannedTrial(f"{number + 1:04d}", point.id, block, repeat, None, stop_s)]

    def read(self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]) -> None:
        """Read the trials so far, which all that follows is about."""
        names = {candidate.point.id: (name, True) for name, candidate in self._candidates.items()}
        names[self._unlimited.id] = PLAIN, False
        self._planned = [(*names[trial.point_id], trial.block, trial.trial) for trial in planned]
        self._records = records

    def _next(self, left_s: float) -> _Next | None:
        """Return the next trial, whether there is time for it or not; None at the end."""
        if any(record.outcome != "ok" for record in self.records(PLAIN, limited=False).values()):
            return None
        for block in range(_FIRST):
            if block and self.plain_end == "ok" and min(self.slowdowns, default=0.0) >= _CLEAR:
                break
            for limited in (False, True):
                if not self._is_planned(PLAIN, block, limited=limited):
                    needed_s = _SLACK * (self.trial_s(PLAIN, limited=limited) or 0.0)
                    return PLAIN, block, limited, needed_s
        if not self.pressed:
            return None
        return self._screening(left_s) or self._confirming()

    def _screening(self, left_s: float) -> _Next | None:
        """Return the next pair's trial; None once all are made, or to keep time for the best."""
        if any(block >= CONFIRMING for _, _, block, _ in self._planned):
            return None
        best, kept_s = self.best(), 0.0
        if best:
            kept_s = _RESERVE * _CONFIRMED * sum(self.trial_s(n) or 0.0 for n in (PLAIN, *best))
        for number in range(_SCREENED):
            block, names = SCREENING + number, self._screened(number)
            if number and len(names) <= 2:
                # These are confirmed anyway.
                return None
            if number and self.plain_end == "ok":
                names = [PLAIN, *names]
            for name in names:
                if self._is_planned(name, block):
                    continue
                # Where plain is killed, nothing says when a trial has lost: the longest so far.
                others = (name,) if self.records(name) else (PLAIN, *self.remedies)
                longest_s = max(self.trial_s(other) or 0.0 for other in others)
                needed_s = self._stop_s(name, block) or _SLACK * longest_s
                return (name, block, True, needed_s) if needed_s + kept_s < left_s else None
        return None

    def _confirming(self) -> _Next | None:
        """Return the next trial of the best and plain; a block begins if there is time for it."""
        best = self.best()
        for number in range(_CONFIRMED if best else 0):
            # Each is first as often as the others.
            turn, names = number % (len(best) + 1), [PLAIN, *best]
            names, block = [*names[turn:], *names[:turn]], CONFIRMING + number
            left = [name for name in names if not self._is_planned(name, block)]
            if left:
                return left[0], block, True, _SLACK * sum(self.trial_s(n) or 0.0 for n in left)
        return None

    def _screened(self, number: int) -> list[str]:
        """Return the remedies of a block of screening: the faster half of the block before it."""
        names = self.remedies
        for before in range(number):
            half = max(2, math.ceil(len(names) / 2))
            names = self._helping(names, SCREENING + before + 1)[:half]
        return names

    def best(self) -> list[str]:
        """Return the two fastest remedies that help, before they are confirmed."""
        return self._helping(self.remedies, CONFIRMING)[:2]

    def _helping(self, names: Sequence[str], end: int) -> list[str]:
        """Return those that finish, change nothing, are faster than plain and can win."""
        score = {
            name: self.score(name, SCREENING, end)
            for name in names
            if self.records(name, SCREENING, end) and self.end_of(name, end=end) == "ok"
        }
        if self.plain_end == "ok":
            score = {name: part for name, part in score.items() if part <= WORTH}
        fastest = min(score.values(), default=0.0)
        return sorted((n for n in score if score[n] <= _BEATEN * fastest), key=score.__getitem__)

    def score(self, name: str, first: int, end: int) -> float:
        """Return the time as a part of plain, or in seconds where plain does not finish."""
        if self.plain_end != "ok":
            return self.seconds(name, first, end) or math.inf
        ratio = paired_ratio(self.logs(name, first, end), 0.9)
        return ratio.ratio if ratio else math.inf

    def easiest(self, names: Sequence[str]) -> str | None:
        """Return the easiest to set of the fastest confirmed ones, which are alike."""
        score = {name: self.score(name, CONFIRMING, CONFIRMING + 100) for name in names}
        most = _ALIKE * min(score.values(), default=math.inf)
        return next(
            (name for name in self._candidates if name in score and score[name] <= most), None
        )

    def is_confirmed(self, name: str) -> bool:
        """Return whether a remedy helps in the fresh trials, too."""
        stage = CONFIRMING, CONFIRMING + 100
        others = [record.outcome == "ok" for record in self.records(PLAIN, *stage).values()]
        trials = len(self.records(name, *stage))
        ratio = paired_ratio(self.logs(name, *stage), MEASURED)
        is_faster = ratio and ratio.ratio <= WORTH and ratio.high is not None and ratio.high < 1
        # More than luck beside plain trials that finished or not: Fisher's exact test, one-sided.
        fits_more = fisher_tail(trials, trials, sum(others), len(others)) < _LUCK
        return self.end_of(name, *stage) == "ok" and bool(is_faster or fits_more)

    def _stop_s(self, name: str, block: int) -> float | None:
        """Return when a remedy's trial is stopped, since it has lost; None: it is not.

        It is slower than the plain one; or, of the first trials, than the fastest one so far, if
        that is kept up. What fails under the limit without a remedy is no measure.
        """
        if name == PLAIN or block >= CONFIRMING:
            return None
        known = []
        if self.plain_end == "ok":
            walls = [record.wall_s or 0.0 for record in self.records(PLAIN).values()]
            known.append((_STOP, statistics.median(walls)))
        if block == SCREENING:
            # What one takes for as much work as this one does at least.
            work = max(1.0, self._candidates[name].setting.work)
            walls = [
                (record.wall_s or 0.0) * work / self._candidates[other].setting.work
                for other in self.remedies
                for record in self.records(other, SCREENING, SCREENING + 1).values()
                if self.end_of(other, end=SCREENING + 1) == "ok"
            ]
            known += [(_BEATEN, min(walls))] if walls else []
        return min((max(part * s, s + _STOP_EXTRA_S) for part, s in known), default=None)

    def _is_planned(self, name: str, block: int, *, limited: bool = True) -> bool:
        return any(trial[:3] == (name, limited, block) for trial in self._planned)

    def records(
        self, name: str, first: int = 0, end: int = CONFIRMING + 100, *, limited: bool = True
    ) -> dict[int, TrialRecord]:
        """Return block → record of a candidate's trials in the blocks from ``first`` to ``end``."""
        return {
            block: self._records[trial]
            for whose, is_limited, block, trial in self._planned
            if (whose, is_limited) == (name, limited)
            and first <= block < end
            and trial in self._records
        }

    def seconds(
        self, name: str, first: int = 0, end: int = CONFIRMING + 100, *, limited: bool = True
    ) -> float | None:
        """Return the median time of a round's work; None if no trial finished."""
        trials = list(self.records(name, first, end, limited=limited).values())
        pace = median_pace(trials, self.pace)
        return None if pace is None else pace / self._candidates[name].setting.work

    def logs(self, name: str, first: int, end: int) -> list[float]:
        """Return the logarithm of remedy ÷ plain, of each block in which both finished.

        In screening the median of the first plain trials stands for one that was killed, and for
        that of the first block, which has none.
        """
        plain = {
            block: self.pace(record) for block, record in self.records(PLAIN, first, end).items()
        }
        first_s, work = self.seconds(PLAIN, 0, SCREENING), self._candidates[name].setting.work
        times = (
            (self.pace(record), plain.get(block) or (first_s if block < CONFIRMING else None))
            for block, record in self.records(name, first, end).items()
        )
        return [math.log(own / work / theirs) for own, theirs in times if own and theirs]

    def took_s(self) -> float:
        """Return what all trials took, the harness's part included."""
        return sum(
            whole_s(record) for *_, trial in self._planned if (record := self._records.get(trial))
        )

    @property
    def pressed(self) -> bool:
        """Whether the limit costs the plain workload anything."""
        return self.plain_end != "ok" or min(self.slowdowns, default=1.0) >= PRESSURE

    @property
    def slowdowns(self) -> list[float]:
        """Limited ÷ unlimited time of the plain workload, of each of its first pairs."""
        limited = self.records(PLAIN, 0, SCREENING)
        free = self.records(PLAIN, 0, SCREENING, limited=False)
        times = ((self.pace(limited[b]), self.pace(free[b])) for b in limited if b in free)
        return [slow / fast for slow, fast in times if slow and fast]

    @property
    def plain_end(self) -> str:
        """How the plain workload ends under the limit: ``ok``, or how a first trial failed."""
        outcomes = [record.outcome for record in self.records(PLAIN, 0, SCREENING).values()]
        return next((outcome for outcome in outcomes if outcome != "ok"), "ok")

    def trial_s(self, name: str, *, limited: bool = True) -> float | None:
        """Return the median of what whole trials took, the harness's part included."""
        trials = self.records(name, limited=limited).values()
        return statistics.median(map(whole_s, trials)) if trials else None

    def end_of(self, name: str, first: int = 0, end: int = CONFIRMING + 100) -> str:
        """Return how a candidate ends: ``ok``, the first other outcome, or ``changed``.

        ``changed``: its outputs are not those of the plain workload.
        """
        trials = list(self.records(name, first, end).values())
        if lost := next((record.outcome for record in trials if record.outcome != "ok"), None):
            return lost
        plain = [
            record
            for limited in (False, True)
            for record in self.records(PLAIN, 0, SCREENING, limited=limited).values()
            if record.outcome == "ok"
        ]
        candidate = self._candidates[name]
        return "changed" if any(outputs_differ(candidate, t, plain) for t in trials) else "ok"


#: A loss may differ by this share, or by so many times what the plain trials' differ by.
_LOSS_SHARE, _LOSS_SPREADS = 0.01, 3.0


def outputs_differ(candidate: Candidate, record: TrialRecord, plain: Sequence[TrialRecord]) -> bool:
    """Return whether outputs or loss differ from those of plain trials, which finished.

    Outputs must be the same to the last bit, or, of a remedy that changes them, within its
    tolerance. What a program prints is not known.
    """
    digests = [record.notes.get("output_sha256") for record in plain]
    if digests and digests[0] and not candidate.changes:
        return record.notes.get("output_sha256") not in digests
    values = next(
        (values for record in plain if (values := record.notes.get("output_values"))), None
    )
    remedy = candidate.remedy
    if values:
        tolerance = remedy.tolerance if remedy and remedy.changes else 0.0
        return relative_distance(record.notes.get("output_values") or [], values) > tolerance
    if remedy and (remedy.lossy or (candidate.any_loss and remedy.changes)):
        return False
    losses = [loss for record in plain if (loss := record.notes.get("loss")) is not None]
    own = record.notes.get("loss")
    if own is None or not losses:
        return False
    middle, spread = statistics.median(losses), max(losses) - min(losses)
    return bool(abs(own - middle) > max(_LOSS_SHARE * abs(middle), _LOSS_SPREADS * spread))


def relative_distance(own: Sequence[float | None], plain: Sequence[float | None]) -> float:
    """Return the length of their difference as a part of the plain ones'.

    Infinite if it has none.
    """
    if list(own) == list(plain):
        return 0.0
    known = [(a, b) for a, b in zip(own, plain, strict=False) if a is not None and b is not None]
    if len(own) != len(plain) or len(known) != len(plain):
        return math.inf
    length = math.hypot(*(b for _, b in known))
    return math.hypot(*(a - b for a, b in known)) / length if length else math.inf
