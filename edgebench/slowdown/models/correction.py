"""What the simulation misses in the same way in all networks, learnt from their curves.

Each kind of curve (phase and loader) has two numbers: ln S is larger by w + v·ln S_simulated where
memory is short. They are fitted by ridge regression of what the simulation misses, in which large
errors count less (Huber's rule), and no correction exceeds :data:`MOST`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.device_costs import CostRows, kind_of
from edgebench.slowdown.simulator.movement_costs import MovementCosts
from edgebench.slowdown.simulator.profile import profile
from edgebench.slowdown.slowdown_function import SlowdownFunction

#: The largest size of a correction's logarithm.
MOST = float(np.log(2))
#: A limit this much below the demand (a logarithm) counts in full, one above it not at all.
_FULL_DEPTH = 0.05
#: The ridge's strength, errors from which on rows count less, and how often these are looked at.
#: Strength chosen on networks left out of the validation sweep, without the families held out.
_STRENGTH, _HUBER, _ROUNDS = 1.0, 0.15, 4
_PARTS = ("offset", "slope")
Weights = Mapping[str, float]


def fit_correction(rows: CostRows, costs: MovementCosts) -> dict[str, float]:
    """The two numbers of each kind, by ``<kind>.offset`` and ``<kind>.slope``."""
    kinds = sorted(set(rows.kind.tolist()))
    if not kinds:
        return {}
    simulated = rows.simulated(costs)
    parts = np.array([_gate(rows.depth), simulated])
    blocks = [parts * (rows.kind == kind) for kind in kinds]
    columns: FloatArray = np.concatenate(blocks)
    x, y = columns.T * rows.weight[:, None], (np.log(rows.slowdown) - simulated) * rows.weight
    trust: FloatArray = np.ones(len(y))
    found: FloatArray = np.zeros(len(columns))
    for _ in range(_ROUNDS):
        squares = (x * trust[:, None]).T @ x + _STRENGTH * np.eye(len(columns))
        found = np.asarray(np.linalg.solve(squares, x.T @ (trust * y)), dtype=np.float64)
        trust = _HUBER / np.maximum(np.abs(y - x @ found), _HUBER)
    names = [f"{kind}.{part}" for kind in kinds for part in _PARTS]
    return dict(zip(names, found.tolist(), strict=True))


def corrected(
    curve: Curve, function: SlowdownFunction, unlimited_s: float, weights: Weights, context: Context
) -> SlowdownFunction:
    """A simulated curve with its kind's correction."""
    offset, slope = (weights.get(f"{kind_of(curve)}.{part}", 0.0) for part in _PARTS)
    gate = _gate(profile(curve, unlimited_s, context).depth)
    return function.scaled(np.clip(offset * gate + slope * function.ln_slowdown, -MOST, MOST))


def _gate(depth: FloatArray) -> FloatArray:
    return np.clip(depth / _FULL_DEPTH, 0.0, 1.0)
