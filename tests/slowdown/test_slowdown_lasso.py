"""The Lasso on columns that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.slowdown.context import CannotPredictError
from edgebench.slowdown.models import lasso as module
from edgebench.slowdown.models.lasso import lasso, lasso_strength


def rows(alike: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Forty rows: the second column tells all; three more differ from it by much or little."""
    chance = np.random.default_rng(3)
    x = chance.standard_normal((40, 5))
    x[:, 2:] = x[:, 1:2] + alike * x[:, 2:]
    return x * np.array([1, 1, 1e3, 1, 1e-3]), 2.0 + 3.0 * x[:, 1]


def folds(count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every fourth row left out in turn."""
    every = np.arange(40)
    return [(every[every % count != n], every[every % count == n]) for n in range(count)]


@pytest.mark.parametrize("alike", [1.0, 1e-2, 1e-6])
def test_what_is_told_is_right_however_alike_columns_are(alike: float):
    """No warning, and rows are told, though the weights themselves may be any mixture."""
    x, y = rows(alike)
    weights = lasso(x, y, lasso_strength(x, y, folds()))
    assert weights[0] + x @ weights[1:] == pytest.approx(y, abs=0.3)
    assert lasso(x, y, 1e9)[1:] == pytest.approx(0.0)


def test_a_search_that_never_settles_is_told(monkeypatch: pytest.MonkeyPatch):
    """It ends in words, not in a library's warning and weights that mean nothing."""
    monkeypatch.setattr(module, "_PASSES", 1)
    x, y = rows(1e-6)
    with pytest.raises(CannotPredictError, match="does not converge"):
        lasso(x, y, 1e-9)
