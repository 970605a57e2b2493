"""The lowest rung: memory does not matter. What can't beat it has learnt nothing."""

from __future__ import annotations

import numpy as np

from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.model import Fit, Rung


class Unslowed(Rung):
    """Slowdown is 1 at every limit."""

    name = "unslowed"
    says = "S = 1"

    def fit(self, curve: Curve) -> Fit:
        """Nothing to fit; the AIC is that of the logarithms' distance from 0."""
        squares = float(np.sum(np.log(curve.slowdown) ** 2))
        count = len(curve.slowdown)
        return Fit(self.name, (), aic=float(count * np.log(squares / count)) if squares else None)

    def predict(self, fit: Fit, limit_bytes: FloatArray) -> FloatArray:
        """One, everywhere."""
        return np.ones(len(limit_bytes))
