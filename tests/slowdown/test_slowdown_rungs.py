"""Rungs against curves with known answers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.errors import ResultsError
from edgebench.slowdown.data import Curve
from edgebench.slowdown.hinge import Hinge
from edgebench.slowdown.interpolation import Interpolation
from edgebench.slowdown.ladder import RUNGS, climb, climb_all
from edgebench.slowdown.model import TooFewLimitsError
from edgebench.slowdown.store import climb_as_json, fingerprint, fit_from_json
from edgebench.slowdown.unslowed import Unslowed
from edgebench.slowdown.validation import errors_of, leave_one_limit_out

MIB = 1 << 20
#: EdgeCaffe's published totals of four networks, in seconds, at these limits in MiB.
EDGECAFFE_LIMITS = (4096, 2048, 1024, 512, 256, 128)
EDGECAFFE = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


def true_slowdown(limits: np.ndarray, w: float, a: float, b: float) -> np.ndarray:
    """The hinge, written anew."""
    return 1 + a * np.log(np.maximum(w / limits, 1)) ** b


def made_curve(
    limits_mib: tuple[float, ...],
    *,
    w: float = 200,
    a: float = 2.0,
    b: float = 1.5,
    noise: float = 0.0,
    repeats: int = 1,
    demand: float | None = None,
) -> Curve:
    """A hinge's times at these limits, with lognormal noise."""
    limits = np.repeat(np.sort(limits_mib), repeats) * MIB
    chance = np.random.default_rng(1)
    times = 3.0 * true_slowdown(limits, w * MIB, a, b)
    times *= np.exp(noise * chance.standard_normal(len(limits)))
    demand_bytes = None if demand is None else demand * MIB
    return Curve(
        "net", "load", {"schedule": "linear"}, limits, times, np.full(3, 3.0), demand_bytes
    )


def edgecaffe_curve(schedule: str) -> Curve:
    """One schedule's six published points; slowdown is relative to 4 GB."""
    limits = np.array(EDGECAFFE_LIMITS[::-1]) * float(MIB)
    times = np.array(EDGECAFFE[schedule])
    return Curve("four", "total", {"schedule": schedule}, limits, times[::-1], times[:1])


@settings(max_examples=15, deadline=None)
@given(
    w=st.floats(170, 400),
    a=st.floats(0.3, 8),
    b=st.floats(0.8, 3),
)
def test_a_hinge_without_noise_is_recovered(w: float, a: float, b: float):
    """Certified data: the fit returns the parameters that made the curve, within 1 %."""
    fit = Hinge().fit(made_curve((150, 128, 100, 80, 64, 48, 32), w=w, a=a, b=b))
    assert fit["W"] == pytest.approx(w * MIB, rel=0.01)
    assert fit["a"] == pytest.approx(a, rel=0.01)
    assert fit["b"] == pytest.approx(b, rel=0.01)


def test_intervals_cover_the_truth():
    """With noise, the true parameters lie in the 90 % intervals, which are narrow."""
    fit = Hinge().fit(made_curve((180, 150, 120, 100, 80, 60, 40), noise=0.03, repeats=5))
    for parameter, truth in zip(fit.parameters, (200 * MIB, 2.0, 1.5), strict=True):
        assert parameter.low is not None
        assert parameter.high is not None
        assert parameter.low < truth < parameter.high
        assert parameter.high / parameter.low < 1.5


def test_the_band_covers_new_trials():
    """About nine of ten trials that were not fitted lie in the 90 % band."""
    rung = Hinge()
    curve = made_curve((180, 150, 120, 100, 80, 60, 40), noise=0.05, repeats=5)
    fit = rung.fit(curve)
    limits = np.repeat(np.linspace(40, 180, 40), 25) * MIB
    truth = true_slowdown(limits, 200 * MIB, 2.0, 1.5)
    seen = truth * np.exp(0.05 * np.random.default_rng(2).standard_normal(len(limits)))
    band = rung.interval(fit, limits)
    assert band is not None
    share = np.mean((np.maximum(seen, 1) >= band[0]) & (seen <= band[1]))
    assert 0.84 < share < 0.97


def test_slowdown_never_falls_below_1_or_rises_with_memory():
    """What a hinge or the lowest rung predicts is physically possible, far outside the data too."""
    curve = made_curve((150, 100, 70, 50), noise=0.1, repeats=3, demand=200)
    limits = np.geomspace(5, 5000, 200) * MIB
    for rung in (Unslowed(), Hinge()):
        predicted = rung.predict(rung.fit(curve), limits)
        assert (predicted >= 1).all()
        assert (np.diff(predicted) <= 1e-12).all()


def test_two_limits_rest_on_the_measured_demand():
    """With two limits W is not fitted but the demand, and the fit says so."""
    fit = Hinge().fit(made_curve((120, 60), demand=200))
    assert fit["W"] == pytest.approx(200 * MIB)
    assert fit.parameters[0].fixed
    assert fit.note is not None
    assert "demand" in fit.note
    assert fit["b"] == pytest.approx(1.5, rel=0.01)


