"""Hinges that help each other out, on curves whose truth is known and on published points."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from test_curve_models import EDGECAFFE, edgecaffe_curve, true_slowdown

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import TooFewLimitsError
from edgebench.slowdown.models.hinge import Hinge
from edgebench.slowdown.models.hinge_search import NOISE, search_hinges, stack_points
from edgebench.slowdown.models.pooled import Pooled
from edgebench.slowdown.splits import unseen
from edgebench.slowdown.stored_fits import fit_from_json

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


def test_few_limits_are_helped_out_by_others():
    """Of two limits alone nobody knows the shape below them; others of its kind tell."""
    others = [like(n) for n in range(6)]
    whole = like(9)
    few = replace(whole, limit_bytes=whole.limits[-3:], seconds=whole.seconds[-3:])
    truth = whole.seconds[0]
    helped = told([*others, few], few, whole.limits[0])[0]
    hinge = Hinge().fit([few], NOTHING_MORE)
    alone = (
        Hinge().predict(hinge, few, whole.limits[:1], NOTHING_MORE).slowdown[0] * few.unlimited_s
    )
    assert helped == pytest.approx(truth, rel=0.1)
    assert abs(helped / truth - 1) < abs(alone / truth - 1) + 0.02


def test_an_unlimited_time_that_was_lucky_is_corrected():
    """Where every limit says that a network takes longer, its unlimited trials were lucky."""
    flat = [replace(like(n), seconds=np.full(len(SHARES), 2.0)) for n in range(5)]
    lucky = replace(flat[0], unlimited_seconds=np.full(2, 1.7))
    assert told([lucky, *flat[1:]], lucky, 0.7 * lucky.demand_bytes)[0] == pytest.approx(
        2, rel=0.04
    )


def test_a_network_never_run_is_told_by_the_mean():
    """Within what the curves scatter by; a curve of another kind, or no demand, is not told."""
    curves, new = [like(n) for n in range(8)], like(20)
    assert told(curves, new, *new.limits) == pytest.approx(new.seconds, rel=0.35)
    model = Pooled()
    fit = model.fit(curves, NOTHING_MORE)
    for other in (replace(new, phase="execute"), replace(unseen(new), demand_bytes=None)):
        with pytest.raises(CannotPredictError):
            model.predict(fit, unseen(other), new.limits, NOTHING_MORE)
    with pytest.raises(TooFewLimitsError):
        model.fit([unseen(new)], NOTHING_MORE)


def test_intervals_hold_new_trials():
    """About nine of ten trials at limits left out lie in the band."""
    curves = [like(n, noise=0.08) for n in range(12)]
    model, inside = Pooled(), []
    for limit in range(len(SHARES)):
        known = [curve.without(curve.limits[limit]) for curve in curves]
        fit = model.fit(known, NOTHING_MORE)
        for curve in curves:
            at = curve.limits[[limit]]
            found = model.predict(fit, unseen(curve), at, NOTHING_MORE)
            low, high = found.interval
            inside.append(low[0] <= curve.seconds[limit] / found.unlimited_s <= high[0])
    assert 0.83 <= np.mean(inside) <= 0.98


def test_a_fit_survives_json():
    """Read back, it tells the same."""
    model, curves = Pooled(), [like(n, noise=0.05) for n in range(4)]
    fit = model.fit(curves, NOTHING_MORE)
    back = fit_from_json(json.loads(json.dumps(asdict(fit))))
    limits = curves[0].limits
    before, after = (model.predict(f, curves[0], limits, NOTHING_MORE) for f in (fit, back))
    assert (before.slowdown == after.slowdown).all()


def test_edgecaffes_published_points_are_met_better_than_by_the_hinge():
    """The 24 points, each limit left out of all four schedules at once: below the hinge's 5.7 %."""
    curves = [edgecaffe_curve(name) for name in EDGECAFFE]
    errors = []
    for limit in curves[0].limits:
        known = [curve.without(limit) for curve in curves]
        for curve in curves:
            seconds = float(curve.seconds[curve.limits == limit][0])
            errors.append(abs(told(known, curve, float(limit))[0] / seconds - 1))
    assert len(errors) == 24
    assert np.mean(errors) < 0.057
    assert np.mean(errors) == pytest.approx(0.0435, abs=0.001)


def test_many_searches_at_once_are_as_good_as_one_by_one():
    """Side by side or alone, a curve's hinge is the same."""
    curves = [like(n, noise=0.05) for n in range(5)]
    xy = [(np.log(c.limits / c.demand_bytes), np.log(c.medians)) for c in curves]
    mean, spread = np.array([-0.2, 1.0, 1.3, 0.0]), np.array([0.5, 0.5, 0.3, NOISE])
    means = np.tile(mean, (5, 1))
    found, cost = search_hinges(stack_points(xy), means, means, spread)
    for n, pair in enumerate(xy):
        one, its_cost = search_hinges(stack_points([pair]), means[:1], means[:1], spread)
        assert found[n] == pytest.approx(one[0])
        assert cost[n] == pytest.approx(its_cost[0])
