"""Hinges that help each other out, on curves whose truth is known and on published points."""

from __future__ import annotations

import numpy as np
import pytest
from test_curve_models import true_slowdown

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.pooled import Pooled
from edgebench.slowdown.splits import unseen

MIB = 1 << 20
NOTHING_MORE = Context({})
SHARES = (0.95, 0.85, 0.75, 0.65, 0.55, 0.45)


def like(number: int, shares: tuple[float, ...] = SHARES, noise: float = 0.0) -> Curve:
    """One of many networks: W is about 0.85 of its demand, a about 3, b about 1.3."""
    chance = np.random.default_rng(number)
    spread = 0.08 * chance.standard_normal(3)
    demand = (200 + 40 * number) * MIB
    limits = np.sort(np.array(shares)) * demand
    shape = (0.85 * np.exp(spread[0]) * demand, 3 * np.exp(spread[1]), 1.3 + spread[2])
    times = (
        2.0 * true_slowdown(limits, *shape) * np.exp(noise * chance.standard_normal(len(limits)))
    )
    about = {"pipeline": f"net{number}", "schedule": "bulk", "loader": "copy"}
    return Curve(f"net{number}", "load", about, limits, times, np.full(2, 2.0), demand)


def told(curves: list[Curve], asked: Curve, *limits: float) -> np.ndarray:
    """Seconds of a curve at these limits, by the model fitted to the curves."""
    fit = Pooled().fit(curves, NOTHING_MORE)
    found = Pooled().predict(fit, unseen(asked), np.array(limits), NOTHING_MORE)
    return found.slowdown * found.unlimited_s


def test_each_curve_keeps_its_own_hinge():
    """Without noise the common mean bends no curve: each is met within 3 %."""
    curves = [like(n) for n in range(6)]
    for curve in curves:
        assert told(curves, curve, *curve.limits) == pytest.approx(curve.seconds, rel=0.03)
