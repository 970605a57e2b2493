"""Which rounds are the start, and which repeat."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.results.rounds import CLOCK_S, LEAST, TOLERANCE, steadiness


def test_rounds_that_repeat_from_the_second_on() -> None:
    """The start is in none of the steady rounds, however long it took."""
    found = steadiness([2.0, 0.50, 0.51, 0.49])
    assert (found.start_s, found.rounds, found.repeats) == (2.0, (1, 2, 3), True)


def test_rounds_that_settle_later() -> None:
    """Rounds on the way down to where it settles are left out."""
    found = steadiness([2.0, 1.0, 0.7, 0.5, 0.51, 0.49, 0.5])
    assert found.rounds[0] >= 2
    assert found.repeats
    assert found.rounds[-1] == 6


def test_one_disturbed_round_among_four_is_no_change() -> None:
    """One outlier of four is left in; two aren't."""
    assert steadiness([2.0, 0.5, 0.5, 0.9, 0.5]).repeats
    assert not steadiness([2.0, 0.5, 0.9, 0.5, 0.9]).repeats


def test_rounds_of_a_drift_are_left_out() -> None:
    """Eight rounds near their median that rise from the first to the last: the later ones stay."""
    rising = [1.0, *(1.0 + 0.02 * number for number in range(8))]
    assert steadiness(rising, tolerance=0.072).rounds[0] > 1
    assert not steadiness([1.0, *(1.3**number for number in range(8))]).repeats


def test_too_few_rounds_show_nothing() -> None:
    """Two rounds are a start and a later one; nobody knows whether that repeats."""
    assert steadiness([1.0, 0.5]).rounds == (1,)
    assert not steadiness([1.0, 0.5]).repeats
    assert steadiness([1.0]).rounds == ()
    with pytest.raises(ValueError, match="no rounds"):
        steadiness([])


def test_short_rounds_may_differ_by_a_tick() -> None:
    """A round of a millisecond isn't told apart from one a third of a millisecond longer."""
    assert steadiness([0.01, 0.001, 0.001 + 0.6 * CLOCK_S, 0.001]).repeats


def plainly(times_s: list[float], tolerance: float = TOLERANCE) -> tuple[int, ...]:
    """The steady rounds by the definition, each row looked at anew."""
    for begin in range(1, len(times_s) - LEAST + 1):
        row = times_s[begin:]
        middle = statistics.median(row)
        allowed_s = max(tolerance * middle, CLOCK_S)
        near = [time_s for time_s in row if abs(time_s - middle) <= allowed_s]
        half = len(near) // 2
        if len(row) - len(near) <= len(row) // 4 and (
            abs(statistics.median(near[:half]) - statistics.median(near[-half:])) <= allowed_s
        ):
            return tuple(range(begin, len(times_s)))
    return tuple(range(1, len(times_s)))


@given(st.lists(st.sampled_from([0.5, 0.52, 0.55, 0.6, 0.61, 0.7, 1.1, 1.21]), min_size=1))
def test_rows_are_told_as_by_the_definition(times_s: list[float]) -> None:
    """However the times lie, also just at the tolerance: the same rounds."""
    assert steadiness(times_s).rounds == plainly(times_s)
