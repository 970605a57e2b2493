"""Is a difference of repeats more than chance? A moderated t-test.

Three repeats tell little of their own spread. All comparisons of a kind together tell how large
spreads are here and how much they differ; each comparison's variance is drawn towards that, the
more the less its own repeats say. Source: G. K. Smyth, "Linear models and empirical Bayes methods",
Stat. Appl. Genet. Mol. Biol. 3 (2004), section 6.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Difference:
    """One difference: ``spread`` is the variance of single repeats, ``weight`` its share of that.

    ``freedom``: the degrees of freedom of the spread.
    """

    difference: float
    spread: float
    freedom: int
    weight: float


def moderated_differences(pairs: Sequence[Pair]) -> ModeratedDifferences:
    """The differences of the pairs with errors that share what all repeats tell of spread."""
    found = [_of_pair(before, after) for before, after in pairs]
    common, own = _prior(found)
    return ModeratedDifferences(
        difference=[one.difference for one in found],
        error=[
            math.sqrt((one.freedom * one.spread + own * common) / (one.freedom + own) * one.weight)
            for one in found
        ],
        freedom=[one.freedom + own for one in found],
    )


def _of_pair(before: Sequence[float], after: Sequence[float]) -> _Difference:
    freedom = len(before) + len(after) - 2
    spread = (_squares(before) + _squares(after)) / freedom
    weight = 1 / len(before) + 1 / len(after)
    return _Difference(_mean(after) - _mean(before), spread, freedom, weight)


def moderated_t_tests(pairs: Sequence[Pair], alpha: float = 0.05) -> list[RatioTest]:
    """Test each pair; each side has two values or more, logarithms.

    ``alpha`` is what p must stay below for a change, corrected for all comparisons made.
    """
    found = moderated_differences(pairs)
    each = zip(found.difference, found.error, found.freedom, strict=True)
    return [_ratio_test(*one, alpha) for one in each]


def _ratio_test(difference: float, error: float, freedom: float, alpha: float) -> RatioTest:
    # Repeats that are all alike: any difference is one.
    p = 2 * t_tail(abs(difference) / (error or _TINY), freedom)
    half = t_quantile(0.025, freedom) * error
    least = (t_quantile(alpha / 2, freedom) + t_quantile(1 - POWER, freedom)) * error
    return RatioTest(p, _exp(difference - half), _exp(difference + half), _exp(least))


def _exp(value: float) -> float:
    """The exponential; infinite where it is beyond all numbers."""
    return math.exp(value) if value < _LARGEST_EXPONENT else math.inf


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sum((value - mean) ** 2 for value in values)


def _prior(found: Sequence[_Difference]) -> tuple[float, float]:
    """The variance that all comparisons tell of one, and for how many repeats that counts.

    Fitted by the moments of the variances' logarithms (Smyth, section 6.2).
    """
    least = _LEAST_SHARE * statistics.median(one.spread for one in found)
    known = [one for one in found if one.spread > least]
    if len(known) < _LEAST_SPREADS:
        return 0.0, 0.0
    halves = [one.freedom / 2 for one in known]
    logs = [
        math.log(one.spread) - digamma(half) + math.log(half)
        for one, half in zip(known, halves, strict=True)
    ]
    beyond = statistics.variance(logs) - statistics.fmean(map(trigamma, halves))
    if beyond <= 0:
        # They differ by no more than chance has it: all are one.
        return math.exp(statistics.fmean(logs)), _NORMAL
    own = _inverse_trigamma(beyond)
    return math.exp(statistics.fmean(logs) + digamma(own) - math.log(own)), 2 * own


def _inverse_trigamma(value: float) -> float:
    """The y whose trigamma is the value: Newton's steps (Smyth, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        found = trigamma(y)
        step = found * (1 - found / value) / tetragamma(y)
        y += step
        if -step / y < 1e-8:
            break
    return y
