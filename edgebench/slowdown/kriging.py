"""What a curve's own residuals say of limits between them: Gaussian-process regression.

Residuals of one curve go together, most so at limits near each other:
``cov(r(M), r(M')) = a² + c²·exp(-(ln M − ln M')²/2ℓ²)``, and each is off by noise n. a, c and n are
chosen, for all curves together, by how well each residual is told by the others (leave one out).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.data import FloatArray

_COMMON = (0.0, 0.1, 0.3, 1.0)
_LOCAL = (0.0, 0.1, 0.3, 1.0)
_LENGTH = (0.1, 0.3)
_NOISE = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Kinship:
    """How residuals of a curve go together: ``a``, ``c``, ``ℓ`` and ``n``."""

    common: float
    local: float
    length: float
    noise: float

    def told(self, ln_limit: FloatArray, residual: FloatArray, wanted: FloatArray) -> FloatArray:
        """The residual at other limits, drawn to 0 as far as the known ones leave it open."""
        if not len(ln_limit):
            return np.zeros_like(wanted)
        weights = np.linalg.solve(self._covariance(ln_limit), residual)
        return np.asarray(self._between(wanted, ln_limit) @ weights)

    def left_out(self, ln_limit: FloatArray, residual: FloatArray) -> FloatArray:
        """Each residual less what the others tell of it (Rasmussen and Williams, 2006, 5.12)."""
        inverse = np.linalg.inv(self._covariance(ln_limit))
        return np.asarray(inverse @ residual / np.diag(inverse))

    def _between(self, one: FloatArray, other: FloatArray) -> FloatArray:
        apart = (one[:, None] - other[None, :]) / self.length
        return np.asarray(self.common**2 + self.local**2 * np.exp(-(apart**2) / 2))

    def _covariance(self, ln_limit: FloatArray) -> FloatArray:
        return self._between(ln_limit, ln_limit) + self.noise**2 * np.eye(len(ln_limit))


def kinship(known: Sequence[tuple[FloatArray, FloatArray]]) -> Kinship:
    """The kinship by which left-out residuals are told best, in the mean of their sizes.

    ``known`` holds logarithms of limits and residuals, one pair a curve.
    """
    pairs = [pair for pair in known if len(pair[0]) > 1]
    candidates = [
        Kinship(*values) for values in itertools.product(_COMMON, _LOCAL, _LENGTH, _NOISE)
    ]
    if not pairs:
        return Kinship(0.0, 0.0, _LENGTH[0], _NOISE[0])
    return min(candidates, key=lambda one: _error(one, pairs))


def _error(one: Kinship, pairs: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    return float(np.mean(np.abs(np.concatenate([one.left_out(*pair) for pair in pairs]))))
