"""Robust ridge regression, its strength chosen by cross-validation between networks.

Rows come in groups (the limits of one curve) whose errors have a part in common: their unlimited
time, which rests on few trials. What a whole group shares therefore has less weight than how its
rows differ (generalised least squares, Aitken, 1936).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray

#: Residuals beyond this count less, by Huber's rule (1964).
_HUBER = 0.3
_ROUNDS = 3
_ALPHAS = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3)
#: The part of the errors' variance that rows of one group have in common.
_SHARED = 0.4


@dataclass(frozen=True)
class RidgeFit:
    """Weights of columns, their covariance, and the strength of the ridge."""

    weights: FloatArray
    covariance: FloatArray
    alpha: float


@dataclass(frozen=True)
class ErrorGroup:
    """Rows with correlated errors: columns ``x``, one row each, and the values ``y``."""

    group: str
    x: FloatArray
    y: FloatArray

    def apart(self) -> tuple[FloatArray, FloatArray]:
        """The rows with uncorrelated errors: less a part of their mean."""
        rest = 1 - _SHARED
        part = 1 - np.sqrt(rest / (rest + len(self.y) * _SHARED))
        scale = np.sqrt(rest)
        x, y = (values - part * values.mean(axis=0) for values in (self.x, self.y))
        return x / scale, y / scale


def robust_ridge(runs: Sequence[ErrorGroup], alpha: float) -> RidgeFit:
    """Least squares with a penalty ``alpha`` on weights, columns scaled to one spread.

    No intercept: where all columns are 0, so is the value.
    """
    x, y = map(np.concatenate, zip(*(run.apart() for run in runs), strict=True))
    scale = np.sqrt(np.mean(np.concatenate([run.x for run in runs]) ** 2, axis=0))
    used = np.flatnonzero(scale > 0)
    scaled, trust = x[:, used] / scale[used], np.ones(len(y))
    weights, covariance = np.zeros(len(scale)), np.zeros((len(scale), len(scale)))
    for _ in range(_ROUNDS):
        squares = scaled.T @ (scaled * trust[:, None])
        inverse = np.linalg.inv(squares + alpha * np.eye(len(used)))
        found = inverse @ (scaled.T @ (trust * y))
        spread = float(np.average((y - scaled @ found) ** 2, weights=trust))
        trust = _HUBER / np.maximum(np.abs(y - scaled @ found), _HUBER)
    weights[used] = found / scale[used]
    own = spread * inverse @ squares @ inverse
    covariance[np.ix_(used, used)] = own / np.outer(scale[used], scale[used])
    return RidgeFit(weights, covariance, alpha)


def cross_validated_ridge(runs: Sequence[ErrorGroup]) -> tuple[RidgeFit, dict[str, FloatArray]]:
    """The regression of all rows, and for each group the weights that the rows of all others give.

    The strength is the one that predicts left-out groups best, in the mean of the errors' sizes.
    With one group it is the strongest.
    """
    names = sorted({run.group for run in runs})
    if len(names) < 2:
        return robust_ridge(runs, _ALPHAS[-1]), {}
    best: tuple[float, float, dict[str, FloatArray]] | None = None
    for alpha in _ALPHAS:
        others = {
            name: robust_ridge([run for run in runs if run.group != name], alpha).weights
            for name in names
        }
        errors = np.concatenate([run.y - run.x @ others[run.group] for run in runs])
        error = float(np.mean(np.abs(errors)))
        if best is None or error < best[0]:
            best = error, alpha, others
    assert best is not None
    return robust_ridge(runs, best[1]), best[2]
