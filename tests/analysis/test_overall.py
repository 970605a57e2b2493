"""All times together: the interval is Student's where books have one, and holds under drift."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from scipy import stats

from edgebench.analysis.comparison import BlockedLog, PointTime, _weights, compare_overall

_KINDS = ("total", "start", "load", "first", "execute")
_POINTS, _BLOCKS, _PAIRS = 6, 3, 300
_NOISE = 0.06
#: What of a sweep drifts as one, by how much (standard deviation of the logarithm).
_DRIFTS = {"nothing": 0.0, "kinds": 0.04, "points": 0.04, "blocks": 0.04}


def point_time(
    before: Sequence[float], after: Sequence[float], kind: str = "total", point: int = 0
) -> PointTime:
    return PointTime(kind, point, list(enumerate(before)), list(enumerate(after)))


def drifting(chance: random.Random, over: str, factor: float) -> list[PointTime]:
    size = _DRIFTS[over]

    def sweep(shift: float) -> dict[tuple[str, int], list[BlockedLog]]:
        kinds, points, blocks = (
            [chance.gauss(0, size if over == of else 0.0) for _ in range(count)]
            for of, count in (("kinds", len(_KINDS)), ("points", _POINTS), ("blocks", _BLOCKS))
        )
        return {
            (kind, point): [
                (block, shift + k + points[point] + blocks[block] + chance.gauss(0, _NOISE))
                for block in range(_BLOCKS)
            ]
            for kind, k in zip(_KINDS, kinds, strict=True)
            for point in range(_POINTS)
        }

    before, after = sweep(0.0), sweep(math.log(factor))
    return [PointTime(*key, before[key], after[key]) for key in before]


def test_points_alone_are_student_s():
    logs = [0.02, 0.05, 0.11, -0.03]
    near = [-1e-3, 0.0, 1e-3]
    times = [
        point_time(near, [log + x for x in near], point=point) for point, log in enumerate(logs)
    ]
    found = compare_overall(times, 0.05)
    low, high = stats.t.interval(0.95, 3, statistics.fmean(logs), stats.sem(logs))
    assert math.log(found.ratio) == pytest.approx(statistics.fmean(logs), rel=1e-3)
    assert math.log(found.ratio_low) == pytest.approx(low, rel=1e-2)
    assert math.log(found.ratio_high) == pytest.approx(high, rel=1e-2)
    assert found.widest == "points"


def test_blocks_alone_are_student_s():
    before, after = [0.0, 0.02, 0.05], [0.12, 0.10, 0.17]
    found = compare_overall([point_time(before, after, kind) for kind in _KINDS], 0.05)
    books = stats.ttest_ind(after, before).confidence_interval(0.95)
    assert math.log(found.ratio_low) == pytest.approx(books.low)
    assert math.log(found.ratio_high) == pytest.approx(books.high)
    assert (found.widest, found.times, found.verdict) == ("blocks", len(_KINDS), "slower")


@pytest.mark.parametrize(
    ("difference", "error", "weights"),
    [
        # Precisions 100, 25, 25; mean 1/12; Q = 3.20833 - 2 beyond, over 150 - 11250 / 150 = 75.
        ([0.0, 0.4, 0.1], [0.1, 0.2, 0.2], [1 / 0.0261111, 1 / 0.0561111, 1 / 0.0561111]),
        ([0.1, 0.12, 0.11], [0.1, 0.2, 0.2], [100, 25, 25]),
        # The clock's error, not the repeats'.
        ([0.3, 0.3], [1e-6, 0.1], [1e8, 100]),
    ],
)
def test_weights_are_those_of_random_effects(
    difference: list[float], error: list[float], weights: list[float]
):
    assert _weights(difference, error) == pytest.approx(weights, rel=1e-5)


def test_one_kind_that_changed_is_not_all():
    near = [-0.01, 0.0, 0.01]
    times = [
        point_time(near, [x + (0.7 if kind == "load" else 0.0) for x in near], kind, point)
        for kind in _KINDS
        for point in range(_POINTS)
    ]
    found = compare_overall(times, 0.05)
    assert found.ratio > 1.05
    assert (found.verdict, found.widest) == ("unsure", "kinds")


def test_a_single_time_or_block_has_no_all():
    """Nothing is said where there is nothing to take together, or no second block to hold it to."""
    one = point_time([0.0, 0.1], [0.0, 0.1])
    in_one_block = PointTime("load", 0, [(0, 0.0), (0, 0.1)], [(0, 0.0), (1, 0.1)])
    assert compare_overall([one], 0.05) is None
    assert compare_overall([in_one_block, in_one_block], 0.05) is None


def test_a_time_of_one_block_alone_is_left_out_with_it():
    times = [point_time([0.0, 0.1, 0.05], [0.1, 0.2, 0.15], kind) for kind in _KINDS]
    odd = PointTime("step", 0, [(0, 0.0), (0, 0.1)], [(0, 0.1), (1, 0.2)])
    found = compare_overall([*times, odd], 0.05)
    assert found.ratio == pytest.approx(math.exp(0.1))


@pytest.mark.heavy
@pytest.mark.promise(
    "Equal sweeps are called slower over all times in at most 3 of 100 comparisons, also "
    "where kinds of time, points or blocks drift as one."
)
@pytest.mark.parametrize("over", _DRIFTS)
def test_equal_sweeps_are_seldom_called_slower(over: str):
    chance = random.Random(21)
    found = [compare_overall(drifting(chance, over, 1.0), 0.05) for _ in range(_PAIRS)]
    assert sum(one is not None and one.verdict == "slower" for one in found) <= 0.03 * _PAIRS


@pytest.mark.heavy
@pytest.mark.promise(
    "The interval over all times holds the true ratio as often as it says, under the same drifts."
)
@pytest.mark.parametrize("over", _DRIFTS)
def test_the_interval_holds_the_true_ratio(over: str):
    """Nineteen times in twenty or more, without a threshold's help; chance of 300 allowed for."""
    chance = random.Random(22)
    found = [compare_overall(drifting(chance, over, 1.1), 0.05) for _ in range(_PAIRS)]
    missed = sum(one is not None and not one.ratio_low <= 1.1 <= one.ratio_high for one in found)
    assert stats.binomtest(missed, _PAIRS, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.heavy
@pytest.mark.promise(
    "A slowdown of all times is found over all times: 10 % in at least 95 of 100 comparisons, "
    "5 % in 90, at three repeats and noise of 6 %."
)
@pytest.mark.parametrize(("percent", "share"), [(10, 0.95), (5, 0.9)])
def test_a_change_of_all_times_is_found(percent: int, share: float):
    """10 % in 95 of 100 pairs, 5 % in 90, where single times differ by 6 % between repeats."""
    chance = random.Random(23)
    pairs = [drifting(chance, "nothing", 1 + percent / 100) for _ in range(_PAIRS)]
    found = [compare_overall(pair, percent / 200) for pair in pairs]
    verdicts = [one.verdict for one in found if one is not None]
    assert verdicts.count("slower") >= share * _PAIRS
