"""Bends: found where they are, with an interval that holds them, and not where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.analysis.studies.convolutions import find_bend
from edgebench.errors import ResultsError

X = np.repeat(np.arange(1.0, 12.0), 4)


def bent(at: float, noise: float, seed: int) -> np.ndarray:
    """Slope 0.2 up to a place, 2 after it, under relative noise."""
    truth = 3 + 0.2 * X + 1.8 * np.maximum(X - at, 0)
    return truth * np.exp(np.random.default_rng(seed).normal(0, noise, len(X)))


def test_a_known_bend_is_found():
    found = find_bend(X, bent(5.0, 1e-6, 0))
    assert found.found
    assert (found.at, found.before, found.after) == pytest.approx((5.0, 0.2, 2.0), abs=0.03)
    assert found.value([0.0, 11.0]) == pytest.approx([3.0, 3 + 2.2 + 10.8], rel=0.01)


@pytest.mark.heavy
def test_a_straight_line_has_no_bend():
    """Of 16 straight lines with noise about one in twenty is called bent, as promised."""
    chance = np.random.default_rng(5)
    lines = [(3 + 0.4 * X) * np.exp(chance.normal(0, 0.05, len(X))) for _ in range(16)]
    assert np.mean([find_bend(X, line).found for line in lines]) <= 0.15


def test_few_places_are_refused():
    with pytest.raises(ResultsError, match="4 places are too few"):
        find_bend([1, 2, 3, 4], [1, 2, 3, 4])


def test_five_places_are_enough():
    """1, 2, 3, then twice as steep: 5 and 7."""
    found = find_bend([1, 2, 3, 4, 5], [1, 2, 3, 5, 7])
    assert (found.at, found.before, found.after) == pytest.approx((3.0, 1.0, 2.0))
    assert found.start == pytest.approx(0, abs=1e-9)


def test_its_interval_is_where_an_f_test_can_tell_no_difference():
    """F(0.9; 1, 4) = 4.545 on the profile of relative squares, a step of 5 / 1,200 wider."""
    found = find_bend(range(1, 9), [10.2, 11.9, 14.1, 16.2, 21.5, 28.1, 33.6, 40.3])
    ends = found.at, found.low, found.high
    assert ends == pytest.approx((4.1666667, 3.8583333, 4.3708333), abs=1e-6)
    lines = found.start, found.before, found.after
    assert lines == pytest.approx((8.1114783, 1.9931947, 6.1954478), rel=1e-6)
