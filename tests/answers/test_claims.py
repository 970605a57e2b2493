"""No answer says more than the trials beside it: over made-up sweeps, with hypothesis.

What may be claimed is worked out here from the raw times, by other means than the product's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_records import MIB, record, rounds, sweep
from scipy import stats

from edgebench.analysis.compare import compare_sweeps
from edgebench.answers.limits import workload_answer
from edgebench.records import Outcome
from edgebench.results.facts import sweep_facts
from edgebench.results.sweep_reader import Sweep
from edgebench.results.times import spread_of

#: Sameness is never claimed where the interval holds this.
CLEARLY = 1.5
#: Many examples would find more; these take a second and are always the same.
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "timeout", "failed", "interrupted")
#: Seconds of the repeats of one point: calm, noisy, far apart, a single one, none.
REPEATS = st.tuples(
    st.floats(0.5, 4.0),
    st.sampled_from([0.0, 0.004, 0.02, 0.1, 0.6]),
    st.lists(st.floats(-1, 1), max_size=12),
).map(lambda drawn: [drawn[0] * math.exp(drawn[1] * off) for off in drawn[2]])
LOST = st.lists(st.sampled_from(OUTCOMES[1:]), max_size=2)


@dataclass(frozen=True)
class Point:
    """One limit (None: unlimited): what its trials that finished took, how the others ended."""

    limit: int | None
    seconds: Sequence[float]
    lost: Sequence[Outcome]
    demand: int | None = None

    @property
    def finished(self) -> bool:
        return bool(self.seconds) and not self.lost


POINTS = st.builds(
    lambda free, limits, demand: [
        Point(None, free[0], free[1], demand),
        *(Point(size, *about) for size, about in sorted(limits.items(), reverse=True)),
    ],
    st.tuples(REPEATS, st.just([]) | LOST),
    st.dictionaries(
        st.integers(20, 400), st.tuples(REPEATS, st.just([]) | LOST), min_size=1, max_size=5
    ),
    st.none() | st.integers(50, 300).map(lambda size: size * MIB),
)


def sweep_of(points: Sequence[Point]) -> Sweep:
    made = []
    for point in points:
        ends = [("ok", s) for s in point.seconds] + [(how, 9.0) for how in point.lost]
        made += [
            record(
                point.limit,
                outcome=outcome,
                wall_s=seconds,
                demand_bytes=point.demand if outcome == "ok" else None,
                phases=rounds(seconds) if outcome == "ok" else [],
            )
            for outcome, seconds in ends
        ]
    return sweep(*made)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    ordered, count = sorted(values), len(values)
    few = 2 * stats.binom.cdf(range(count // 2), count, 0.5) <= 0.05
    out = max(few.sum() - 1, 0)
    return ordered[out], ordered[-1 - out]


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
