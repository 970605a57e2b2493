"""Ridge regression that a few bad trials can't bend, its strength chosen between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.data import FloatArray

#: Residuals beyond this count less, by Huber's rule (1964).
_HUBER = 0.3
_ROUNDS = 3
_ALPHAS = (3.0, 30.0, 300.0, 3e3, 3e4)


@dataclass(frozen=True)
class Regression:
    """Weights of columns, their covariance, and the strength of the ridge."""

    weights: FloatArray
    covariance: FloatArray
    alpha: float


def robust_ridge(x: FloatArray, y: FloatArray, alpha: float) -> Regression:
    """Least squares with a penalty ``alpha`` on weights, columns scaled to one spread.

    No intercept: where all columns are 0, so is what is told.
    """
    weights, trust = _weights(x, y, alpha)
    scale = np.sqrt(np.mean(x**2, axis=0))
    used = np.flatnonzero(scale > 0)
    spread = float(np.average((y - x @ weights) ** 2, weights=trust))
    covariance = np.zeros((x.shape[1], x.shape[1]))
    scaled = _covariance(x[:, used] / scale[used], trust, alpha, spread)
    covariance[np.ix_(used, used)] = scaled / np.outer(scale[used], scale[used])
    return Regression(weights, covariance, alpha)


def _weights(x: FloatArray, y: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """The columns' weights, and how far each row is trusted."""
    from sklearn.linear_model import Ridge

    scale = np.sqrt(np.mean(x**2, axis=0))
    used = np.flatnonzero(scale > 0)
    scaled, trust = x[:, used] / scale[used], np.ones(len(y))
    for _ in range(_ROUNDS):
        model = Ridge(alpha=alpha, fit_intercept=False).fit(scaled, y, sample_weight=trust)
        trust = _HUBER / np.maximum(np.abs(y - scaled @ model.coef_), _HUBER)
    weights = np.zeros(x.shape[1])
    weights[used] = model.coef_ / scale[used]
    return weights, trust


def _covariance(x: FloatArray, trust: FloatArray, alpha: float, spread: float) -> FloatArray:
    squares = x.T @ (x * trust[:, None])
    inverse = np.linalg.inv(squares + alpha * np.eye(len(squares)))
    return np.asarray(spread * inverse @ squares @ inverse)


def between_groups(
    x: FloatArray, y: FloatArray, groups: Sequence[str]
) -> tuple[Regression, dict[str, FloatArray]]:
    """The regression of all rows, and for each group the weights that the rows of all others give.

    The strength is that by which groups left out are told best, in the mean of the errors' sizes.
    With one group it is the strongest, and no other group tells of it.
    """
    labels = np.array(groups)
    names = sorted(set(groups))
    if len(names) < 2:
        return robust_ridge(x, y, _ALPHAS[-1]), {}
    best: tuple[float, float, dict[str, FloatArray]] | None = None
    for alpha in _ALPHAS:
        others = {n: _weights(x[labels != n], y[labels != n], alpha)[0] for n in names}
        errors = [y[labels == n] - x[labels == n] @ others[n] for n in names]
        error = float(np.mean(np.abs(np.concatenate(errors))))
        if best is None or error < best[0]:
            best = error, alpha, others
    assert best is not None
    return robust_ridge(x, y, best[1]), best[2]
