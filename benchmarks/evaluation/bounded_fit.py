"""Least squares with bounds, for fits of a few parameters by the hundred.

The search is Levenberg and Marquardt's, of MINPACK. Bounds are kept as MINUIT keeps them: a
parameter is a sine of the variable that is searched for (James and Roos, 1975). Steps, tolerances,
covariance and AIC are those of lmfit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray

#: Relative errors of the sum of squares and of the parameters that end a search.
_TOLERANCE = 1.5e-8
#: A derivative's step, squared.
_STEP = 1e-10
#: Calls of the residual, for each parameter and one more.
_MOST_CALLS = 4000


@dataclass(frozen=True)
class BoundedFit:
    """Where a search ended.

    Args:
        values: the parameters.
        chi_square: the sum of squared residuals.
        free: degrees of freedom: residuals less parameters.
        covariance: of the parameters, scaled by the residuals; None: they are not independent.
    """

    values: FloatArray
    chi_square: float
    free: int
    covariance: FloatArray | None

    @property
    def aic(self) -> float:
        """Akaike's criterion, of residuals that are normal."""
        count = len(self.values)
        points = count + self.free
        # A fit without any error has a logarithm too.
        least = max(self.chi_square, 1e-250 * points)
        return float(points * np.log(least / points) + 2 * count)


def fit_bounded(
    residuals: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> BoundedFit:
    """Search the parameters between ``low`` and ``high`` with the least sum of squares.

    Args:
        residuals: of the parameters, as many at least as there are parameters.
        start: where the search begins, between the bounds.
        low: the least value of each parameter.
        high: the largest.
    """
    from scipy.optimize import leastsq

    span = high - low

    def inside(searched: FloatArray) -> FloatArray:
        return np.asarray(low + (np.sin(searched) + 1) * span / 2)

    with np.errstate(all="ignore"):
        found, unscaled, *_ = leastsq(  # type: ignore[call-overload]
            lambda searched: residuals(inside(searched)),
            np.arcsin(2 * (start - low) / span - 1),
            full_output=True,
            ftol=_TOLERANCE,
            xtol=_TOLERANCE,
            epsfcn=_STEP,
            maxfev=_MOST_CALLS * (len(start) + 1),
        )
        values = inside(found)
        squares = float(np.sum(residuals(values) ** 2))
    free = len(residuals(values)) - len(values)
    slopes = np.cos(found) * span / 2
    covariance = None
    if unscaled is not None:
        covariance = unscaled * np.outer(slopes, slopes) * (squares / max(1, free))
    return BoundedFit(values, squares, free, covariance)
