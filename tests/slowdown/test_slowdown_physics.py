"""Physics, and regression on its residuals, on curves that the simulator itself made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import MIB, TABLES, calibration, constant, context, curve

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import Model
from edgebench.slowdown.models.corrected import Corrected
from edgebench.slowdown.models.physics import Physics
from edgebench.slowdown.splits import unseen, workload_network

CONTEXT = context()
#: The networks that are left out in turn: one with a cliff, one between, one that is slowed little.
LEFT_OUT = ("alexnet", "resnet50", "mobilenet_v2")


def curves(phases: tuple[str, ...] = ("load", "first", "execute"), **about: float) -> list[Curve]:
    """Every made-up network, each of these phases."""
    return [curve(name, phase, **about) for name in TABLES for phase in phases]


def told(model: Model, known: list[Curve], asked: Curve, limits: np.ndarray) -> np.ndarray:
    """Seconds, by the model fitted to the known curves."""
    fit = model.fit(known, CONTEXT)
    found = model.predict(fit, unseen(asked), limits, CONTEXT)
    return found.slowdown * found.unlimited_s


def errors(model: Model, made: list[Curve]) -> np.ndarray:
    """Of three networks' times, by what all others tell."""
    found = []
    for network in LEFT_OUT:
        known = [c for c in made if workload_network(c) != network]
        fit = model.fit(known, CONTEXT)
        for asked in (c for c in made if workload_network(c) == network):
            slowdown = model.predict(fit, unseen(asked), asked.limits, CONTEXT).slowdown
            found.append(abs(slowdown / asked.medians - 1))
    return np.concatenate(found)


@pytest.mark.parametrize("network", LEFT_OUT)
def test_physics_is_arithmetic_on_the_device_s_constants(network: str):
    """Nothing fitted: a warm pass over weights that don't fit reads all of them at 100 MB/s.

    They fit beside 10 MiB that the runtime always uses: a cyclic scan is missed whole where there
    is room for half of it, and not at all where all fits. In between, the lists keep a part of it.
    """
    weights = sum(row["file_bytes"] for row in TABLES[network])
    needed = weights + 10 * MIB
    asked = curve(network)
    limits = np.array([needed - 0.65 * weights, needed - 0.5 * weights, 1.2 * needed, 1.5 * needed])
    seconds = told(Physics(), [], asked, limits)
    slow = asked.unlimited_s + weights / 1e8
    assert seconds == pytest.approx([slow, slow, *[asked.unlimited_s] * 2], rel=0.02)


def test_networks_move_no_prediction_of_physics():
    """Curves of others give it an interval, never another slowdown."""
    asked = curve("resnet18", "execute")
    others = [c for c in curves(factor=2.0) if c.network != "resnet18"]
    assert (
        told(Physics(), others, asked, asked.limits) == told(Physics(), [], asked, asked.limits)
    ).all()
    fit = Physics().fit(others, CONTEXT)
    low, high = Physics().predict(fit, unseen(asked), asked.limits, CONTEXT).interval
    assert (low < high).all()
    alone = Physics().fit([], CONTEXT)
    assert Physics().predict(alone, asked, asked.limits, CONTEXT).interval is None


def test_a_time_without_a_limit_is_told_from_rates():
    """With no unlimited trial of a network others' rates tell; without any others nothing does."""
    rates = {"load": 2e-9, "first": 4e-10}
    made = []
    for name, rows in TABLES.items():
        weights = sum(row["file_bytes"] for row in rows)
        for phase, rate in rates.items():
            made.append(replace(curve(name, phase), unlimited_seconds=np.array([rate * weights])))
    asked, others = made[0], [c for c in made if c.network != made[0].network]
    fit = Physics().fit(others, CONTEXT)
    nothing = unseen(asked, with_unlimited=False)
    predicted = Physics().predict(fit, nothing, asked.limits, CONTEXT)
    assert predicted.unlimited_s == pytest.approx(asked.unlimited_s, rel=0.2)
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        Physics().predict(Physics().fit([], CONTEXT), nothing, asked.limits, CONTEXT)


