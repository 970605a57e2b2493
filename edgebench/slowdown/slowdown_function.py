"""A slowdown known at every limit: what models predict with, and what intervals are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from edgebench.slowdown.curves import FloatArray

#: A million times slower is never: regressions are cut off there.
_NEVER = float(np.log(1e6))


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

    def scaled(self, ln_factor: FloatArray) -> SlowdownFunction:
        """Multiplied by a factor at each of its limits, and made possible again."""
        return never_rising(self.ln_limit, self.ln_slowdown + ln_factor)


def never_rising(ln_limit: FloatArray, ln_slowdown: FloatArray) -> SlowdownFunction:
    """The possible function nearest to these values: at least 1, and not rising with memory.

    Nearest by least squares (isotonic regression): a bump is evened out with what lies beside it.
    """
    falling = isotonic_regression(ln_slowdown, increasing=False).x
    return SlowdownFunction(ln_limit, np.clip(falling, 0.0, _NEVER))
