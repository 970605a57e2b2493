"""Many hinges searched side by side, each drawn to a mean: Levenberg-Marquardt on all at once.

A hinge here is ln W, ln a and b, as in :mod:`~evaluation.hinge`, and c, the
logarithm of what its unlimited time is off by; limits are against a reference of each curve, and
W with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import FloatArray

#: Points scatter about their curve by this, in the logarithm of slowdown.
NOISE = 0.1
#: What ln W, ln a, b and c can be.
LOW, HIGH = np.array([-4.0, -8.0, 0.2, -1.0]), np.array([3.0, 6.0, 5.0, 1.0])
#: Points farther from their curve than so many times the noise count less (soft L1).
_BAD = 3.0
_STEPS = 30
#: At the kink itself the slope has no bound: it is computed from this depth on.
_KINK = 1e-3


@dataclass(frozen=True)
class HingePoints:
    """Points of many curves: a row a curve, filled up with points of weight 0.

    ``x`` are logarithms of limits against the curve's reference, ``y`` of slowdowns.
    """

    x: FloatArray
    y: FloatArray
    weight: FloatArray

    def rows(self, which: Sequence[int]) -> HingePoints:
        """Some of the curves, each as often as it is named."""
        return HingePoints(self.x[which], self.y[which], self.weight[which])


def stack_points(curves: Sequence[tuple[FloatArray, FloatArray]]) -> HingePoints:
    """Pairs of x and y, one a curve."""
    shape = len(curves), max(len(x) for x, _ in curves)
    found = HingePoints(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    for row, (x, y) in enumerate(curves):
        count = len(x)
        found.x[row, :count], found.y[row, :count], found.weight[row, :count] = x, y, 1.0
    return found


def search_hinges(
    points: HingePoints, mean: FloatArray, start: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each curve's hinge and what it costs: its errors, and how far it is from the mean.

    Args:
        points: of n curves.
        mean: what each hinge is drawn to, of shape (n, 4).
        start: where each search begins, of shape (n, 4).
        spread: standard deviations of ln W, ln a, b and c about the mean.
    """
    at, damping = np.clip(start, LOW, HIGH), np.full(len(start), 1e-2)
    cost = _cost(points, mean, at, spread)
    for _ in range(_STEPS):
        new = np.clip(at - _step(points, mean, at, spread, damping), LOW, HIGH)
        new_cost = _cost(points, mean, new, spread)
        better = new_cost < cost
        at, cost = np.where(better[:, None], new, at), np.where(better, new_cost, cost)
        damping = np.clip(np.where(better, damping / 4, damping * 4), 1e-8, 1e8)
    return at, cost


def _cost(points: HingePoints, mean: FloatArray, at: FloatArray, spread: FloatArray) -> FloatArray:
    off = (_rise(points, at)[1] - points.y) / NOISE
    errors = points.weight * _BAD**2 * (np.sqrt(1 + (off / _BAD) ** 2) - 1)
    drawn = ((at - mean) / spread) ** 2 / 2
    return np.asarray(errors.sum(axis=1) + drawn.sum(axis=1))


def _rise(points: HingePoints, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How deep each point is below its W, and ln S there against the unlimited time as measured."""
    ln_w, ln_a, b, c = at.T[:, :, None]
    depth = np.maximum(ln_w - points.x, 0.0)
    rise = np.exp(ln_a + b * np.log(np.maximum(depth, 1e-300)))
    return depth, c + np.log1p(np.where(depth > 0, rise, 0.0))


def _step(
    points: HingePoints, mean: FloatArray, at: FloatArray, spread: FloatArray, damping: FloatArray
) -> FloatArray:
    """Damped Gauss-Newton, errors weighted by how far off they are."""
    depth, risen = _rise(points, at)
    off = (risen - points.y) / NOISE
    trust = points.weight / np.sqrt(1 + (off / _BAD) ** 2)
    slope = -np.expm1(at[:, 3, None] - risen) / NOISE
    floored = np.maximum(depth, _KINK)
    to_w, to_b = slope * at[:, 2, None] / floored, slope * np.log(floored)
    slopes = np.stack([to_w, slope, to_b, np.full_like(slope, 1 / NOISE)], axis=2)
    curved = np.einsum("cpi,cp,cpj->cij", slopes, trust, slopes) + np.diag(spread**-2.0)
    downhill = np.einsum("cpi,cp->ci", slopes, trust * off) + (at - mean) / spread**2
    diagonal = np.einsum("cii->ci", curved) * damping[:, None]
    return np.linalg.solve(curved + diagonal[:, :, None] * np.eye(4), downhill[:, :, None])[:, :, 0]
