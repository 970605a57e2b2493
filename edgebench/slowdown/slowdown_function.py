"""A slowdown known at every limit: what models predict with, and what intervals are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray


def falling_values(values: FloatArray, weights: Sequence[float] | None = None) -> FloatArray:
    """The values that never rise and are nearest by (weighted) least squares."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, weights=weights, increasing=False).x)


@dataclass(frozen=True)
class SlowdownFunction:
    """A curve's slowdown at ascending limits, close enough to be straight between them.

    Straight in logarithms. Beyond the first and last limit it holds.
    """

    ln_limit: FloatArray
    ln_slowdown: FloatArray

    def at(self, limit_bytes: FloatArray) -> FloatArray:
        """Slowdown at any limits."""
        return np.exp(np.interp(np.log(limit_bytes), self.ln_limit, self.ln_slowdown))
