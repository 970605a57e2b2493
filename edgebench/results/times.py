"""Times of trials: their rounds (start, settling, steady), and repeats with their intervals.

The first round after an import pays for what happens once: under a limit, the idle runtime is
written out to swap. Later rounds repeat, at once or after some more. The test for that is stated
here, and here alone: rounds repeat where at least `LEAST` of them in a row, up to the last one,

- lie within `TOLERANCE` of their own median, but for one in four (a round that met a disturbance),
- and have no trend: the medians of the earlier and the later half of those that lie near differ by
  at most `TOLERANCE` too.

Rounds shorter than some milliseconds may differ by `CLOCK_S` as well. Where seconds don't repeat
under a limit, and the last rounds read the same, those are the steady ones.

A difference between two medians is claimed only where the interval of their ratio excludes 1.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from edgebench.need import settled
from edgebench.records import PhaseSum, RoundCounts, TrialRecord

#: A round's stage: the first one, those before they repeat, those that repeat.
START, SETTLING, STEADY = "start", "settling", "steady"
#: What a point's times are of. ``start`` is the first round's time on the clock, ``steady`` that of
#: the steady rounds (none where only one was run). ``total`` is the one answer where there may be
#: only one: ``steady``, else ``start``, else (a workload without rounds) the whole trial's time.
#: Phases are of the same rounds as ``total``; ``execute`` is one warm execution, ``decode`` one
#: generated token.
TIMES = (
    *("total", "start", "steady", "load", "first", "execute", "prefill", "decode"),
    *("data", "forward", "backward", "step", "graph"),
)
#: The import of the runtime in a fresh process, before any round: no part of the times above.
IMPORT = "import"
#: What is timed of each trial.
TRIAL_TIMES = (*TIMES, IMPORT)
#: Fewer rounds than this show nothing about whether they repeat.
LEAST = 3
#: How far a round may lie from the median of the rounds that repeat, as a share of it.
TOLERANCE = 0.1
#: How far it may lie in any case, seconds: what a scheduler's tick does to a short round.
CLOCK_S = 0.0005
#: Of so many rounds in a row one may lie farther away.
_ONE_IN = 4


class Steadiness(NamedTuple):
    """What the rounds of one process, in their order, come to.

    Args:
        rounds: the places of the steady rounds, never 0: those that repeat; where none do, all
            after the first. Empty where there is only one round.
        repeats: whether those rounds passed the test. False also where they are too few for it.
    """

    rounds: tuple[int, ...]
    repeats: bool


def steadiness(times_s: Sequence[float]) -> Steadiness:
    """Which of the rounds repeat: the longest row of them, up to the last one, that does.

    Args:
        times_s: each round's seconds, in the order in which they ran.

    Raises:
        ValueError: there is no round.
    """
    if not times_s:
        raise ValueError("no rounds: there is neither a start nor a steady time")
    count = len(times_s)
    # Kept in order from row to row: a training has thousands of rounds.
    ordered = sorted(times_s[1:])
    for begin in range(1, count - LEAST + 1):
        if _repeat(times_s[begin:], ordered):
            return Steadiness(tuple(range(begin, count)), repeats=True)
        del ordered[bisect_left(ordered, times_s[begin])]
    return Steadiness(tuple(range(1, count)), repeats=False)


#: Frames, tables and summaries each ask for a trial's rounds.
_steadiness = lru_cache(maxsize=1024)(steadiness)


def _repeat(times_s: Sequence[float], ordered: Sequence[float]) -> bool:
    """Whether a row of rounds passes; ``ordered`` are the same times, the shortest first."""
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    allowed_s = max(TOLERANCE * middle, CLOCK_S)
    first = bisect_left(ordered, True, key=lambda time_s: time_s - middle >= -allowed_s)
    last = bisect_left(ordered, True, lo=first, key=lambda time_s: time_s - middle > allowed_s)
    if count - (last - first) > count // _ONE_IN:
        return False
    near = [time_s for time_s in times_s if abs(time_s - middle) <= allowed_s]
    half = len(near) // 2
    return abs(statistics.median(near[:half]) - statistics.median(near[-half:])) <= allowed_s


class Rounds(NamedTuple):
    """The rounds of one trial; nothing of a workload without rounds.

    ``stages`` is each round's stage, by its number, in the order in which they ran. ``repeat``:
    whether the steady rounds passed the test; None where they are too few to tell.
    """

    stages: dict[int, str]
    repeat: bool | None


def rounds_of(record: TrialRecord) -> Rounds:
    """Return a trial's rounds."""
    times = {phase.round: phase.wall_s for phase in record.phases if phase.phase == "round"}
    if not times:
        return Rounds({}, None)
    numbers = sorted(times)
    steady, repeats = _steadiness(tuple(map(times.__getitem__, numbers)))
    if not repeats and record.limit_bytes is not None:
        steady = settled(reads_of(numbers, record.round_counts)) or steady
    stages = dict.fromkeys(numbers, SETTLING)
    # At a walk's further limits the process has long begun.
    if not (record.walk and record.walk.step):
        stages[numbers[0]] = START
    for place in steady:
        stages[numbers[place]] = STEADY
    return Rounds(stages, repeats if len(steady) >= LEAST else None)