def test_what_physics_lacks_is_said():
    """No calibration, another device's, or no layer table: each in its own words."""
    asked = curve("resnet18")
    with pytest.raises(CannotPredictError, match="not calibrated"):
        Physics().fit([], Context(TABLES))
    fit = Physics().fit([], CONTEXT)
    other = replace(asked, settings={**asked.settings, "device": "another"})
    with pytest.raises(CannotPredictError, match="calibration is of made-up"):
        Physics().predict(fit, other, asked.limits, CONTEXT)
    with pytest.raises(CannotPredictError, match="no layer table"):
        Physics().predict(fit, asked, asked.limits, Context({}, CONTEXT.calibration))


def test_a_faster_swap_slows_less():
    """The constants reach the answer: twice the rate, at most half the time of what is missed."""
    asked = curve("alexnet", "execute")
    quick = context(calibration(swap_in_bytes_per_s=constant(2e8)))
    slow_fit, quick_fit = Physics().fit([], CONTEXT), Physics().fit([], quick)
    slow = Physics().predict(slow_fit, unseen(asked), asked.limits, CONTEXT).slowdown - 1
    fast = Physics().predict(quick_fit, unseen(asked), asked.limits, quick).slowdown - 1
    assert (fast <= slow).all()
    assert fast[0] == pytest.approx(slow[0] / 2, rel=0.1)


def test_what_physics_misses_in_all_networks_is_learnt():
    """All are slower by a power of the depth: other networks tell of the one left out."""
    made = curves(("execute",), factor=np.e, noise=0.02)
    physics, corrected = errors(Physics(), made), errors(Corrected(), made)
    assert np.median(corrected) < np.median(physics) / 2
    assert np.median(corrected) < 0.12


def test_where_physics_is_right_nothing_is_broken():
    """Noise alone is not learnt: corrected is about as good as physics."""
    made = curves(("execute", "load"), noise=0.05)
    assert np.median(errors(Corrected(), made)) < np.median(errors(Physics(), made)) + 0.02


def test_a_networks_own_residuals_tell_of_its_other_limits():
    """One network is slower than all others say: its other limits tell of the one left out."""
    made = curves(("execute",), noise=0.02)
    odd = curve("resnet50", "execute", factor=4.0, noise=0.02)
    others = [c for c in made if c.network != "resnet50"]
    limit = odd.limits[2]
    known = told(Corrected(), [*others, odd.without(limit)], odd, np.array([limit]))[0]
    unknown = told(Corrected(), others, odd, np.array([limit]))[0]
    truth = float(np.median(odd.seconds[odd.limit_bytes == limit]))
    assert abs(np.log(known / truth)) < abs(np.log(unknown / truth))


def test_an_unlimited_time_that_was_lucky_is_corrected():
    """Unlimited trials of half the networks were lucky, of half not: the other limits tell."""
    made, luck = curves(("load",), noise=0.01), (0.8, 1.25)
    off = [
        replace(c, unlimited_seconds=c.unlimited_seconds * luck[n % 2]) for n, c in enumerate(made)
    ]
    model = Corrected()
    fit = model.fit(off, CONTEXT)
    left = [
        abs(
            np.log(
                model.predict(fit, unseen(one), one.limits, CONTEXT).unlimited_s / true.unlimited_s
            )
        )
        for one, true in zip(off, made, strict=True)
    ]
    assert np.median(left) < np.log(1.25) / 2


def test_every_prediction_is_possible():
    """Never below 1 nor rising with memory, far outside of what was run too."""
    limits = np.geomspace(10e6, 5e9, 120)
    made = curves(noise=0.2, factor=0.5)
    for model in (Physics(), Corrected()):
        fit = model.fit(made, CONTEXT)
        for asked in made[::5]:
            slowdown = model.predict(fit, unseen(asked), limits, CONTEXT).slowdown
            assert (slowdown >= 1).all()
            assert (np.diff(slowdown) <= 1e-9).all()
