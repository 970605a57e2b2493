"""No answer says more than the trials beside it: over made-up sweeps, with hypothesis.

What may be claimed is worked out here from the raw times, by other means than the product's.
"""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

import pytest
from claim_making import CLEARLY, MIB, POINTS, REPEATS, Point, interval, quick, sweep_of
from hypothesis import given
from hypothesis import strategies as st

from edgebench.analysis.compare import compare_sweeps
from edgebench.answers.limits import workload_answer
from edgebench.results.facts import sweep_facts
from edgebench.results.spread import spread_of


@pytest.mark.promise(
    "All trials finished at the limit to give and above it, at most 1.1 times as slow, and not at "
    "the next one below; each row has the medians and counts of its trials alone."
)
@given(POINTS)
@quick
def test_rows_tell_what_trials_did(points: list[Point]):
    made = [point for point in points if point.seconds or point.lost]
    found = sweep_facts(sweep_of(made)).workloads
    if not found:
        return
    answer = workload_answer(found[0])
    by_limit = {point.limit and point.limit * MIB: point for point in made}
    free = by_limit.get(None)
    enough, is_enough = [], True
    for row in answer.rows:
        point = by_limit[row.limit_bytes]
        assert (row.finished, row.trials) == (
            len(point.seconds),
            len(point.seconds) + len(point.lost),
        )
        factor = None
        if free and free.seconds and point.seconds:
            factor = statistics.median(point.seconds) / statistics.median(free.seconds)
            assert row.slower
            assert row.slower.median == pytest.approx(factor)
        if row.limit_bytes:
            is_enough &= point.finished and factor is not None and factor <= 1.1
            enough += [row.limit_bytes] if is_enough else []
    assert answer.give_bytes == min(enough, default=None)


@pytest.mark.promise(
    "`compare` reports slower, faster or same only where the 95 % interval supports it."
)
@given(st.lists(st.tuples(REPEATS, REPEATS), min_size=1, max_size=4))
@quick
def test_verdicts_of_two_sweeps_hold_their_intervals(pairs: list[tuple[list[float], list[float]]]):
    kept = [(a, b) for a, b in pairs if a and b]
    if not kept:
        return
    sides = [
        sweep_of([Point(100 + n, pair[side], []) for n, pair in enumerate(kept)]) for side in (0, 1)
    ]
    for row in compare_sweeps(*sides).rows:
        if row.quantity == "viable" or row.verdict == "unsure":
            continue
        assert row.ratio, row
        assert row.ratio_low, f"told from one trial: {row}"
        assert row.ratio_high
        if row.verdict == "same":
            assert row.ratio < 1.06, row
            assert 1 / CLEARLY < row.ratio_low <= row.ratio_high < CLEARLY, row
        elif row.verdict == "slower":
            assert min(row.ratio, row.ratio_low) > 1, row
        else:
            assert max(row.ratio, row.ratio_high) < 1, row


@pytest.mark.promise("More repeats tell more: their interval is never wider than their extremes.")
@given(st.lists(st.floats(0.5, 2.0), min_size=9, max_size=60))
@quick
def test_more_repeats_tell_more(values: list[float]):
    spread: Any = spread_of(values)
    exact = interval(values)
    assert exact
    assert spread.sure_low <= exact[0] <= exact[1] <= spread.sure_high
    # A hundredfold of them is told more closely.
    many: Any = spread_of([*values] * 100)
    assert many.sure_high - many.sure_low <= spread.sure_high - spread.sure_low
    assert all(a <= b for a, b in pairwise([spread.low, spread.sure_low, spread.median]))
