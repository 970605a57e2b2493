"""All times of two sweeps as one question: how many times as long the second one takes.

Each time of each point has a ratio of its own. The answer is their mean (of logarithms). A precise
ratio weighs more than an imprecise one; the more the ratios differ beyond what their repeats
explain, the more alike their weights are (random effects; R. DerSimonian, N. Laird, "Meta-analysis
in clinical trials", Control. Clin. Trials 7, 1986).

Ratios are not independent: those of a point share trials, those of a kind (loads, say) need the
same part of the machine, those of a block share a moment. So the interval isn't made of the ratios'
own errors but of how far the mean moves as kinds are left out one at a time, or points, or blocks
(a jackknife over clusters): the widest of the three. What a machine does to all times of a whole
sweep looks like a change of that sweep; only the threshold keeps a little of it from being called
one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeAlias

from edgebench.analysis.comparison import OverallComparison, ratio_verdict
from edgebench.analysis.significance import POWER, moderated_differences
from edgebench.distributions import t_quantile

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


@dataclass(frozen=True)
class _Spread:
    """A standard error of the mean difference, and its degrees of freedom."""

    over: str
    error: float
    freedom: float


def compare_overall(times: Sequence[PointTime], threshold: float) -> OverallComparison | None:
    """How many times as long all the times take; each has two repeats or more a side.

    None: there are fewer than two times, or all repeats of a sweep are of one block.
    """
    if len(times) < _LEAST_TIMES or min(map(len, _blocks(times))) < _LEAST_BLOCKS:
        return None
    found = moderated_differences([(_logs(one.before), _logs(one.after)) for one in times])
    weights = _weights(found.difference, found.error)
    middle = _mean(found.difference, weights)
    spreads = list(_spreads(times, found.difference, weights))
    halves = [t_quantile(0.025, one.freedom) * one.error for one in spreads]
    half, widest = max(zip(halves, spreads, strict=True), key=lambda pair: pair[0])
    ratio, low, high = (math.exp(middle + shift) for shift in (0.0, -half, half))
    least = math.exp(half + t_quantile(1 - POWER, widest.freedom) * widest.error)
    verdict = ratio_verdict(ratio, low, high, threshold)
    return OverallComparison(len(times), ratio, low, high, verdict, widest.over, least)


def _logs(repeats: Sequence[BlockedLog]) -> list[float]:
    return [log for _, log in repeats]


def _blocks(times: Sequence[PointTime]) -> tuple[list[int], list[int]]:
    """The blocks of the first sweep, and of the second one."""
    before = {block for one in times for block, _ in one.before}
    after = {block for one in times for block, _ in one.after}
    return sorted(before), sorted(after)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _weights(difference: Sequence[float], error: Sequence[float]) -> Sequence[float]:
    """One over each ratio's variance, with what ratios differ by beyond their errors."""
    within = [max(one, _LEAST_ERROR) ** 2 for one in error]
    precision = [1 / one for one in within]
    middle = _mean(difference, precision)
    squares = sum(p * (d - middle) ** 2 for p, d in zip(precision, difference, strict=True))
    beyond = squares - (len(difference) - 1)
    scale = sum(precision) - sum(p**2 for p in precision) / sum(precision)
    return [1 / (one + max(0.0, beyond / scale)) for one in within]


def _spreads(
    times: Sequence[PointTime], difference: Sequence[float], weights: Sequence[float]
) -> Iterator[_Spread]:
    """What the mean moves by if a kind, a point or a block is left out."""
    names: dict[str, list[Hashable]] = {
        "kinds": [one.kind for one in times],
        "points": [one.point for one in times],
    }
    for over, groups in names.items():
        if len(set(groups)) >= _LEAST_GROUPS:
            yield _over_groups(over, groups, difference, weights)
    yield _over_blocks(times, _mean(difference, weights), weights)


def _over_groups(
    over: str, groups: Sequence[Hashable], difference: Sequence[float], weights: Sequence[float]
) -> _Spread:
    middle = _mean(difference, weights)
    moved = []
    for group in dict.fromkeys(groups):
        kept = [one != group for one in groups]
        others = list(compress(difference, kept)), list(compress(weights, kept))
        moved.append(_mean(*others) - middle)
    return _Spread(over, math.sqrt(_jackknife(moved)), len(moved) - 1)


def _over_blocks(times: Sequence[PointTime], middle: float, weights: Sequence[float]) -> _Spread:
    """Blocks of either sweep, each sweep for itself; two sweeps' blocks have nothing in common."""
    before, after = _blocks(times)
    variance = _jackknife([_mean_without(times, weights, b, None) - middle for b in before])
    variance += _jackknife([_mean_without(times, weights, None, b) - middle for b in after])
    return _Spread("blocks", math.sqrt(variance), len(before) + len(after) - 2)


def _jackknife(moved: Sequence[float]) -> float:
    """The variance of a mean that moves so much as each of its groups is left out."""
    return (len(moved) - 1) / len(moved) * sum(one**2 for one in moved)


def _mean_without(
    times: Sequence[PointTime], weights: Sequence[float], before: int | None, after: int | None
) -> float:
    """The mean difference without a block; times that are of that block alone are left out."""
    sides = [(_without(one.before, before), _without(one.after, after)) for one in times]
    kept = [bool(first and second) for first, second in sides]
    difference = [_middle(after) - _middle(before) for before, after in compress(sides, kept)]
    return _mean(difference, list(compress(weights, kept)))


def _middle(logs: Sequence[float]) -> float:
    return sum(logs) / len(logs)


def _without(repeats: Sequence[BlockedLog], block: int | None) -> list[float]:
    return [log for of, log in repeats if of != block]
