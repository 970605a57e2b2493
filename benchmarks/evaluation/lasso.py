"""The Lasso, with a strength at which its search converges."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgebench.slowdown.context import CannotPredictError
from edgebench.slowdown.curves import FloatArray

Rows = npt.NDArray[np.int64]
_Found = TypeVar("_Found")
_PASSES = 3_000
#: The weakest strength that is tried, as a share of that which leaves no weight; the next one
#: where columns are so alike that the search does not converge.
_WEAKEST = (0.01, 0.1)
#: The same for one Lasso: how much stronger it is made.
_STRONGER = (1.0, 3.0, 10.0, 100.0)


def lasso_strength(x: FloatArray, y: FloatArray, folds: Sequence[tuple[Rows, Rows]]) -> float:
    """The strength that predicts left-out rows best.

    Args:
        x: columns of any scale.
        y: what they predict.
        folds: which rows are fitted to, and which are predicted.

    Raises:
        CannotPredictError: the search converges at no strength.
    """
    from sklearn.linear_model import LassoCV

    scaled, _ = _scaled(x)

    def search(weakest: float) -> float:
        model = LassoCV(alphas=20, eps=weakest, cv=list(folds), max_iter=_PASSES)
        return float(model.fit(scaled, y).alpha_)

    return _first_converged(search, _WEAKEST)


def lasso(x: FloatArray, y: FloatArray, strength: float) -> FloatArray:
    """Intercept and weights.

    Raises:
        CannotPredictError: the search converges at no strength.
    """
    from sklearn.linear_model import Lasso

    scaled, scale = _scaled(x)

    def search(stronger: float) -> FloatArray:
        model = Lasso(alpha=strength * stronger, max_iter=_PASSES).fit(scaled, y)
        return np.array([model.intercept_, *(model.coef_ / scale)])

    return _first_converged(search, _STRONGER)


def _first_converged(search: Callable[[float], _Found], tried: Sequence[float]) -> _Found:
    """The library only warns of a search that ran out of passes; its weights are useless."""
    from sklearn.exceptions import ConvergenceWarning

    for value in tried:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                return search(value)
            except ConvergenceWarning:
                continue
    raise CannotPredictError("the regression does not converge: its features are too alike")


def _scaled(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Columns of one spread, and what they were divided by."""
    scale = np.std(x, axis=0)
    scale[scale == 0] = 1.0
    return x / scale, scale
