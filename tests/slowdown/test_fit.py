"""The curve through measured points, against curves with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgebench.errors import ResultsError
from edgebench.slowdown.curves import Curve, HeldOut, fit_all, fit_curve, measured_points

MIB = 1 << 20
#: EdgeCaffe's published totals of four networks, in seconds, at these limits in MiB.
EDGECAFFE_LIMITS = (4096, 2048, 1024, 512, 256, 128)
EDGECAFFE = {
    "bulk": (38.8, 47.7, 74.5, 123.6, 183.1, 271.9),
    "deepeye": (33.5, 37.3, 57.1, 102.9, 169.1, 240.6),
    "partial": (32.3, 37.3, 56.9, 78.2, 146.9, 204.2),
    "linear": (40.0, 40.2, 53.0, 83.5, 115.5, 168.7),
}


def made_curve(
    limits_mib: tuple[float, ...],
    *,
    noise: float = 0.0,
    repeats: int = 1,
    demand: float | None = None,
) -> Curve:
    """Return rounds of 3 s below 200 MiB: 1 + 2 ln(200 / M)^1.5 times as long, with noise."""
    limits = np.repeat(np.sort(limits_mib), repeats) * MIB
    chance = np.random.default_rng(1)
    times = 3.0 * (1 + 2 * np.log(np.maximum(200 * MIB / limits, 1)) ** 1.5)
    times *= np.exp(noise * chance.standard_normal(len(limits)))
    settings, free = {"schedule": "linear"}, np.full(3, 3.0)
    return Curve("net", "load", settings, limits, times, free, demand and demand * MIB)


def test_the_cubic_meets_its_points():
    curve = made_curve((160, 80, 40), demand=200)

    def slowdown(*limits_mib: float) -> np.ndarray:
        return fit_curve(curve).slowdown(np.array(limits_mib) * MIB)

    assert slowdown(40, 80, 160) == pytest.approx(curve.medians)
    assert (np.diff(slowdown(*np.geomspace(20, 500, 99))) <= 1e-12).all()
    assert curve.medians[1] < slowdown(np.sqrt(80 * 40))[0] < curve.medians[0]
    assert slowdown(500)[0] == 1
    assert slowdown(20)[0] == pytest.approx(curve.medians[0])


def test_a_confirmed_point_is_never_passed_by():
    curve = made_curve((160, 120, 80, 40), repeats=3, demand=200)
    bump = np.where(curve.limit_bytes == 120 * MIB, 4.0, 1.0)
    x, y = measured_points(replace(curve, seconds=curve.seconds * bump))
    found = dict(zip(np.round(np.exp(x) / MIB), np.exp(y), strict=True))
    assert found[120] == pytest.approx(4 * curve.medians[2])
    once = made_curve((160, 120, 80, 40), demand=200)
    alone = replace(once, seconds=once.seconds * np.where(once.limit_bytes == 120 * MIB, 4.0, 1.0))
    _, evened = measured_points(alone)
    assert (np.diff(evened) <= 1e-12).all()
    wide = np.where(curve.limit_bytes == 120 * MIB, np.tile([1.0, 4.0, 4.0], 4), 1.0)
    _, within = measured_points(replace(curve, seconds=curve.seconds * wide))
    assert (np.diff(within) <= 1e-6).all()


def test_edgecaffes_published_points():
    """The 24 published points, each left out in turn: a third as far off as if never slowed."""
    held, flat = list[HeldOut](), list[HeldOut]()
    limits = np.array(EDGECAFFE_LIMITS[::-1]) * float(MIB)
    for seconds in EDGECAFFE.values():
        times = np.array(seconds)
        own = fit_curve(Curve("four", "total", {}, limits, times[::-1], times[:1])).held_out
        held += own
        flat += [replace(one, predicted_s=seconds[0]) for one in own]
    assert len(held) == 24
    mean, unslowed = (np.mean([abs(one.error) for one in own]) for own in (held, flat))
    assert mean < unslowed / 3
    assert unslowed == pytest.approx(0.451, abs=0.002)


def test_too_few_limits_is_a_clear_error():
    with pytest.raises(ResultsError, match="too few limits") as caught:
        fit_all([made_curve((100,), demand=200)])
    assert "steps" in str(caught.value)
    fits, skipped = fit_all([made_curve((100,)), made_curve((100, 80, 50))])
    assert len(fits) == 1
    assert "only one limit: " in skipped[0]
    # Two limits without a demand: none can be left out.
    assert fit_curve(made_curve((100, 80))).error is None
