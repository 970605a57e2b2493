"""Gaussian-process regression of a curve's residuals over its limits.

Residuals of one curve are correlated, most so at limits near each other:
``cov(r(M), r(M')) = a² + c²·exp(-(ln M − ln M')²/2ℓ²)``, and each is off by noise n. a, c and n are
chosen, for all curves together, by how well the others predict each residual (leave one out).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray

_COMMON = (0.0, 0.1, 0.3, 1.0)
_LOCAL = (0.0, 0.1, 0.3, 1.0)
_LENGTH = (0.1, 0.3)
_NOISE = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class GaussianProcess:
    """The covariance of a curve's residuals: ``a``, ``c``, ``ℓ`` and ``n``."""

    common: float
    local: float
    length: float
    noise: float

    def shared(self, ln_limit: FloatArray, residual: FloatArray) -> float:
        """What all residuals have in common, drawn to 0 as far as they leave it open."""
        return float(self.common**2 * self._weights(ln_limit, residual).sum())

    def nearby(self, ln_limit: FloatArray, residual: FloatArray, wanted: FloatArray) -> FloatArray:
        """The residual at other limits, beyond what all share; likewise drawn to 0."""
        weights = self._weights(ln_limit, residual)
        return np.asarray(self._local(wanted, ln_limit) @ weights)

    def left_out(self, ln_limit: FloatArray, residual: FloatArray) -> FloatArray:
        """Each residual less its prediction from the others (Rasmussen and Williams, 2006, 5.12).

        For many curves of as many limits at once, a row a curve.
        """
        inverse = np.linalg.inv(self._covariance(ln_limit))
        weights = np.einsum("cij,cj->ci", inverse, residual)
        return np.asarray(weights / np.einsum("cii->ci", inverse))

    def _weights(self, ln_limit: FloatArray, residual: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(self._covariance(ln_limit), residual))

    def _local(self, one: FloatArray, other: FloatArray) -> FloatArray:
        apart = (one[..., :, None] - other[..., None, :]) / self.length
        return np.asarray(self.local**2 * np.exp(-(apart**2) / 2))

    def _covariance(self, ln_limit: FloatArray) -> FloatArray:
        own = self.noise**2 * np.eye(ln_limit.shape[-1])
        return self.common**2 + self._local(ln_limit, ln_limit) + own


def fit_gaussian_process(known: Sequence[tuple[FloatArray, FloatArray]]) -> GaussianProcess:
    """The process that predicts left-out residuals best, in the mean of their sizes.

    ``known`` holds logarithms of limits and residuals, one pair a curve.
    """
    # Curves of as many limits are computed together; from one limit nothing can be left out.
    counts = sorted({len(x) for x, _ in known if len(x) > 1})
    if not counts:
        return GaussianProcess(0.0, 0.0, _LENGTH[0], _NOISE[0])
    groups = [[pair for pair in known if len(pair[0]) == count] for count in counts]
    stacks = [[np.array(part) for part in zip(*group, strict=True)] for group in groups]

    def error(one: GaussianProcess) -> float:
        return float(np.mean(np.abs(np.concatenate([one.left_out(*s).ravel() for s in stacks]))))

    candidates = itertools.product(_COMMON, _LOCAL, _LENGTH, _NOISE)
    return min((GaussianProcess(*values) for values in candidates), key=error)
