"""The search for the limit to give, and for where a workload is killed, by trials.

It keeps the least limit that was enough and the largest that was not. Each trial brings them nearer
to each other. The planner is pure: the same records give the same next trial, so that an
interrupted search can be resumed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgebench.need import Need, differs, least_to_give, need_of
from edgebench.records import FINAL_OUTCOMES, LimitSetting, TrialRecord
from edgebench.results.limit_to_give import (
    HUGE_PAGE,
    AskedPace,
    LimitBracket,
    TriedLimit,
    adapts,
    given_bracket,
    is_limit_met,
    unmeasured,
    viable_bracket,
)
from edgebench.results.times import SLIGHT, trial_times
from edgebench.scenario.points import PlannedTrial, Planner, Point
from edgebench.text import reads_throughput

#: A bracket is settled once its ends differ by at most this ratio; that of kills below the limit to
#: give, unless they are asked for, at this one.
PRECISION, _KILL_PRECISION = 1.05, 1.2
#: With swap each limit is this part of the last one that was fast enough.
_DOWN = 0.7
#: While only one end is known, the distance from the guess grows by this power.
_GROWTH = 2.5
#: What is tried between two ends keeps this share of their distance from either.
_MARGIN = 0.2
#: A slowdown above the factor by less than this ratio needs two trials; one that a smaller limit
#: refutes needs three.
_NEAR = 1.15
#: A program's trial at a limit is stopped when it is slower than the factor by so many times the
#: time without a limit; and never less than so much later, for a short program's times vary.
_STOP, _STOP_EXTRA_S = 2, 1.0
#: What a search may take: as long as so many unlimited trials, and at least so many seconds.
_BUDGET_TRIALS, _BUDGET_S = 12, 45.0
#: The given limit is tried so many times more, unless that is asked for; only once after this time.
_CONFIRM, _CONFIRM_S = 3, 12.0
#: A search for a network ends after so many trials at most, if they don't contradict each other.
MOST_NETWORK_TRIALS = 24

#: A trial's time in seconds for the work that its slowdown is about; None if it has none.
Pace = Callable[[TrialRecord], float | None]


def pace_of_rounds(record: TrialRecord) -> float | None:
    """Return the time of a steady round on the clock; None if the trial has none."""
    return trial_times(record).get("total")


def pace_of_program(record: TrialRecord) -> float | None:
    """Seconds for each unit that the program prints, if its output is read; else for the whole."""
    if record.outcome != "ok":
        return None
    if reads_throughput(record.settings):
        return 1 / record.throughput_per_s if record.throughput_per_s else None
    return pace_of_rounds(record)


def whole_s(record: TrialRecord) -> float:
    """Return what a trial took, the harness's part included."""
    return (record.wall_s or 0.0) + (record.harness_s or 0.0)


def median_pace(trials: Sequence[TrialRecord], pace: Pace) -> float | None:
    """Return the median pace of the trials that have one; None if none has."""
    known = [seconds for one in trials if (seconds := pace(one)) is not None]
    return statistics.median(known) if known else None


def trials_by_point(
    planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
) -> dict[str, list[TrialRecord]]:
    """Point → its trials that were made, in the plan's order."""
    found: dict[str, list[TrialRecord]] = {}
    for one in planned:
        if one.trial in records and records[one.trial].outcome in FINAL_OUTCOMES:
            found.setdefault(one.point_id, []).append(records[one.trial])
    return found


@dataclass(frozen=True)
class SearchRules:
    """What is searched for, and how the trials of a kind of workload are made and read.

    Args:
        pace: the time that the slowdown is of.
        slowdown: the factor that it may be slower by; None: the usual one.
        throughput: the least that it must get done in a second, instead of a slowdown.
        confirm: how many further trials the given limit must finish; None: as many as usual.
        killed: whether it is also searched for where it is killed if swap can hold all of the need.
        unlimited: how many trials without a limit are made.
        most_unlimited: as many, if their needs differ.
        timeout_s: the time limit of a trial; None: the scenario's.
        is_hurried: whether a trial at a limit is stopped at a few times the unlimited time (unless
            ``timeout_s`` is given), and the search ends with its budget.
        budget_s: of all trials together; None: derived from the unlimited time.
    """

    pace: Pace
    slowdown: float | None = None
    throughput: float | None = None
    confirm: int | None = None
    killed: bool = True
    unlimited: int = 1
    most_unlimited: int = 1
    timeout_s: float | None = None
    is_hurried: bool = False
    budget_s: float | None = None

    @property
    def asked(self) -> AskedPace:
        """How slow it may be at the limit to give."""
        return AskedPace(self.slowdown, self.throughput)


