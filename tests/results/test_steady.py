"""Which rounds are the start, and which repeat."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.results.rounds import CLOCK_S, LEAST, TOLERANCE, steadiness


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


@pytest.mark.parametrize(
    ("later_s", "repeats"),
    [
        # A tenth of the median apart; of rounds of a millisecond half a millisecond.
        *(((1.0, 1.0, 1.09), True), ((1.0, 1.0, 1.12), False)),
        *(((0.001, 0.001, 0.0014), True), ((0.001, 0.001, 0.0016), False)),
    ],
)
def test_how_near_rounds_lie_that_repeat(later_s: tuple[float, ...], repeats: bool) -> None:
    """The first round is none of them."""
    assert steadiness([5.0, *later_s]).repeats is repeats
