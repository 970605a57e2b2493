"""Tests of whether a difference of repeats is more than chance: of each time, and of all together.

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
from dataclasses import dataclass
from itertools import compress
from typing import TypeAlias

from edgebench.analysis.comparison import OverallComparison, ratio_verdict
from edgebench.distributions import digamma, t_quantile, t_tail, tetragamma, trigamma

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


@dataclass(frozen=True)
class ModeratedDifferences:
    """Of each pair: mean after less mean before, its standard error, its degrees of freedom."""

    difference: list[float]
    error: list[float]
    freedom: list[float]


def moderated_differences(pairs: Sequence[Pair]) -> ModeratedDifferences:
    """Compute the pairs' differences; their errors share what all repeats tell of spread."""
    freedoms = [len(before) + len(after) - 2 for before, after in pairs]
    # The variance of single repeats, and the share of it that a difference has.
    spreads = [
        sum(sum((value - _mean(side)) ** 2 for value in side) for side in pair) / freedom
        for pair, freedom in zip(pairs, freedoms, strict=True)
    ]
    shares = [1 / len(before) + 1 / len(after) for before, after in pairs]
    common, common_freedom = _prior(spreads, freedoms)
    return ModeratedDifferences(
        difference=[_mean(after) - _mean(before) for before, after in pairs],
        error=[
            math.sqrt(
                (freedom * spread + common_freedom * common) / (freedom + common_freedom) * share
            )
            for freedom, spread, share in zip(freedoms, spreads, shares, strict=True)
        ],
        freedom=[freedom + common_freedom for freedom in freedoms],
    )


def moderated_t_tests(pairs: Sequence[Pair], alpha: float = 0.05) -> list[RatioTest]:
    """Test each pair; each side has two values or more, logarithms.

    ``alpha`` is what p must stay below for a change, corrected for all comparisons made.
    """
    differences = moderated_differences(pairs)
    tests = []
    for difference, error, freedom in zip(
        differences.difference, differences.error, differences.freedom, strict=True
    ):
        # Repeats that are all alike: any difference is one.
        p = 2 * t_tail(abs(difference) / (error or _TINY), freedom)
        half = t_quantile(0.025, freedom) * error
        least = (t_quantile(alpha / 2, freedom) + t_quantile(1 - POWER, freedom)) * error
        tests.append(RatioTest(p, *map(_exp, (difference - half, difference + half, least))))
    return tests


def _exp(value: float) -> float:
    # Infinite where it is beyond all numbers.
    return math.exp(value) if value < _LARGEST_EXPONENT else math.inf


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
    half_freedom = _inverse_trigamma(beyond)
    return math.exp(
        statistics.fmean(logs) + digamma(half_freedom) - math.log(half_freedom)
    ), 2 * half_freedom


def _inverse_trigamma(value: float) -> float:
    """Find the y whose trigamma is the value by Newton's steps (Smyth, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        reached = trigamma(y)
        step = reached * (1 - reached / value) / tetragamma(y)
        y += step
        if -step / y < 1e-8:
            break
    return y


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
    differences = moderated_differences(
        [([log for _, log in time.before], [log for _, log in time.after]) for time in times]
    )
    weights = _weights(differences.difference, differences.error)
    middle = _weighted_mean(differences.difference, weights)
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
            others = list(compress(differences.difference, kept)), list(compress(weights, kept))
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