class LimitSearch(Planner):
    """Searches the limits of one workload, one trial after the other.

    With a single candidate, that limit is tried until a trial fails or enough have finished.

    Args:
        points: one unlimited point, and the candidates.
        rules: what is searched for, and how trials are made and read.
    """

    def __init__(self, points: Sequence[Point], rules: SearchRules) -> None:
        (self._unlimited,) = [point for point in points if point.unlimited]
        self._limits = {p.id: float(p.limits.memory_bytes or 0) for p in points if not p.unlimited}
        self.rules, self.pace = rules, rules.pace

    def first(self) -> list[PlannedTrial]:
        """One without a limit: if it fails, there is nothing to search for."""
        return [self._trial([], self._unlimited.id, self.rules.timeout_s)]

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the next trial; empty once the answers are known, or at the end of the time.

        The usual budget does not end a search in which no limit was enough yet. One that was given
        does: no trial begins that could not be compared within it.
        """
        rules, unlimited = self.rules, self._unlimited_of(planned, records)
        base_s = median_pace(unlimited, _wall_s) or 0.0
        spent_s = sum(map(whole_s, records.values()))
        is_compared = len(unlimited) >= rules.unlimited
        if rules.budget_s:
            factor = rules.asked.factor(median_pace(unlimited, self.pace)) or SLIGHT
            needed_s = base_s * (max(2.0, _STOP * factor) if is_compared else 1.0)
            if spent_s + needed_s > rules.budget_s:
                return []
        elif rules.is_hurried and is_compared:
            is_answered = any(limit.ok for limit in self.tried(planned, records))
            if is_answered and spent_s + 2 * base_s > usual_budget_s(base_s):
                return []
        return self.open_question(planned, records)

    def open_question(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the next trial, whatever time is left; empty once the answers are known."""
        rules, unlimited = self.rules, self._unlimited_of(planned, records)
        needs = needs_of(unlimited)
        sizes = [need.total_bytes for need in needs]
        if not sizes or any(record.outcome != "ok" for record in unlimited):
            return []
        base = median_pace(unlimited, self.pace)
        grows = unmeasured(unlimited).growth is not None
        varies = differs(min(sizes), max(sizes)) and not grows
        tried, factor = self.tried(planned, records), self.rules.asked.factor(base)
        # Slow with all that it needs: the one trial without a limit may have been fast by luck.
        roomy = [limit for limit in tried if limit.ok and limit.limit_bytes >= max(sizes)]
        is_odd = len(self._limits) > 1 and not all(limit.is_fast(factor) for limit in roomy)
        wanted = rules.most_unlimited if varies else max(rules.unlimited, 1 + is_odd)
        if len(unlimited) < wanted:
            return [self._trial(planned, self._unlimited.id, rules.timeout_s)]
        if grows:
            # No limit says anything about a need that isn't known.
            return []
        known = _Known(
            candidates=[*self._limits.values()],
            tried=tried,
            need_bytes=max(sizes),
            held_bytes=max(r.undroppable_bytes or max(sizes) for r in unlimited),
            peak_bytes=max(r.peak_bytes or 0 for r in unlimited),
            least_bytes=least_to_give(needs) or 0,
            factor=factor,
            swap=self._unlimited.limits,
        )
        spent_s = sum(map(whole_s, records.values()))
        limit = self._next_limit(known, is_late=spent_s > _CONFIRM_S)
        if limit is None:
            return []
        timeout_s, wall_s = rules.timeout_s, median_pace(unlimited, _wall_s)
        if rules.is_hurried and timeout_s is None and wall_s is not None:
            slower = known.factor or SLIGHT
            timeout_s = wall_s + max(wall_s * _STOP * slower, _STOP_EXTRA_S)
        if rules.budget_s and wall_s is not None:
            # What is cut short is slower than the factor all the same: `further` has seen to that.
            timeout_s = min(timeout_s or math.inf, rules.budget_s - spent_s)
        (point,) = (name for name, size in self._limits.items() if size == limit)
        return [self._trial(planned, point, timeout_s)]

    def tried(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TriedLimit]:
        """Return what the trials at each limit came to."""
        by_point = trials_by_point(planned, records)
        unlimited = by_point.pop(self._unlimited.id, [])
        base, free_bytes = median_pace(unlimited, self.pace), _peaks(unlimited)
        settings = self._unlimited.settings
        is_timed_whole = settings["kind"] == "command" and not reads_throughput(settings)
        tried = []
        for point, trials in by_point.items():
            finished = sum(record.outcome == "ok" for record in trials)
            seconds = median_pace(trials, self.pace) if finished == len(trials) else None
            is_met = is_limit_met(trials[0].limits, len(trials), (r.limit_hits for r in trials))
            if not is_met and not adapts(_peaks(trials)[1], free_bytes[0]):
                seconds = seconds and base
            slowdown = seconds / base if seconds is not None and base else None
            tried.append(
                TriedLimit(
                    limit_bytes=self._limits[point],
                    trials=len(trials),
                    finished=finished,
                    killed=any(record.outcome == "oom-killed" for record in trials),
                    slowdown=slowdown,
                    later_s=(slowdown - 1) * base if slowdown and base and is_timed_whole else None,
                )
            )
        return tried

    def _next_limit(self, known: _Known, *, is_late: bool) -> float | None:
        """First the limit to give, then confirm it, then where it is killed."""
        is_single, rules = len(self._limits) == 1, self.rules
        # At no limit it does more than without one.
        is_hopeless = known.factor is not None and known.factor <= 1
        if is_hopeless or (is_single and known.factor is None):
            given = viable_bracket(known.tried)
        else:
            given = given_bracket(known.tried, known.factor, known.least_bytes)
        if is_single:
            (limit,) = known.candidates
            wanted = None if known.tried else limit
        else:
            wanted = known.next_given(given)
        if wanted is None and given.good:
            # A kill above a limit that finished may have been luck.
            low = given.good.limit_bytes
            is_torn = any(limit.huge_multiple and limit.limit_bytes > low for limit in known.tried)
            usual = 1 if self.rules.is_hurried and is_late and not is_torn else _CONFIRM
            if given.good.trials <= (usual if rules.confirm is None else rules.confirm):
                wanted = low
        if wanted or is_single or (known.swap_holds_all and not rules.killed):
            return wanted
        return known.next_viable(is_asked=rules.killed)

    def _unlimited_of(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[TrialRecord]:
        return trials_by_point(planned, records).get(self._unlimited.id, [])

    def _trial(
        self, planned: Sequence[PlannedTrial], point: str, timeout_s: float | None
    ) -> PlannedTrial:
        number, repeat = len(planned), sum(trial.point_id == point for trial in planned)
        return PlannedTrial(f"{number + 1:04d}", point, number, repeat, timeout_s=timeout_s)


@dataclass(frozen=True)
class _Known:
    """What is known before the next limit is chosen; sizes in bytes.

    Args:
        candidates: what may be tried.
        tried: what was.
        need_bytes: the largest need.
        held_bytes: what of it can't be dropped.
        peak_bytes: the most that was charged without a limit, the page cache included.
        least_bytes: no smaller limit is given.
        factor: the slowdown that is asked for; None: the usual one.
        swap: limits that say what swap there is.
    """

    candidates: Sequence[float]
    tried: Sequence[TriedLimit]
    need_bytes: float
    held_bytes: float
    peak_bytes: float
    least_bytes: float
    factor: float | None
    swap: LimitSetting

    @property
    def has_swap(self) -> bool:
        """Whether there is any."""
        return self.swap.swap_kind != "none"

    @property
    def swap_holds_all(self) -> bool:
        """Whether swap can hold all of the need; the system's own is taken for enough."""
        return self.has_swap and (self.swap.swap_bytes or self.need_bytes) >= self.need_bytes

    def next_given(self, bracket: LimitBracket) -> float | None:
        """Return the need itself and the step below it.

        With swap, large steps down from the need.
        """
        tried, good, bad = {limit.limit_bytes for limit in self.tried}, bracket.good, bracket.bad
        factor = self.factor or SLIGHT
        if bad and bad.huge_multiple in {*self.candidates} - tried:
            return bad.huge_multiple
        if (
            bad
            and bad.ok
            and bad.limit_bytes >= self.least_bytes
            and bracket.is_known_to(PRECISION)
        ):
            smaller = [limit for limit in self.tried if limit.limit_bytes < bad.limit_bytes]
            is_refuted = any(limit.is_fast(self.factor) for limit in smaller)
            is_near = (bad.slowdown or math.inf) <= factor * _NEAR
            if bad.trials < (3 if is_refuted else 1 + is_near):
                return bad.limit_bytes
        need = min((size for size in self.candidates if size >= self.need_bytes), default=None)
        if need is None:
            return None
        if bad is None and self.has_swap:
            return self._between(bracket, _DOWN * (good.limit_bytes if good else need), factor)
        if need not in tried and (bad is None or bad.limit_bytes < need):
            return need
        step = max((size for size in self.candidates if size < need), default=need)
        if bad is None and step not in tried:
            return step
        return self._between(bracket, need, factor)

    def next_viable(self, *, is_asked: bool) -> float | None:
        """Begin at what can't be dropped, or at what swap can't take; roughly, if not asked for."""
        bracket = viable_bracket(self.tried)
        bad, tried = bracket.bad, {limit.limit_bytes for limit in self.tried}
        is_slow = bad is not None and not bad.killed
        # Where limits are kinder than a first run, they don't show what kills that.
        is_enough = is_slow or self.least_bytes or bracket.is_known_to(_KILL_PRECISION)
        if is_enough and not is_asked:
            return None
        if bad and bad.huge_multiple in {*self.candidates} - tried:
            return bad.huge_multiple
        guess = self.held_bytes
        if self.has_swap:
            is_all = self.swap_holds_all
            guess = self.need_bytes - (0 if is_all else self.swap.swap_bytes or 0)
        return self._between(bracket, guess)

    def _between(
        self, bracket: LimitBracket, guess: float, factor: float | None = None
    ) -> float | None:
        """Return the candidate nearest to the likely answer.

        None if none is left, or it is known.
        """
        if bracket.is_known_to(PRECISION):
            return None
        good, bad = bracket.good, bracket.bad
        low, high = bad.limit_bytes if bad else 0.0, good.limit_bytes if good else math.inf
        if low < guess < high:
            aim = guess
        elif good and bad:
            # The middle, or where the line through both slowdowns meets the factor.
            part = 0.5
            if factor is not None and good.slowdown and (bad.slowdown or 0) > good.slowdown:
                rise = math.log((bad.slowdown or 0) / good.slowdown)
                part = math.log(factor / good.slowdown) / rise
            part = min(max(part, _MARGIN), 1 - _MARGIN)
            aim = high ** (1 - part) * low**part
        elif good:
            # While only one side is known, the steps away from the guess grow.
            aim = min(guess * (high / guess) ** _GROWTH, high / PRECISION)
        else:
            aim = max(guess * (low / guess) ** _GROWTH, low * PRECISION)
            # What it held without a limit is enough, if the need was told too small.
            aim = min(aim, self.peak_bytes) if low * PRECISION < self.peak_bytes else aim
        tried = {limit.limit_bytes for limit in self.tried}
        left = [size for size in self.candidates if low < size < high and size not in tried]
        finished = {limit.limit_bytes for limit in self.tried if limit.ok}
        is_huge = any(limit.huge_multiple in finished for limit in self.tried)
        if is_huge or aim * (PRECISION - 1) >= HUGE_PAGE:
            left = [size for size in left if size % HUGE_PAGE == 0]
        return min(left, key=lambda size: abs(math.log(size / aim)), default=None)


def needs_of(unlimited: Sequence[TrialRecord]) -> list[Need]:
    """Return what each unlimited trial needed, of those that finished and tell it."""
    finished = [record for record in unlimited if record.outcome == "ok"]
    needs = (need_of(r) or (Need(r.peak_bytes) if r.peak_bytes else None) for r in finished)
    return [need for need in needs if need and need.total_bytes]


def most_libraries(unlimited: Sequence[TrialRecord]) -> int | None:
    """Return the most that one of them mapped of libraries, in bytes; None: not known."""
    return max((r.library_bytes for r in unlimited if r.library_bytes is not None), default=None)


def usual_budget_s(unlimited_s: float) -> float:
    """Return what a search for a program may take, from what the program takes without a limit."""
    return max(_BUDGET_S, _BUDGET_TRIALS * unlimited_s)


def _peaks(trials: Sequence[TrialRecord]) -> tuple[float, float]:
    peaks = [record.peak_bytes for record in trials if record.peak_bytes] or [0]
    return min(peaks), max(peaks)


def _wall_s(record: TrialRecord) -> float | None:
    return record.wall_s
