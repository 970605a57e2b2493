"""Repeats of one quantity, and ratios of two: their medians with intervals.

Every generated sentence follows these rules: a difference is claimed only where the ratio's
interval excludes 1, and sameness only where all of it lies within the bound that the sentence
names; otherwise the sentence says that the repeats can't tell, and why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
