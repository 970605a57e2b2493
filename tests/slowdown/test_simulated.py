"""What is simulated, and what is made of it, on curves that the simulator itself made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import MIB, TABLES, calibration, constant, context, curve

from edgebench.boards.storage import parse_storage
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.simulated import Simulated, learn

CONTEXT = context()
#: The networks that are left out in turn: one with a cliff, one that is slowed little.
LEFT_OUT = ("alexnet", "mobilenet_v2")


def curves(phases: tuple[str, ...] = ("load", "first", "execute"), **about: float) -> list[Curve]:
    """Every made-up network, each of these phases."""
    return [curve(name, phase, **about) for name in TABLES for phase in phases]


def model(known: list[Curve], of: Context = CONTEXT) -> Simulated:
    """What is learnt from the known curves."""
    return Simulated(learn(known, of), of)


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
    found = model([]).predict(asked.unseen(), limits)
    seconds = found.slowdown * found.unlimited_s
    slow = asked.unlimited_s + weights / 1e8
    assert seconds == pytest.approx([slow, slow, *[asked.unlimited_s] * 2], rel=0.02)


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
    nothing = asked.unseen(with_unlimited=False)
    predicted = model(others).predict(nothing, asked.limits)
    assert predicted.unlimited_s == pytest.approx(asked.unlimited_s, rel=0.2)
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        model([]).predict(nothing, asked.limits)


def test_what_the_simulation_lacks_is_said():
    """No calibration, another device's, or no layer table: each in its own words."""
    asked = curve("resnet18")
    with pytest.raises(CannotPredictError, match="not calibrated"):
        model([], Context(TABLES))
    other = replace(asked, settings={**asked.settings, "device": "another"})
    with pytest.raises(CannotPredictError, match="calibration is of made-up"):
        model([]).predict(other, asked.limits)
    with pytest.raises(CannotPredictError, match="no layer table"):
        model([], Context({}, CONTEXT.calibration)).predict(asked, asked.limits)


def test_a_faster_swap_slows_less():
    """The constants reach the answer: twice the rate, at most half the time of what is missed."""
    asked = curve("alexnet", "execute")
    quick = context(calibration(swap_in_bytes_per_s=constant(2e8)))
    slow, fast = (
        model([], of).predict(asked.unseen(), asked.limits).slowdown - 1 for of in (CONTEXT, quick)
    )
    assert (fast <= slow).all()
    assert fast[0] == pytest.approx(slow[0] / 2, rel=0.1)


#: A declared speed holds the storage of two cores.
HELD = context(
    calibration(environment={"cpu_cores_usable": 2}).held_to(parse_storage("read=100MB/s"))
)


def waiting(network: str, threads: int) -> Curve:
    """A network whose limits add three times what bytes take."""
    one = curve(network, true=HELD)
    settings = {**one.settings, "threads": threads}
    return replace(one, settings=settings, seconds=one.unlimited_s * (3 * one.slowdown - 2))


def test_threads_have_a_factor_that_other_networks_show():
    """Two threads wait for one another three times as long as bytes take; one thread never."""
    for threads, factor in ((2, 3.0), (1, 1.0)):
        asked = waiting("alexnet", threads)
        known = [waiting("vgg11", threads), waiting("resnet50", threads)]
        found = model(known, HELD).predict(asked.unseen(), asked.limits).slowdown
        expected = 1 + factor * (asked.medians - 1) / 3
        assert found == pytest.approx(expected, rel=0.15)


def test_two_slowed_limits_show_no_factor():
    """What one or two limits show may be chance, and would be carried to other networks."""
    one = waiting("vgg11", 2)
    for count, factors in ((2, 0), (3, 1)):
        few = np.isin(one.limit_bytes, one.limits[:count])
        known = replace(one, limit_bytes=one.limit_bytes[few], seconds=one.seconds[few])
        assert len(learn([known], HELD).factors) == factors


@pytest.mark.process
def test_the_interval_holds_the_prediction_and_is_wider_elsewhere():
    """Its ends lie on both sides; for another device they are farther apart."""
    asked = curve("resnet18", "load")
    here = model(curves())
    for one in (asked.unseen(), asked.unseen(with_unlimited=False)):
        widths = []
        for made in (here, replace(here, wider=2.0)):
            found = made.predict(one, asked.limits)
            assert found.interval is not None
            low, high = found.interval
            assert (low < found.slowdown).all()
            assert (found.slowdown < high).all()
            widths.append(float(np.max(high / low)))
        assert widths[1] > widths[0]


@pytest.mark.process
def test_every_prediction_is_possible():
    """Never below 1 nor rising with memory, far outside of what was run too."""
    limits = np.geomspace(10e6, 5e9, 120)
    made = curves(noise=0.2, factor=0.5)
    for network in LEFT_OUT:
        others = model([one for one in made if one.network != network])
        for asked in (one for one in made if one.network == network):
            slowdown = others.predict(asked.unseen(), limits).slowdown
            assert (slowdown >= 1).all()
            assert (np.diff(slowdown) <= 1e-9).all()
