"""The comparison of two sweeps, as data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from edgebench.records import LimitSetting
from edgebench.results.rounds import TIMES
from edgebench.throughput import THROUGHPUT

Verdict = Literal["slower", "faster", "more", "less", "same", "unsure", "lost", "gained"]
#: Verdicts that are regressions.
REGRESSIONS: tuple[Verdict, ...] = ("slower", "more", "lost")


@dataclass(frozen=True)
class PointComparison:
    """One quantity of one point in both sweeps.

    ``quantity`` is one of :data:`~edgebench.results.rounds.TIMES` (seconds), ``throughput``
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

    @property
    def factor(self) -> float:
        """How large the change is, up or down: 2 of a time that doubled or a rate that halved."""
        return max(self.ratio, 1 / self.ratio) if self.ratio else 0.0


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

    def repeats_for(self, ratio: float) -> int | None:
        """Estimate how many repeats a side it takes to find such a ratio of the middle one."""
        return self._repeats(self.least_times_ratio, ratio)

    def repeats_for_all(self, ratio: float) -> int | None:
        """Estimate the same for all times together."""
        return self._repeats(self.overall.least_ratio if self.overall else None, ratio)

    def _repeats(self, least: float | None, ratio: float) -> int | None:
        if least is None:
            return None
        repeats = min(min(row.repeats_a, row.repeats_b) for row in self.rows if row.least_ratio)
        # The error of a mean falls with the root of the repeats.
        return math.ceil(repeats * (math.log(least) / math.log(ratio)) ** 2)


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