def reads_of(numbers: Iterable[int], counts: Iterable[RoundCounts]) -> list[int | None]:
    """Return what each of these rounds read."""
    read = {count.round: count.in_bytes for count in counts}
    return [read.get(number) for number in numbers]


def round_stages(record: TrialRecord) -> dict[int, str]:
    """Each round's stage, by its number; empty of a workload without rounds."""
    return rounds_of(record).stages


def pass_seconds(phases: Iterable[PhaseSum]) -> dict[str, list[float]]:
    """Phase → the seconds of one pass in each of its rounds, summed over the round's networks."""
    sums: dict[str, dict[int, float]] = {}
    for phase in phases:
        by_round = sums.setdefault(phase.phase, {})
        own_s = phase.wall_s / phase.passes
        by_round[phase.round] = by_round.get(phase.round, 0.0) + own_s
    return {name: [*by_round.values()] for name, by_round in sums.items()}


def trial_times(record: TrialRecord, rounds: Rounds | None = None) -> dict[str, float]:
    """One trial's seconds, by :data:`TRIAL_TIMES`; empty unless it ended ``ok``.

    A phase is summed over the networks of a round; then comes the median of the rounds that
    ``total`` is of.

    Args:
        record: the trial's.
        rounds: its rounds, where they are known already.
    """
    if record.outcome != "ok":
        return {}
    stages = (rounds or rounds_of(record)).stages
    wanted = STEADY if STEADY in stages.values() else START
    # What is of no round, as the import, counts as well.
    phases = [phase for phase in record.phases if stages.get(phase.round, wanted) == wanted]
    known = {name: statistics.median(each_s) for name, each_s in pass_seconds(phases).items()}
    for phase in record.phases:
        if phase.phase == "round" and stages.get(phase.round) == START:
            known[START] = phase.wall_s
    if "round" in known:
        known[wanted] = known["round"]
    total = known.get("round", record.wall_s)
    if total is not None:
        known["total"] = total
    return {name: known[name] for name in TRIAL_TIMES if name in known}


#: A slowdown up to this is reported as "no more than 10 %".
SLIGHT = 1.1
#: Two repeats may lie close to each other by chance, so their interval is widened by this factor:
#: without it, one in five equal pairs would differ instead of one in ten, as with three repeats.
_OF_TWO = 3.0
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Spread:
    """Repeats of one quantity: median and extremes.

    ``sure_low`` to ``sure_high`` is the median's interval; None: not computed, use the extremes.
    """

    median: float
    low: float
    high: float
    count: int
    sure_low: float | None = None
    sure_high: float | None = None

    @property
    def farthest(self) -> float:
        """How far the farthest repeat is from the median, as a share of it."""
        if self.median == 0:
            return 0.0
        return max(self.high - self.median, self.median - self.low) / self.median


@dataclass(frozen=True)
class Ratio:
    """One median over another; ``low`` to ``high`` is its interval, from the repeats.

    ``off`` is how far the farthest repeat of both is from its median, as a fraction. All three are
    None where either median is of a single repeat.
    """

    median: float
    low: float | None = None
    high: float | None = None
    off: float | None = None

    @property
    def is_more(self) -> bool:
        """Whether all of the interval lies above 1."""
        return self.low is not None and self.low > 1

    @property
    def is_surely_more(self) -> bool:
        """The same; without repeats, its median is all there is and has to be well above 1."""
        return self.is_more if self.low is not None else self.median > SLIGHT


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Median and extremes of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    extremes = min(known), max(known)
    return Spread(statistics.median(known), *extremes, len(known), *median_interval(known))


def ratio_of(one: Spread, other: Spread) -> Ratio:
    """Return the one's median over the other's; medians are above 0."""
    mine, others = median_interval_of(one), median_interval_of(other)
    median = one.median / other.median
    if mine is None or others is None or others[0] <= 0:
        return Ratio(median)
    off = max(one.farthest, other.farthest)
    return Ratio(median, mine[0] / others[1], mine[1] / others[0], off)


def median_interval_of(spread: Spread) -> tuple[float, float] | None:
    """Where the median of ever more repeats would lie; None of one repeat.

    The extremes, or less where there are many repeats (:func:`median_interval`).
    """
    if spread.count < 2:
        return None
    if spread.count == 2 and spread.low > 0:
        wide = (spread.high / spread.low) ** (_OF_TWO / 2)
        return spread.median / wide, spread.median * wide
    low = spread.low if spread.sure_low is None else spread.sure_low
    return low, spread.high if spread.sure_high is None else spread.sure_high


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Between which of the values the true median lies, 19 times in 20 of six repeats or more.

    Order statistics, so nothing is assumed of how repeats are spread. Of fewer: the extremes.
    """
    ordered = sorted(values)
    left_out = max(0, int((len(ordered) - _NORMAL_95 * math.sqrt(len(ordered))) / 2) - 1)
    return ordered[left_out], ordered[len(ordered) - 1 - left_out]
