"""Models of one curve against curves with known answers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from edgebench.errors import ResultsError
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.fit_files import curve_fits_as_json, fingerprint
from edgebench.slowdown.models.fitting import (
    HeldOut,
    errors_of,
    fit_all,
    fit_curve,
    fit_interpolated,
    left_out,
)
from edgebench.slowdown.models.interpolated import Interpolated, measured_points

MIB = 1 << 20
#: EdgeCaffe's published totals of four networks, in seconds, at these limits in MiB.
EDGECAFFE_LIMITS = (4096, 2048, 1024, 512, 256, 128)
EDGECAFFE = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


def unslowed(curve: Curve) -> tuple[HeldOut, ...]:
    """What a model that never slows anything says of a curve's limits."""
    return left_out(curve, lambda limit: curve.unlimited_s)


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


def test_the_cubic_meets_its_points():
    """At measured limits it is their median; between, it never rises; beyond, it stays."""
    curve = made_curve((160, 80, 40), demand=200)
    model = Interpolated.of(curve)

    def slowdown(*limits_mib: float) -> np.ndarray:
        return model.predict(curve, np.array(limits_mib) * MIB).slowdown

    assert slowdown(40, 80, 160) == pytest.approx(curve.medians)
    assert (np.diff(slowdown(*np.geomspace(20, 500, 99))) <= 1e-12).all()
    assert curve.medians[1] < slowdown(np.sqrt(80 * 40))[0] < curve.medians[0]
    assert slowdown(500)[0] == 1
    assert slowdown(20)[0] == pytest.approx(curve.medians[0])


def test_a_confirmed_point_is_never_passed_by():
    """A median that rises with memory is evened out as far as its repeats allow, and no farther."""
    curve = made_curve((160, 120, 80, 40), repeats=3, demand=200)
    bump = np.where(curve.limit_bytes == 120 * MIB, 4.0, 1.0)
    odd = replace(curve, seconds=curve.seconds * bump)
    x, y = measured_points(odd)
    found = dict(zip(np.round(np.exp(x) / MIB), np.exp(y), strict=True))
    assert found[120] == pytest.approx(4 * curve.medians[2])
    once = made_curve((160, 120, 80, 40), demand=200)
    alone = replace(once, seconds=once.seconds * np.where(once.limit_bytes == 120 * MIB, 4.0, 1.0))
    _, evened = measured_points(alone)
    assert (np.diff(evened) <= 1e-12).all()
    wide = np.where(curve.limit_bytes == 120 * MIB, np.tile([1.0, 4.0, 4.0], 4), 1.0)
    _, within = measured_points(replace(curve, seconds=curve.seconds * wide))
    assert (np.diff(within) <= 1e-6).all()


def test_the_measured_interval_is_that_of_limits_left_out():
    """A curve that its neighbours tell has a narrow interval, a cliff a wide one."""
    straight = made_curve((160, 120, 80, 60, 40), demand=200)
    steep = replace(straight, seconds=np.where(straight.limit_bytes < 100 * MIB, 60.0, 3.0))
    widths = []
    for one in (straight, steep):
        between = np.sqrt(one.limits[1:] * one.limits[:-1])
        found = Interpolated.of(one).predict(one, between)
        assert found.interval is not None
        widths.append(np.max(found.interval[1] / found.interval[0]))
    assert widths[0] < 3 < widths[1]


def test_edgecaffes_published_points():
    """The 24 published points, each left out in turn: a third as far off as if never slowed."""
    published = [edgecaffe_curve(name) for name in EDGECAFFE]
    own = errors_of([o for curve in published for o in fit_interpolated(curve).held_out])
    flat = errors_of([o for curve in published for o in unslowed(curve)])
    assert own.count == 24
    assert own.mape < flat.mape / 3
    assert flat.mape == pytest.approx(0.451, abs=0.002)


def test_errors_are_in_raw_time():
    """Held-out errors compare seconds, and outermost limits are told from inner ones."""
    curve = made_curve((160, 120, 80, 40))
    held = unslowed(curve)
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
        fit_all([made_curve((100,), demand=200)])
    assert "steps" in str(caught.value)


def test_a_curve_with_one_limit_is_named_beside_others():
    """What can't be fitted does not stop what can."""
    fits, skipped = fit_all([made_curve((100,)), made_curve((100, 80, 50))])
    assert len(fits) == 1
    assert "only one limit: " in skipped[0]


def test_fits_are_plain_json():
    """What is written of a fit draws its curve anew: the points, with the demand as the last."""
    curve = made_curve((150, 120, 100, 80, 50), noise=0.02, repeats=3, demand=200)
    fits = fit_curve(curve)
    stored = json.loads(json.dumps(curve_fits_as_json(fits), allow_nan=False))
    assert stored["recommended"] == "interpolated"
    assert stored["data"]["fingerprint"] == fingerprint(curve)
    (model,), (one,) = stored["models"], fits.fits
    points = model["fit"]
    assert points["limits_bytes"] == [*curve.limits.round(), curve.demand_bytes]
    assert isinstance(one.fitted, Interpolated)
    told = one.fitted.predict(curve, np.array(points["limits_bytes"]))
    assert told.slowdown == pytest.approx(points["slowdowns"], rel=1e-6)
    assert (points["noise"], points["reach"]) == (one.fitted.noise, one.fitted.reach)


def test_the_fingerprint_is_of_the_data():
    """Other times, other fingerprint; other settings, the same."""
    curve = made_curve((150, 100, 50))
    assert fingerprint(curve) == fingerprint(replace(curve, settings={}))
    assert fingerprint(curve) != fingerprint(replace(curve, seconds=curve.seconds * 1.01))


def test_neighbours_bound_the_interval():
    """Between two measured limits a slowdown is no more than the tighter one's, with its noise."""
    limits = (160, 120, 80, 60, 40)
    curve = made_curve(limits, noise=0.01, repeats=3, demand=200)
    cliff = np.where(curve.limit_bytes < 50 * MIB, 60.0, 1.0)
    steep = replace(curve, seconds=curve.seconds * cliff)
    found = Interpolated.of(steep).predict(steep, np.array([50.0, 100.0]) * MIB)
    assert found.interval is not None
    by_limit = dict(zip(np.round(steep.limits / MIB), steep.medians, strict=True))
    (low, other), (high, most) = found.interval
    assert by_limit[60] / 1.1 < low < high < by_limit[40] * 1.1
    assert by_limit[120] / 1.1 < other < most < by_limit[80] * 1.1
