"""What a comparison's ratio, interval and p amount to: slower, faster, the same, or unsure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgebench.analysis.comparison import PointComparison, Verdict
from edgebench.throughput import THROUGHPUT

#: How seldom chance alone may call anything a change, over all of the comparisons together.
ALPHA = 0.05


def judged_rows(rows: Sequence[PointComparison], threshold: float) -> list[PointComparison]:
    """The rows with p corrected for their number, and with verdicts."""
    tested = [index for index, row in enumerate(rows) if row.p is not None]
    corrected = dict(zip(tested, holm_correction([rows[i].p or 0.0 for i in tested]), strict=True))
    judged = []
    for index, row in enumerate(rows):
        if index in corrected:
            row = replace(row, p=corrected[index])
        judged.append(row if row.quantity == "viable" else _with_verdict(row, threshold))
    return judged


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: each p as if it were the only comparison made."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = floor
    return corrected


def ratio_verdict(
    ratio: float, low: float, high: float, threshold: float, *, p: float = 0.0
) -> Verdict:
    """The verdict on a time; ``p`` is corrected, 0 where the interval alone decides."""
    worse, better = ratio > 1 + threshold, ratio < 1 / (1 + threshold)
    if not (worse or better):
        # Threshold is half of the change that repeats must be able to tell.
        most = 1 + 2 * threshold
        return "same" if 1 / most <= low <= high <= most else "unsure"
    # An outlier can move the mean one way and the median the other.
    sure = p <= ALPHA and (low > 1 if worse else high < 1)
    return ("slower" if worse else "faster") if sure else "unsure"


def _with_verdict(row: PointComparison, threshold: float) -> PointComparison:
    low, high = row.ratio_low, row.ratio_high
    if row.p is None or low is None or high is None:
        return replace(row, verdict="unsure")
    verdict = ratio_verdict(row.ratio or 1.0, low, high, threshold, p=row.p)
    words: dict[Verdict, Verdict] = {}
    if row.quantity == "demand":
        words = {"slower": "more", "faster": "less"}
    elif row.quantity == THROUGHPUT:
        words = {"slower": "faster", "faster": "slower"}
    return replace(row, verdict=words.get(verdict, verdict))
