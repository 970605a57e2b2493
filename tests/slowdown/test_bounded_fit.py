"""Least squares with bounds, held to lmfit's: the same numbers, in less time."""

from __future__ import annotations

from collections.abc import Callable

import lmfit
import numpy as np
import pytest

from edgebench.slowdown.models.bounded_fit import BoundedFit, fit_bounded
from edgebench.slowdown.models.hinge import ln_slowdown

LOW, HIGH = np.array([-4.0, -12.0, 0.2]), np.array([3.0, 12.0, 6.0])
STARTS = ((-0.5, 0.0, 1.0), (0.5, 1.0, 2.0))


def by_lmfit(residuals: Callable[[np.ndarray], np.ndarray], start: tuple[float, ...]):
    """The same search by lmfit."""
    parameters = lmfit.Parameters()
    for name, value, low, high in zip("Wab", start, LOW, HIGH, strict=True):
        parameters.add(name, value, min=low, max=high)
    return lmfit.minimize(
        lambda p: residuals(np.array(list(p.valuesdict().values()))), parameters, method="leastsq"
    )


def both(ln_limit: np.ndarray, observed: np.ndarray, start: tuple[float, ...]):
    """A hinge fitted here, and by lmfit."""

    def residuals(values: np.ndarray) -> np.ndarray:
        return ln_slowdown(values, ln_limit) - observed

    found: BoundedFit = fit_bounded(residuals, np.array(start), LOW, HIGH)
    return found, by_lmfit(residuals, start)


@pytest.mark.parametrize("start", STARTS)
def test_fits_are_those_of_lmfit(start: tuple[float, ...]):
    """Values, covariance and AIC of a hinge with noise, from two starts."""
    chance = np.random.default_rng(1)
    ln_limit = np.repeat(np.log(np.geomspace(0.2, 1.0, 8)), 3)
    truth = ln_slowdown((-0.1, 0.7, 1.4), ln_limit)
    found, known = both(ln_limit, truth + 0.05 * chance.standard_normal(24), start)
    values = [known.params[name].value for name in "Wab"]
    assert found.values == pytest.approx(values, rel=1e-6)
    assert found.chi_square == pytest.approx(float(known.chisqr), rel=1e-9)
    assert (found.free, found.aic) == (known.nfree, pytest.approx(known.aic, rel=1e-9))
    assert found.covariance == pytest.approx(known.covar, rel=1e-4)


def test_a_fit_without_error_has_an_aic():
    """A curve that is met exactly: the logarithm of no error is a number."""
    x = np.arange(5.0)
    found = fit_bounded(lambda p: p[0] * x - 2 * x, np.array([1.0]), np.zeros(1), np.full(1, 9.0))
    assert found.values == pytest.approx([2.0])
    assert np.isfinite(found.aic)
    assert found.free == 4


def test_no_parameter_leaves_its_bounds():
    """What would be best outside ends at the bound."""
    x = np.arange(1.0, 6.0)
    found = fit_bounded(lambda p: p[0] * x - 9 * x, np.array([1.0]), np.zeros(1), np.full(1, 3.0))
    assert 2.9 < found.values[0] <= 3.0
