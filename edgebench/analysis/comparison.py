"""The comparison of two sweeps, as data, and the tests of whether a difference is chance.

**Each time: a moderated t-test.** Three repeats tell little of their own spread. All comparisons of
a kind together tell how large spreads are here and how much they differ; each comparison's variance
is drawn towards that, the more the less its own repeats say. Source: G. K. Smyth, "Linear models
and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3 (2004), section 6.

**All times: how many times as long the second sweep takes.** The answer is the mean of the times'
ratios (of logarithms). A precise ratio weighs more than an imprecise one; the more the ratios
differ beyond what their repeats explain, the more alike their weights are (random effects; R.
DerSimonian, N. Laird, "Meta-analysis in clinical trials", Control. Clin. Trials 7, 1986).

Ratios are not independent: those of a point share trials, those of a kind (loads, say) need the
same part of the machine, those of a block share a moment. So the interval isn't made of the ratios'
own errors but of how far the mean moves as kinds are left out one at a time, or points, or blocks
(a jackknife over clusters): the widest of the three. What a machine does to all times of a whole
sweep looks like a change of that sweep; only the threshold keeps a little of it from being called
one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Literal, TypeAlias

from edgebench.distributions import digamma, t_quantile, t_tail, tetragamma, trigamma
from edgebench.records import LimitSetting
from edgebench.results.times import TIMES
from edgebench.text import THROUGHPUT

Verdict = Literal["slower", "faster", "more", "less", "same", "unsure", "lost", "gained"]
#: Verdicts that are regressions.
REGRESSIONS: tuple[Verdict, ...] = ("slower", "more", "lost")


@dataclass(frozen=True)
class PointComparison:
    """One quantity of one point in both sweeps.

    ``quantity`` is one of :data:`~edgebench.results.times.TIMES` (seconds), ``throughput``
    (per second, of what ``unit`` names), ``demand`` (bytes) or ``viable`` (share of trials that
    ended ``ok``). ``ratio`` is b / a, with a 95 % interval. ``p`` is corrected. From
    ``least_ratio`` on a change is found 19 times in 20. Missing values: too few repeats, or the
    quantity isn't there.
    """

    workload: str
    limits: LimitSetting
    quantity: str
    a: float
    b: float
    repeats_a: int
    repeats_b: int
    verdict: Verdict
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None
    least_ratio: float | None = None
    unit: str = ""

    @property
    def is_regression(self) -> bool:
        """Whether it got worse beyond threshold and chance."""
        return self.verdict in REGRESSIONS


@dataclass(frozen=True)
class OverallComparison:
    """All times of both sweeps together, ``times`` of them.

    ``ratio`` is how many times as long b takes, with a 95 % interval. ``verdict`` is ``slower``,
    ``faster``, ``same`` or ``unsure``. The interval is the widest of those made by leaving out
    kinds of time, points and blocks: ``widest`` says of which. From
    ``least_ratio`` on a change of all times is found 19 times in 20, with a threshold of at most
    half of it.
    """

    times: int
    ratio: float
    ratio_low: float
    ratio_high: float
    verdict: Verdict
    widest: str
    least_ratio: float


@dataclass(frozen=True)
class SweepComparison:
    """All comparisons, and the points that only one of the sweeps has.

    ``overall`` is None where there is but one time or block, or single repeats. ``warnings`` is
    what else the sweeps differ in, ``machine`` where their machines differed.
    """

    rows: list[PointComparison]
    only_a: list[str]
    only_b: list[str]
    overall: OverallComparison | None = None
    warnings: list[str] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)

    @property
    def regressions(self) -> list[PointComparison]:
        """What got worse beyond threshold and chance."""
        return [row for row in self.rows if row.is_regression]

    @property
    def is_slower_overall(self) -> bool:
        """Whether all times together got slower beyond threshold and chance."""
        return self.overall is not None and self.overall.verdict in REGRESSIONS

    @property
    def least_times_ratio(self) -> float | None:
        """From which ratio on the middle one of the times is found; None: nothing was tested."""
        least = [row.least_ratio for row in self.rows if row.least_ratio and row.quantity in TIMES]
        return statistics.median(least) if least else None

    def repeats_for(self, ratio: float, least_ratio: float) -> int:
        """Estimate how many repeats a side show such a ratio, where these show ``least_ratio``."""
        repeats = min(min(row.repeats_a, row.repeats_b) for row in self.rows if row.least_ratio)
        # The error of a mean falls with the root of the repeats.
        return math.ceil(repeats * (math.log(least_ratio) / math.log(ratio)) ** 2)


#: How seldom chance alone may call anything a change, over all of the comparisons together.
ALPHA = 0.05


#: Quantity → its words for a ratio above and below 1, where they are not those of a time.
_VERDICT_WORDS: dict[str, dict[Verdict, Verdict]] = {
    "demand": {"slower": "more", "faster": "less"},
    THROUGHPUT: {"slower": "faster", "faster": "slower"},
}


def judged_rows(rows: Sequence[PointComparison], threshold: float) -> list[PointComparison]:
    """Correct p for the number of rows, and add verdicts."""
    tested = [index for index, row in enumerate(rows) if row.p is not None]
    corrected = dict(zip(tested, holm_correction([rows[i].p or 0.0 for i in tested]), strict=True))
    judged = []
    for index, row in enumerate(rows):
        if index in corrected:
            row = replace(row, p=corrected[index])
        low, high = row.ratio_low, row.ratio_high
        if row.quantity == "viable":
            judged.append(row)
        elif row.p is None or low is None or high is None:
            judged.append(replace(row, verdict="unsure"))
        else:
            verdict = ratio_verdict(row.ratio or 1.0, low, high, threshold, p=row.p)
            words = _VERDICT_WORDS.get(row.quantity, {})
            judged.append(replace(row, verdict=words.get(verdict, verdict)))
    return judged


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """Correct p by Holm's step-down method: each as if it were the only comparison made."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = floor
    return corrected


