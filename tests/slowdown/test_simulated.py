"""What is simulated, and what is made of it, on curves that the simulator itself made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import MIB, TABLES, calibration, constant, context, curve

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import Model
from edgebench.slowdown.models.combined import Combined
from edgebench.slowdown.models.device_costs import costs_in
from edgebench.slowdown.models.simulated import Simulated

CONTEXT = context()
#: The networks that are left out in turn: one with a cliff, one that is slowed little.
LEFT_OUT = ("alexnet", "mobilenet_v2")


def curves(phases: tuple[str, ...] = ("load", "first", "execute"), **about: float) -> list[Curve]:
    """Every made-up network, each of these phases."""
    return [curve(name, phase, **about) for name in TABLES for phase in phases]


def told(model: Model, known: list[Curve], asked: Curve, limits: np.ndarray) -> np.ndarray:
    """Seconds, by the model fitted to the known curves."""
    fit = model.fit(known, CONTEXT)
    found = model.predict(fit, asked.unseen(), limits, CONTEXT)
    return found.slowdown * found.unlimited_s


def errors(model: Model, made: list[Curve]) -> np.ndarray:
    """Of the times of networks left out, by what all others tell."""
    found = []
    for network in LEFT_OUT:
        known = [c for c in made if c.workload_network != network]
        fit = model.fit(known, CONTEXT)
        for asked in (c for c in made if c.workload_network == network):
            slowdown = model.predict(fit, asked.unseen(), asked.limits, CONTEXT).slowdown
            found.append(abs(slowdown / asked.medians - 1))
    return np.concatenate(found)


@pytest.mark.process
@pytest.mark.parametrize("network", LEFT_OUT)
def test_the_simulation_is_arithmetic_on_the_device_s_constants(network: str):
    """Nothing fitted: a warm pass over weights that don't fit reads all of them at 100 MB/s.

    They fit beside 10 MiB that the runtime always uses: a cyclic scan is missed whole where there
    is room for less than half, and not at all where all fits. In between a part of it stays.
    """
    weights = sum(row["file_bytes"] for row in TABLES[network])
    needed = weights + 10 * MIB
    # No demand was measured: nothing is known to be the network's own.
    asked = replace(curve(network), demand_bytes=None)
    limits = np.array(
        [needed - 0.65 * weights, needed - 0.55 * weights, 1.2 * needed, 1.5 * needed]
    )
    seconds = told(Simulated(), [], asked, limits)
    slow = asked.unlimited_s + weights / 1e8
    assert seconds == pytest.approx([slow, slow, *[asked.unlimited_s] * 2], rel=0.02)


def test_trials_show_what_things_cost():
    """Where swap is half as fast as calibrated, others' trials tell it of a network left out."""
    slow = context(calibration(swap_in_bytes_per_s=constant(5e7)))
    asked = curve("alexnet", true=slow)
    others = [curve(name, true=slow) for name in TABLES if name != "alexnet"]
    calibrated = told(Simulated(), [], asked, asked.limits)
    refined = told(Simulated(), others, asked, asked.limits)
    measured = asked.medians * asked.unlimited_s
    assert np.max(abs(calibrated / measured - 1)) > 0.3
    assert refined == pytest.approx(measured, rel=0.1)


def test_trials_where_nothing_moves_leave_the_costs_calibrated():
    """Curves that no limit slows say nothing of costs."""
    flat = [
        replace(one, seconds=np.full(len(one.limits), 0.2), limit_bytes=one.limits * 10)
        for one in curves(("execute",))
    ]
    assert costs_in(Simulated().fit(flat, CONTEXT)) == costs_in(Simulated().fit([], CONTEXT))


@pytest.mark.process
def test_networks_left_out_make_the_interval():
    """Its ends lie on both sides of the prediction; with nothing left out there is none."""
    asked = curve("resnet18", "execute")
    others = [c for c in curves(factor=2.0, noise=0.05) if c.network != "resnet18"]
    fit = Simulated().fit(others, CONTEXT)
    low, high = Simulated().predict(fit, asked.unseen(), asked.limits, CONTEXT).interval
    assert (low < high).all()
    alone = Simulated().fit([], CONTEXT)
    assert Simulated().predict(alone, asked, asked.limits, CONTEXT).interval is None


@pytest.mark.process
def test_what_was_never_run_is_less_sure():
    """Without unlimited trials the interval is the wider one; it holds the prediction."""
    made = curves(noise=0.1)
    for model in (Simulated(), Combined()):
        fit = model.fit([c for c in made if c.network != "resnet18"], CONTEXT)
        assert fit["reach.unrun"] > fit["reach"]
        bare = curve("resnet18", "load").unseen(with_unlimited=False)
        found = model.predict(fit, bare, curve("resnet18").limits, CONTEXT)
        low, high = found.interval
        assert (low <= found.slowdown).all()
        assert (found.slowdown <= high).all()


