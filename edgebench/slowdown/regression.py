"""Ridge regression that a few bad trials can't bend, its strength chosen between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.data import FloatArray

#: Residuals beyond this count less, by Huber's rule (1964).
_HUBER = 0.3
_ROUNDS = 3
_ALPHAS = (0.3, 3.0, 30.0, 300.0)


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
    from sklearn.linear_model import Ridge

    scale = np.sqrt(np.mean(x**2, axis=0))
    used = np.flatnonzero(scale > 0)
    scaled, trust = x[:, used] / scale[used], np.ones(len(y))
    for _ in range(_ROUNDS):
        model = Ridge(alpha=alpha, fit_intercept=False).fit(scaled, y, sample_weight=trust)
        residual = y - scaled @ model.coef_
        trust = _HUBER / np.maximum(np.abs(residual), _HUBER)
    weights = np.zeros(x.shape[1])
    weights[used] = model.coef_ / scale[used]
    covariance = np.zeros((x.shape[1], x.shape[1]))
    spread = float(np.average(residual**2, weights=trust))
    covariance[np.ix_(used, used)] = _covariance(scaled, trust, alpha, spread) / np.outer(
        scale[used], scale[used]
    )
    return Regression(weights, covariance, alpha)


def _covariance(x: FloatArray, trust: FloatArray, alpha: float, spread: float) -> FloatArray:
    squares = x.T @ (x * trust[:, None])
    inverse = np.linalg.inv(squares + alpha * np.eye(len(squares)))
    return np.asarray(spread * inverse @ squares @ inverse)


def between_groups(
    x: FloatArray, y: FloatArray, groups: Sequence[str]
) -> tuple[Regression, dict[str, Regression]]:
    """The regression of all rows, and for each group that of the rows of all others.

    The strength is that by which groups left out are told best, in the mean of the errors' sizes.
    With one group it is the strongest, and no other group tells of it.
    """
    labels = np.array(groups)
    names = sorted(set(groups))
    if len(names) < 2:
        return robust_ridge(x, y, _ALPHAS[-1]), {}
    best: tuple[float, float, dict[str, Regression]] | None = None
    for alpha in _ALPHAS:
        others = {n: robust_ridge(x[labels != n], y[labels != n], alpha) for n in names}
        errors = [y[labels == n] - x[labels == n] @ others[n].weights for n in names]
        error = float(np.mean(np.abs(np.concatenate(errors))))
        if best is None or error < best[0]:
            best = error, alpha, others
    assert best is not None
    return robust_ridge(x, y, best[1]), best[2]
