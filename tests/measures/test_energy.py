"""Energy by integration: what is exact is exact, and the error covers what is not."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.measures.machine.sensors.energy import Energy, SensorSeries, energy_of
from edgebench.measures.machine.sensors.sensor import ENERGY, POWER

S = 10**9


def test_constant_power_is_power_times_time():
    """Five watts for two seconds, and no doubt about it."""
    series = SensorSeries(POWER, [n * S // 10 for n in range(31)], [5_000_000] * 31)
    assert series.energy([(S // 2, S // 2 + 2 * S)]) == Energy(10.0, 0.0)


def test_power_that_rises_evenly_is_integrated_exactly():
    """A ramp from 0 to 10 W in ten seconds is 50 J; the error says that readings differed."""
    series = SensorSeries(POWER, [n * S for n in range(11)], [n * 1_000_000 for n in range(11)])
    energy = series.energy([(0, 10 * S)])
    assert energy is not None
    assert energy.energy_j == pytest.approx(50)
    assert energy.error_j > 0


def test_a_counter_read_at_both_ends_is_exact():
    """Where a reading stands at each end, the difference is known and the error 0."""
    series = SensorSeries(ENERGY, [0, S, 2 * S, 3 * S], [0, 4_000_000, 4_500_000, 9_000_000])
    assert series.energy([(S, 3 * S)]) == Energy(5.0, 0.0)


def test_between_readings_a_counter_has_bounds():
    """Within one pause between readings all or nothing of its rise may lie."""
    series = SensorSeries(ENERGY, [0, S], [0, 8_000_000])
    assert series.energy([(S // 4, S // 2)]) == Energy(2.0, 6.0)


@given(
    steps=st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**8)), min_size=3),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    keep=st.integers(1, 5),
)
def test_a_counter_s_error_is_a_bound(
    steps: list[tuple[int, int]], ends: tuple[float, float], keep: int
):
    """Whatever the counter did between its readings, the true energy is within the error."""
    times = [0, *accumulate(step for step, _ in steps)]
    values = [0, *accumulate(rise for _, rise in steps)]
    read = sorted({0, len(times) - 1, *range(0, len(times), keep)})
    series = SensorSeries(ENERGY, [times[n] for n in read], [values[n] for n in read])
    start, end = sorted(round(share * times[-1]) for share in ends)
    energy = series.energy([(start, end)])
    assert energy is not None
    # The counter moves at its own times, all at once.
    true = values[bisect_right(times, end) - 1] - values[bisect_right(times, start) - 1]
    assert abs(true / 1e6 - energy.energy_j) <= energy.error_j * (1 + 1e-9) + 1e-9


def test_the_interval_of_power_holds_as_often_as_it_says():
    """Of power that jumps from reading to reading, 95 % of the intervals hold the mean's energy."""
    draw, held = random.Random(1), 0
    for _ in range(2000):
        values = [draw.gauss(5e6, 1e6) for _ in range(14)]
        series = SensorSeries(POWER, [n * S // 10 for n in range(14)], [int(v) for v in values])
        # From the middle between two readings to that between two others: 12 readings within.
        energy = series.energy([(S // 20, S // 20 + 12 * S // 10)])
        assert energy is not None
        held += abs(energy.energy_j - 5 * 1.2) <= energy.error_j
    assert 0.93 <= held / 2000 <= 0.975


@pytest.mark.parametrize("window", [(0, S // 20), (-1, S), (S, 10 * S), (S // 10 + 1, S // 5)])
def test_what_readings_do_not_tell_is_missing(window: tuple[int, int]):
    """Fewer than two readings of power within, or a time that they don't cover: no number."""
    series = SensorSeries(POWER, [n * S // 10 for n in range(31)], [5_000_000] * 31)
    assert series.energy([window]) is None


def test_a_counter_that_was_lost_tells_nothing_of_later():
    """A window that goes on after the last reading has no energy."""
    assert SensorSeries(ENERGY, [0, S], [0, 1]).energy([(0, 2 * S)]) is None
    assert SensorSeries(ENERGY, [], []).energy([(0, S)]) is None
    assert SensorSeries(ENERGY, [0, S], [0, 1]).energy([]) is None


def test_several_windows_are_added_up():
    """Windows apart leave out what is between them; those that touch are one."""
    series = SensorSeries(ENERGY, [n * S for n in range(6)], [n * 1_000_000 for n in range(6)])
    assert series.energy([(0, S), (3 * S, 4 * S)]) == Energy(2.0, 0.0)
    half = S // 2
    assert series.energy([(0, half), (half, S)]) == Energy(1.0, 0.0)


def test_domains_of_several_sensors_are_added_up():
    """Package and memory together, also their errors; one that doesn't tell leaves none."""
    one = SensorSeries(ENERGY, [0, S], [0, 8_000_000])
    both = energy_of([one, one], [(S // 4, S // 2)])
    assert both == Energy(4.0, 12.0)
    assert energy_of([one, SensorSeries(ENERGY, [], [])], [(0, S)]) is None
    assert energy_of([], [(0, S)]) is None