def ratio_verdict(
    ratio: float, low: float, high: float, threshold: float, *, p: float = 0.0
) -> Verdict:
    """Judge a time; ``p`` is corrected, 0 where the interval alone decides."""
    worse, better = ratio > 1 + threshold, ratio < 1 / (1 + threshold)
    if not (worse or better):
        # Threshold is half of the change that repeats must be able to tell.
        most = 1 + 2 * threshold
        return "same" if 1 / most <= low <= high <= most else "unsure"
    # An outlier can move the mean one way and the median the other.
    sure = p <= ALPHA and (low > 1 if worse else high < 1)
    return ("slower" if worse else "faster") if sure else "unsure"


#: How often a change of ``least_ratio`` is found.
POWER = 0.95
#: With fewer spreads than this nothing is known of how spreads differ.
_LEAST_SPREADS = 4
#: A variance below this share of the middle one is of rounding, not of repeats.
_LEAST_SHARE = 1e-5
_NORMAL = 1e9
_TINY = 1e-300
_LARGEST_EXPONENT = 700.0

#: The logarithms of the repeats before and after.
Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class RatioTest:
    """``p`` of the two-sided test, and the 95 % interval of after / before.

    ``least_ratio``: how many times as large after must be to be called a change with ``POWER``.
    """

    p: float
    ratio_low: float
    ratio_high: float
    least_ratio: float


def moderated_differences(pairs: Sequence[Pair]) -> list[tuple[float, float, float]]:
    """Return of each pair: mean after less mean before, its standard error, degrees of freedom.

    The errors share what all repeats tell of spread.
    """
    freedoms = [len(before) + len(after) - 2 for before, after in pairs]
    # The variance of single repeats.
    spreads = [
        sum(sum((value - _mean(side)) ** 2 for value in side) for side in pair) / freedom
        for pair, freedom in zip(pairs, freedoms, strict=True)
    ]
    common, common_freedom = _prior(spreads, freedoms)
    differences = []
    for (before, after), freedom, spread in zip(pairs, freedoms, spreads, strict=True):
        # Of the variance of single repeats, the share that a difference has.
        share = 1 / len(before) + 1 / len(after)
        total = freedom + common_freedom
        error = math.sqrt((freedom * spread + common_freedom * common) / total * share)
        differences.append((_mean(after) - _mean(before), error, total))
    return differences


def moderated_t_tests(pairs: Sequence[Pair], alpha: float = 0.05) -> list[RatioTest]:
    """Test each pair; each side has two values or more, logarithms.

    ``alpha`` is what p must stay below for a change, corrected for all comparisons made.
    """
    tests = []
    for difference, error, freedom in moderated_differences(pairs):
        # Repeats that are all alike: any difference is one.
        p = 2 * t_tail(abs(difference) / (error or _TINY), freedom)
        half = t_quantile(0.025, freedom) * error
        least = (t_quantile(alpha / 2, freedom) + t_quantile(1 - POWER, freedom)) * error
        logs = difference - half, difference + half, least
        # Infinite where it is beyond all numbers.
        ratios = (math.exp(log) if log < _LARGEST_EXPONENT else math.inf for log in logs)
        tests.append(RatioTest(p, *ratios))
    return tests


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _prior(spreads: Sequence[float], freedoms: Sequence[int]) -> tuple[float, float]:
    """Estimate the variance that all comparisons tell of each, and how many repeats it counts for.

    Fitted by the moments of the variances' logarithms (Smyth, section 6.2).
    """
    least = _LEAST_SHARE * statistics.median(spreads)
    pairs = zip(spreads, freedoms, strict=True)
    known = [(spread, freedom / 2) for spread, freedom in pairs if spread > least]
    if len(known) < _LEAST_SPREADS:
        return 0.0, 0.0
    logs = [math.log(spread) - digamma(half) + math.log(half) for spread, half in known]
    halves = [half for _, half in known]
    beyond = statistics.variance(logs) - statistics.fmean(map(trigamma, halves))
    if beyond <= 0:
        # They differ by no more than chance has it: all are one.
        return math.exp(statistics.fmean(logs)), _NORMAL
    # The half freedom whose trigamma that is, by Newton's steps (Smyth, appendix).
    half_freedom = 0.5 + 1 / beyond
    for _ in range(50):
        reached = trigamma(half_freedom)
        step = reached * (1 - reached / beyond) / tetragamma(half_freedom)
        half_freedom += step
        if -step / half_freedom < 1e-8:
            break
    log = statistics.fmean(logs) + digamma(half_freedom) - math.log(half_freedom)
    return math.exp(log), 2 * half_freedom