@pytest.mark.process
def test_a_time_without_a_limit_is_told_from_rates():
    """With no unlimited trial of a network others' rates tell; without any others nothing does."""
    rates = {"load": 2e-9, "first": 4e-10}
    made = []
    for name, rows in TABLES.items():
        weights = sum(row["file_bytes"] for row in rows)
        for phase, rate in rates.items():
            made.append(replace(curve(name, phase), unlimited_seconds=np.array([rate * weights])))
    asked, others = made[0], [c for c in made if c.network != made[0].network]
    fit = Simulated().fit(others, CONTEXT)
    nothing = asked.unseen(with_unlimited=False)
    predicted = Simulated().predict(fit, nothing, asked.limits, CONTEXT)
    assert predicted.unlimited_s == pytest.approx(asked.unlimited_s, rel=0.2)
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        Simulated().predict(Simulated().fit([], CONTEXT), nothing, asked.limits, CONTEXT)


def test_what_the_simulation_lacks_is_said():
    """No calibration, another device's, or no layer table: each in its own words."""
    asked = curve("resnet18")
    with pytest.raises(CannotPredictError, match="not calibrated"):
        Simulated().fit([], Context(TABLES))
    fit = Simulated().fit([], CONTEXT)
    other = replace(asked, settings={**asked.settings, "device": "another"})
    with pytest.raises(CannotPredictError, match="calibration is of made-up"):
        Simulated().predict(fit, other, asked.limits, CONTEXT)
    with pytest.raises(CannotPredictError, match="no layer table"):
        Simulated().predict(fit, asked, asked.limits, Context({}, CONTEXT.calibration))


def test_a_faster_swap_slows_less():
    """The constants reach the answer: twice the rate, at most half the time of what is missed."""
    asked = curve("alexnet", "execute")
    quick = context(calibration(swap_in_bytes_per_s=constant(2e8)))
    slow_fit, quick_fit = Simulated().fit([], CONTEXT), Simulated().fit([], quick)
    slow = Simulated().predict(slow_fit, asked.unseen(), asked.limits, CONTEXT).slowdown - 1
    fast = Simulated().predict(quick_fit, asked.unseen(), asked.limits, quick).slowdown - 1
    assert (fast <= slow).all()
    assert fast[0] == pytest.approx(slow[0] / 2, rel=0.1)


@pytest.mark.heavy
def test_what_the_simulation_misses_in_all_networks_is_learnt():
    """All are slowed by a third more, in logarithms: other networks tell of the one left out."""
    made = [
        replace(one, seconds=one.unlimited_s * one.slowdown ** (4 / 3))
        for one in curves(("execute",), noise=0.02)
    ]
    before, after = [], []
    for asked in (one for one in made if one.network in LEFT_OUT):
        others = [one for one in made if one.network != asked.network]
        slowed, truth = asked.medians >= 1.5, asked.medians * asked.unlimited_s
        for model, known, found in ((Simulated(), [], before), (Combined(), others, after)):
            found.append(abs(told(model, known, asked, asked.limits) / truth - 1)[slowed])
    assert np.median(np.concatenate(after)) < np.median(np.concatenate(before)) / 2
    assert np.median(np.concatenate(after)) < 0.12


@pytest.mark.process
def test_where_the_simulation_is_right_nothing_is_broken():
    """Noise alone is not learnt: combined is about as good as simulated."""
    made = curves(("execute", "load"), noise=0.05)
    assert np.median(errors(Combined(), made)) < np.median(errors(Simulated(), made)) + 0.02


def test_a_measured_curve_is_met_at_its_limits():
    """Whatever others and the simulation say: each confirmed point is where it was measured."""
    odd = curve("resnet50", "execute", factor=4.0, noise=0.02)
    others = [c for c in curves(("execute",), noise=0.02) if c.network != "resnet50"]
    fit = Combined().fit([*others, odd], CONTEXT)
    found = Combined().predict(fit, odd.unseen(), odd.limits, CONTEXT).slowdown
    for limit, predicted in zip(odd.limits, found, strict=True):
        repeats = odd.slowdown[odd.limit_bytes == limit]
        assert min(repeats) * 0.999 <= predicted <= max(1.0, max(repeats)) * 1.001


@pytest.mark.heavy
def test_a_networks_own_residuals_tell_of_its_other_limits():
    """One network is slower than all others say: its other limits tell of the one left out."""
    made = curves(("execute",), noise=0.02)
    odd = curve("resnet50", "execute", factor=4.0, noise=0.02)
    others = [c for c in made if c.network != "resnet50"]
    limit = odd.limits[2]
    known = told(Combined(), [*others, odd.without(limit)], odd, np.array([limit]))[0]
    unknown = told(Combined(), others, odd, np.array([limit]))[0]
    truth = float(np.median(odd.seconds[odd.limit_bytes == limit]))
    assert abs(np.log(known / truth)) < abs(np.log(unknown / truth))


@pytest.mark.process
def test_every_prediction_is_possible():
    """Never below 1 nor rising with memory, far outside of what was run too."""
    limits = np.geomspace(10e6, 5e9, 120)
    made = curves(noise=0.2, factor=0.5)
    for model in (Simulated(), Combined()):
        for network in LEFT_OUT:
            fit = model.fit([one for one in made if one.network != network], CONTEXT)
            for asked in (one for one in made if one.network == network):
                slowdown = model.predict(fit, asked.unseen(), limits, CONTEXT).slowdown
                assert (slowdown >= 1).all()
                assert (np.diff(slowdown) <= 1e-9).all()
