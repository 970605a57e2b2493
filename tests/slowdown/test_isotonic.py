"""Isotonic regression, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from edgebench.slowdown.slowdown_function import falling_values


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scipys(weighted: bool):
    """The same values for random ones, of one value or many, some of them equal."""
    chance = np.random.default_rng(5)
    for size in [1, 2, 3, 5, 17, 140]:
        for scale in (0.0, 1.0, 1e9):
            values = (scale * chance.normal(size=size)).round(2)
            weights = chance.integers(1, 9, size).astype(float) if weighted else None
            wanted = isotonic_regression(values, weights=weights, increasing=False).x
            found = falling_values(values, None if weights is None else weights.tolist())
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
            assert (np.diff(found) <= 0).all()


def test_falling_values_stay_as_they_are():
    """What never rises is kept to the last bit."""
    values = np.array([3.1, 2.2, 2.2, 0.1, -5.0])
    assert falling_values(values).tolist() == values.tolist()
    assert falling_values(np.array([])).tolist() == []
