"""A trial's rounds: which are the start and which repeat, their times, and what frames have."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import record, rounds

from edgebench.records import PhaseSum, TrialRecord
from edgebench.results.times import (
    CLOCK_S,
    LEAST,
    TOLERANCE,
    round_stages,
    rounds_of,
    steadiness,
    trial_times,
)


def timed(*times_s: float, **changes: Any) -> TrialRecord:
    loads = [PhaseSum(n, "lenet", "load", seconds / 2) for n, seconds in enumerate(times_s)]
    phases = [PhaseSum(-1, None, "import", 3.0), *rounds(*times_s), *loads]
    return record(**{"phases": phases, "wall_s": 9.0, **changes})


def test_rounds_before_they_repeat_are_neither():
    one = timed(4.0, 2.0, 1.0, 0.5, 0.51, 0.5, 0.49)
    stages = list(round_stages(one).values())
    assert stages == ["start", "settling", "steady", "steady", "steady", "steady", "steady"]
    times = trial_times(one)
    assert (times["start"], times["steady"], times["total"]) == pytest.approx((4.0, 0.5, 0.5))
    assert times["load"] == pytest.approx(0.25)
    assert rounds_of(one).repeat


def test_too_few_rounds_for_the_test_are_steady_all_the_same():
    times = trial_times(timed(4.0, 1.0))
    assert times == {"total": 1.0, "start": 4.0, "steady": 1.0, "load": 0.5, "import": 3.0}
    assert rounds_of(timed(4.0, 1.0)).repeat is None


def test_one_round_is_a_start_and_none_the_whole_trial():
    assert trial_times(timed(4.0)) == {"total": 4.0, "start": 4.0, "load": 2.0, "import": 3.0}
    assert trial_times(timed()) == {"total": 9.0, "import": 3.0}


def test_rounds_of_a_drift_are_left_out() -> None:
    """All lie within a tenth of 1.097, but the halves' medians, 1.042 and 1.153, differ by more."""
    assert steadiness([1.0, *(1.0 + 0.0278 * number for number in range(8))]).rounds[0] > 1


def plainly(times_s: list[float]) -> tuple[int, ...]:
    for begin in range(1, len(times_s) - LEAST + 1):
        row = times_s[begin:]
        middle = statistics.median(row)
        allowed_s = max(TOLERANCE * middle, CLOCK_S)
        near = [time_s for time_s in row if abs(time_s - middle) <= allowed_s]
        half = len(near) // 2
        if len(row) - len(near) <= len(row) // 4 and (
            abs(statistics.median(near[:half]) - statistics.median(near[-half:])) <= allowed_s
        ):
            return tuple(range(begin, len(times_s)))
    return tuple(range(1, len(times_s)))


@given(st.lists(st.sampled_from([0.5, 0.52, 0.55, 0.6, 0.61, 0.7, 1.1, 1.21]), min_size=1))
def test_rows_are_told_as_by_the_definition(times_s: list[float]) -> None:
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
    assert steadiness([5.0, *later_s]).repeats is repeats