def test_two_limits_without_a_demand_are_too_few():
    """Nothing is guessed where two limits have to bear three parameters."""
    with pytest.raises(TooFewLimitsError, match="three limits"):
        Hinge().fit(made_curve((120, 60)))


def test_a_flat_curve_pins_no_hinge_down():
    """Pure noise gives no interval that pretends to know, and no slowdown worth the name."""
    curve = made_curve((150, 100, 70, 50), a=0.0, noise=0.02, repeats=3)
    fit = Hinge().fit(curve)
    assert Hinge().predict(fit, curve.limits).max() < 1.05


def test_interpolation_meets_its_knots():
    """At measured limits it is their median, between two of them it is linear in ln M."""
    curve = made_curve((160, 80, 40), demand=200)
    rung = Interpolation()
    fit = rung.fit(curve)
    assert rung.predict(fit, curve.limits) == pytest.approx(curve.medians)
    between = rung.predict(fit, np.array([np.sqrt(80 * 40) * MIB]))[0]
    assert between == pytest.approx(curve.medians[:2].mean())
    assert rung.predict(fit, np.array([500.0 * MIB]))[0] == 1
    assert rung.predict(fit, np.array([20.0 * MIB]))[0] > curve.medians[0]


def test_interpolations_band_is_the_repeats_noise():
    """Its band is as wide as repeats vary, and there is none without repeats."""
    rung = Interpolation()
    curve = made_curve((160, 80, 40), noise=0.05, repeats=20)
    band = rung.interval(rung.fit(curve), curve.limits)
    assert band is not None
    assert np.log(band[1] / rung.predict(rung.fit(curve), curve.limits)) == pytest.approx(
        0.05 * 1.64, rel=0.3
    )
    single = made_curve((160, 80, 40))
    assert rung.interval(rung.fit(single), single.limits) is None


def test_edgecaffes_published_points():
    """The 24 published points: the hinge errs by 5.7 %, interpolation and no slowdown by more."""
    held = {
        rung.name: [
            one for name in EDGECAFFE for one in leave_one_limit_out(edgecaffe_curve(name), rung)
        ]
        for rung in RUNGS
    }
    errors = {name: errors_of(ones) for name, ones in held.items()}
    assert errors["hinge"].count == 24
    assert errors["hinge"].mape == pytest.approx(0.057, abs=0.001)
    assert errors["interpolation"].mape == pytest.approx(0.117, abs=0.002)
    assert errors["unslowed"].mape == pytest.approx(0.451, abs=0.002)
    assert all(climb(edgecaffe_curve(name)).best.rung.name == "hinge" for name in EDGECAFFE)


def test_errors_are_in_raw_time():
    """Held-out errors compare seconds, and outermost limits are told from inner ones."""
    curve = made_curve((160, 120, 80, 40))
    held = leave_one_limit_out(curve, Unslowed())
    assert [one.inside for one in held] == [False, True, True, False]
    assert held[0].predicted_s == 3.0
    assert held[0].error == pytest.approx(1 / curve.medians[0] - 1)
    errors = errors_of(held)
    assert errors.bias == pytest.approx(-errors.mape)
    assert errors.mape_inside is not None
    assert errors.mape_outside is not None


def test_noise_of_repeats():
    """The noise is the median distance from each limit's median; None without repeats."""
    curve = made_curve((100, 50), noise=0.05, repeats=50)
    noisy = replace(curve, unlimited_seconds=np.array([3.0]))
    assert noisy.noise == pytest.approx(0.05 * 0.674, rel=0.25)
    assert replace(made_curve((100, 50)), unlimited_seconds=np.array([3.0])).noise is None


def test_too_few_limits_is_a_clear_error():
    """One limit is no curve: the error says what is lacking and what to add."""
    with pytest.raises(ResultsError, match="too few limits") as caught:
        climb_all([made_curve((100,), demand=200)])
    assert "steps" in str(caught.value)


def test_a_curve_with_one_limit_is_named_beside_others():
    """What can't be fitted does not stop what can."""
    climbs, skipped = climb_all([made_curve((100,)), made_curve((100, 80, 50))])
    assert len(climbs) == 1
    assert "only one limit" in skipped[0]


def test_fits_survive_json():
    """A fit read back from JSON predicts and bounds exactly as before."""
    curve = made_curve((150, 120, 100, 80, 50), noise=0.02, repeats=3, demand=200)
    stored = json.loads(json.dumps(climb_as_json(climb(curve)), allow_nan=False))
    assert stored["recommended"] == "hinge"
    assert stored["data"]["fingerprint"] == fingerprint(curve)
    for step, data in zip(climb(curve).steps, stored["rungs"], strict=True):
        assert step.fit is not None
        back = fit_from_json(data["fit"])
        assert asdict(back) == asdict(step.fit)
        limits = np.geomspace(40, 300, 20) * MIB
        assert (step.rung.predict(back, limits) == step.rung.predict(step.fit, limits)).all()


def test_the_fingerprint_is_of_the_data():
    """Other times, other fingerprint; other settings, the same."""
    curve = made_curve((150, 100, 50))
    assert fingerprint(curve) == fingerprint(replace(curve, settings={}))
    assert fingerprint(curve) != fingerprint(replace(curve, seconds=curve.seconds * 1.01))