#: One ratio is a row of its own, and no "all".
_LEAST_TIMES = 2
#: Fewer kinds or points say too little of how they differ.
_LEAST_GROUPS = 4
#: The same of blocks, of each sweep: there are as many as repeats.
_LEAST_BLOCKS = 2
#: An error below this (of a logarithm) is the clock's, not the repeats'.
_LEAST_ERROR = 1e-4

#: The logarithm of a trial's seconds, and its block.
BlockedLog: TypeAlias = tuple[int, float]


@dataclass(frozen=True)
class PointTime:
    """One kind of time at one point: its repeats in both sweeps."""

    kind: str
    point: Hashable
    before: Sequence[BlockedLog]
    after: Sequence[BlockedLog]


def compare_overall(times: Sequence[PointTime], threshold: float) -> OverallComparison | None:
    """Compare all times together; each has two repeats or more a side.

    None: there are fewer than two times, or all repeats of a sweep are of one block.
    """
    blocks = (
        sorted({block for time in times for block, _ in time.before}),
        sorted({block for time in times for block, _ in time.after}),
    )
    if len(times) < _LEAST_TIMES or min(map(len, blocks)) < _LEAST_BLOCKS:
        return None
    sides = [([log for _, log in time.before], [log for _, log in time.after]) for time in times]
    differences, errors, _ = zip(*moderated_differences(sides), strict=True)
    weights = _weights(differences, errors)
    middle = _weighted_mean(differences, weights)
    # What is left out, the standard error that this gives, and its degrees of freedom.
    spreads = []
    groups: dict[str, list[Hashable]] = {
        "kinds": [time.kind for time in times],
        "points": [time.point for time in times],
    }
    for over, group_of in groups.items():
        names = dict.fromkeys(group_of)
        if len(names) < _LEAST_GROUPS:
            continue
        moved = []
        for name in names:
            kept = [group != name for group in group_of]
            others = list(compress(differences, kept)), list(compress(weights, kept))
            moved.append(_weighted_mean(*others) - middle)
        spreads.append((over, math.sqrt(_jackknife(moved)), len(moved) - 1))
    # Each sweep's blocks for itself: those of two sweeps have nothing in common.
    variance = _jackknife([_mean_without(times, weights, b, None) - middle for b in blocks[0]])
    variance += _jackknife([_mean_without(times, weights, None, b) - middle for b in blocks[1]])
    spreads.append(("blocks", math.sqrt(variance), len(blocks[0]) + len(blocks[1]) - 2))

    halves = [t_quantile(0.025, freedom) * error for _, error, freedom in spreads]
    half, (over, error, freedom) = max(zip(halves, spreads, strict=True), key=lambda pair: pair[0])
    ratio, low, high = (math.exp(middle + shift) for shift in (0.0, -half, half))
    least = math.exp(half + t_quantile(1 - POWER, freedom) * error)
    verdict = ratio_verdict(ratio, low, high, threshold)
    return OverallComparison(len(times), ratio, low, high, verdict, over, least)


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _weights(difference: Sequence[float], error: Sequence[float]) -> Sequence[float]:
    """Take one over each ratio's variance, with what ratios differ by beyond their errors."""
    within = [max(e, _LEAST_ERROR) ** 2 for e in error]
    precision = [1 / variance for variance in within]
    middle = _weighted_mean(difference, precision)
    squares = sum(p * (d - middle) ** 2 for p, d in zip(precision, difference, strict=True))
    beyond = squares - (len(difference) - 1)
    scale = sum(precision) - sum(p**2 for p in precision) / sum(precision)
    return [1 / (variance + max(0.0, beyond / scale)) for variance in within]


def _jackknife(moved: Sequence[float]) -> float:
    """Compute the variance of a mean that moves so much as each of its groups is left out."""
    return (len(moved) - 1) / len(moved) * sum(shift**2 for shift in moved)


def _mean_without(
    times: Sequence[PointTime], weights: Sequence[float], before: int | None, after: int | None
) -> float:
    """Compute the mean difference without a block, and without times of that block alone."""
    sides = [
        (
            [log for block, log in time.before if block != before],
            [log for block, log in time.after if block != after],
        )
        for time in times
    ]
    kept = [bool(first and second) for first, second in sides]
    difference = [_mean(second) - _mean(first) for first, second in compress(sides, kept)]
    return _weighted_mean(difference, list(compress(weights, kept)))
