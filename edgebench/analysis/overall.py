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
one. Of sweeps made in turn, a block's ratio is of two trials in a row: what the machine does to
both is not in it, and instead of blocks, pairs of trials are left out. There, a weight is of its
kind of time: all points weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeAlias

from edgebench.analysis.comparison import OverallComparison, ratio_verdict
from edgebench.analysis.significance import POWER, moderated_differences, moderated_ratios
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

    @property
    def differences(self) -> list[BlockedLog]:
        """After less before, of the blocks in which both were made."""
        before = dict(self.before)
        return [(block, log - before[block]) for block, log in self.after if block in before]


@dataclass(frozen=True)
class _Spread:
    """A standard error of the mean difference, and its degrees of freedom."""

    over: str
    error: float
    freedom: float


def compare_overall(
    times: Sequence[PointTime], threshold: float, *, in_turn: bool = False
) -> OverallComparison | None:
    """How many times as long all the times take; each has two repeats or more a side.

    None: there are fewer than two times, or all repeats of a sweep are of one block. ``in_turn``:
    a block's repeats of both sides were made in turn; each time has two such blocks or more.
    """
    if len(times) < _LEAST_TIMES or min(map(len, _blocks(times))) < _LEAST_BLOCKS:
        return None
    if in_turn:
        found = moderated_ratios([_logs(one.differences) for one in times])
        error = _error_by_kind(times, found.error)
    else:
        found = moderated_differences([(_logs(one.before), _logs(one.after)) for one in times])
        error = found.error
    weights = _weights(found.difference, error)
    middle = _mean(found.difference, weights)
    spreads = list(_spreads(times, found.difference, weights, in_turn))
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


def _error_by_kind(times: Sequence[PointTime], error: Sequence[float]) -> Sequence[float]:
    """Each kind's error, of all its points.

    A point's few pairs share their trials: where they agree by chance they do so in all kinds, and
    the point would weigh most while its pairs seem to spread least.
    """
    squares: dict[str, list[float]] = {}
    for one, own in zip(times, error, strict=True):
        squares.setdefault(one.kind, []).append(own**2)
    return [math.sqrt(sum(squares[one.kind]) / len(squares[one.kind])) for one in times]


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
    times: Sequence[PointTime], difference: Sequence[float], weights: Sequence[float], in_turn: bool
) -> Iterator[_Spread]:
    """What the mean moves by if a kind, a point or a block (a pair, in turn) is left out."""
    names: dict[str, list[Hashable]] = {
        "kinds": [one.kind for one in times],
        "points": [one.point for one in times],
    }
    for over, groups in names.items():
        if len(set(groups)) >= _LEAST_GROUPS:
            yield _over_groups(over, groups, difference, weights)
    if in_turn:
        yield _over_pairs(times, difference, weights)
    else:
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


def _over_pairs(
    times: Sequence[PointTime], difference: Sequence[float], weights: Sequence[float]
) -> _Spread:
    """Pairs of trials made in turn, each point's for itself: drift is in both of a pair."""
    middle = _mean(difference, weights)
    variances: list[tuple[float, int]] = []
    for point in dict.fromkeys(one.point for one in times):
        own = [one.differences if one.point == point else [] for one in times]
        blocks = sorted({block for pairs in own for block, _ in pairs})
        moved = []
        for block in blocks:
            kept = [_without(pairs, block) for pairs in own]
            means = [sum(k) / len(k) if k else d for k, d in zip(kept, difference, strict=True)]
            moved.append(_mean(means, weights) - middle)
        variances.append((_jackknife(moved), len(moved) - 1))
    return _Spread("pairs", math.sqrt(sum(v for v, _ in variances)), _freedom(variances))


def _freedom(variances: Sequence[tuple[float, int]]) -> float:
    """The degrees of freedom of a sum of variances, which each have their own (Satterthwaite)."""
    total = sum(variance for variance, _ in variances)
    squares = sum(variance**2 / own for variance, own in variances if own)
    return total**2 / squares if squares else float(sum(own for _, own in variances))


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
