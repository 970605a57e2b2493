"""Isotonic regression: the falling values that are nearest to given ones.

As ``scipy.optimize.isotonic_regression``, by the same algorithm. To import that takes longer than
all regressions of a report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebench.slowdown.curves import FloatArray


def falling_values(values: FloatArray, weights: Sequence[float] | None = None) -> FloatArray:
    """The values that never rise and are nearest by (weighted) least squares.

    Neighbours that rise are pooled to their mean, until none rise (pool adjacent violators).
    """
    # Of each pool: its mean, the weight and the number of its values.
    means: list[float] = []
    sums: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights or [1.0] * len(values), strict=True):
        mean, whole, count = value, weight, 1
        while means and means[-1] < mean:
            before = sums.pop()
            mean = (means.pop() * before + mean * whole) / (before + whole)
            whole, count = whole + before, count + counts.pop()
        means.append(mean)
        sums.append(whole)
        counts.append(count)
    return np.repeat(np.array(means, dtype=np.float64), counts)
