"""A slowdown known at every limit: what models predict with, and what intervals are made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray

#: A million times slower is never: regressions are cut off there.
_NEVER = float(np.log(1e6))


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

    def through(self, ln_limit: FloatArray, ln_slowdown: FloatArray) -> SlowdownFunction:
        """The same shape, moved so that it passes these points, ascending limits.

        It is moved by what it misses there: between two points in proportion, beyond the outermost
        as much as there. Between two points it stays between their slowdowns.
        """
        grid = np.union1d(self.ln_limit, ln_limit)
        missed = ln_slowdown - np.interp(ln_limit, self.ln_limit, self.ln_slowdown)
        shape = np.interp(grid, self.ln_limit, self.ln_slowdown)
        wanted = shape + np.interp(grid, ln_limit, missed)
        places = np.searchsorted(grid, ln_limit)
        for low, high in itertools.pairwise([0, *places, len(grid) - 1]):
            part = slice(low, high + 1)
            wanted[part] = _between(wanted[part], low in places, high in places)
        return SlowdownFunction(grid, np.clip(wanted, 0.0, _NEVER))


def _between(values: FloatArray, from_point: bool, to_point: bool) -> FloatArray:
    """Values between two points, monotone as these are; beyond the outermost point never rising."""
    first, last = float(values[0]), float(values[-1])
    rises = from_point and to_point and last > first
    least, most = min(first, last), max(first, last)
    if not from_point:
        least, most = last, np.inf
    elif not to_point:
        least, most = -np.inf, first
    # Clipped first, so that the regression leaves the points where they are.
    kept = np.clip(values, least, most)
    return -falling_values(-kept) if rises else falling_values(kept)


def never_rising(ln_limit: FloatArray, ln_slowdown: FloatArray) -> SlowdownFunction:
    """The possible function nearest to these values: at least 1, and not rising with memory.

    Nearest by least squares (isotonic regression): a bump is evened out with what lies beside it.
    """
    return SlowdownFunction(ln_limit, np.clip(falling_values(ln_slowdown), 0.0, _NEVER))
