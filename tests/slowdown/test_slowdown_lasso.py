"""The Lasso on columns that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.slowdown.models.lasso import lasso, lasso_strength


def rows(alike: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Forty rows: the second column tells all; three more differ from it by much or little."""
    chance = np.random.default_rng(3)
    x = chance.standard_normal((40, 5))
    x[:, 2:] = x[:, 1:2] + alike * x[:, 2:]
    return x * np.array([1, 1, 1e3, 1, 1e-3]), 2.0 + 3.0 * x[:, 1]


def test_rows_are_right_however_alike_columns_are():
    """No warning, though the weights themselves may be any mixture."""
    x, y = rows(1e-6)
    every = np.arange(40)
    folds = [(every[every % 4 != n], every[every % 4 == n]) for n in range(4)]
    weights = lasso(x, y, lasso_strength(x, y, folds))
    assert weights[0] + x @ weights[1:] == pytest.approx(y, abs=0.3)
    assert lasso(x, y, 1e9)[1:] == pytest.approx(0.0)
