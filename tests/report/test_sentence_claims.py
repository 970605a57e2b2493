"""No generated sentence says more than the trials beside it: over made-up sweeps, with hypothesis.

What a sentence may claim is worked out here from the raw times, by other means than the product's.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from claim_making import (
    CLEARLY,
    MIB,
    OUTCOMES,
    POINTS,
    REPEATS,
    SLIGHT,
    Point,
    interval,
    named,
    quick,
    ratio,
    sweep_of,
    trials_of,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from edgebench.analysis.compare import compare_sweeps
from edgebench.analysis.layer_costs.passes import pass_cost
from edgebench.analysis.layer_costs.table import LayerCostTable, PassTimes
from edgebench.measures.machine.noise import spread_doubts
from edgebench.report.tables import summary_table
from edgebench.results.facts import sweep_facts
from edgebench.results.spread import spread_of
from edgebench.run.search import TriedLimit, viable_bracket
from edgebench.units import format_duration, format_size
from edgebench.words.doubts import doubt_sentence
from edgebench.words.fits import viability_sentences
from edgebench.words.layers import cause_sentence
from edgebench.words.more_memory import more_memory_sentences
from edgebench.words.searches import bracket_words, limit_end_words
from edgebench.words.slowdown import slowdown_sentences

SAME = re.compile(
    r"no more than 10 %|at most 10 % slower|hardly|as far as|can't be told from|no time|"
    r"no less time|these trials can"
)
UNSURE = re.compile(r"an.t tell|doesn.t tell|no clear change|by its repeats")
DOWN_TO = re.compile(r"(?:tried, down to|every trial finished is|tried:) ([\d.]+ MiB)")


def check_claims(said: str, points: Sequence[Point]) -> None:
    """A sentence on times against the raw times of the limits it names."""
    free, limited = points[0], [p for p in points[1:] if p.seconds]
    about = named(said, points)
    if UNSURE.search(said):
        return
    if SAME.search(said):
        if "step up" in said:
            pairs = [(about[0], about[1])]
        elif about:
            pairs = [(p, free) for p in limited if p.limit >= about[0].limit]  # type: ignore[operator]
            pairs = [(about[0], free)] if said.startswith("At ") else pairs
        else:
            pairs = [(p, free) for p in limited]
        for one, other in pairs:
            found = ratio(one, other)
            assert found, f"sameness told from one trial: {said}"
            assert found[0] <= SLIGHT + 1e-9, f"{said} / {found}"
            assert found[2] < CLEARLY, f"{said} / {found}"
    elif " more save " in said:
        found = ratio(about[0], about[1])
        assert found, f"a difference told from one trial: {said}"
        assert found[1] > 1, f"{said} / {found}"
    elif "saves no time" in said:
        found = ratio(about[0], about[1])
        assert found, said
        assert found[2] < 1, f"{said} / {found}"
    elif "faster" in said or "times as long" in said or " less than at " in said:
        found = ratio(about[0], free)
        assert found, f"a difference told from one trial: {said}"
        assert found[2] < 1 if "faster" in said else found[1] > 1, f"{said} / {found}"


def check_numbers(said: str, points: Sequence[Point]) -> None:
    """Seconds, factors and counts of a sentence are those of the limit it names first."""
    at = re.match(r"(Unlimited|At [\d.]+ MiB)\b", said)
    if not at:
        return
    point = points[0] if said.startswith("Unlimited") else named(said, points)[0]
    if takes := re.search(r"takes (.+?) \((\d+|one) trials?", said):
        assert takes[1] == format_duration(statistics.median(point.seconds)), said
        assert int(takes[2].replace("one", "1")) == len(point.seconds), said
    factor = re.search(r"(?:: |\()([\d.e+-]+) times as long", said)
    if factor and point is not points[0]:
        median = statistics.median(point.seconds) / statistics.median(points[0].seconds)
        assert math.isclose(float(factor[1].rstrip(".")), median, rel_tol=6e-3), said


@pytest.mark.promise(
    "No sentence of a report claims slower, faster, no slower or time saved beyond what the "
    "repeats support, or contradicts a median."
)
@given(POINTS, st.sampled_from([1, 2]))
@quick
def test_times_are_told_as_far_as_repeats_carry(points: list[Point], rounds: int):
    """Slower, faster, no slower and what more memory saves: none beyond the raw repeats."""
    for workload in sweep_facts(sweep_of(points, rounds=rounds)).workloads:
        for said in (*slowdown_sentences(workload), *more_memory_sentences(workload)):
            check_claims(said, points)
            check_numbers(said, points)


@pytest.mark.promise(
    'No limit reported as viable, or as a lower bound ("down to"), has a trial that did not '
    "finish there or above."
)
@given(POINTS, st.sampled_from(["none", "file"]))
@quick
def test_what_fits_was_never_killed(points: list[Point], swap: str):
    """No limit told as viable has a kill at it, or at a wider one that isn't named beside it."""
    tried = [p for p in points[1:] if trials_of(p)]
    for workload in sweep_facts(sweep_of(points, swap)).workloads:
        said = " ".join(viability_sentences(workload))
        for wide in DOWN_TO.findall(said):
            (least,) = named(wide, points)
            assert least.finished, said
            assert all(p.finished for p in tried if p.limit > least.limit) or "no trial" in said  # type: ignore[operator]
        if "might finish there" in said:
            assert any("oom-killed" in p.lost for p in tried if not p.seconds), said
        if "It finished at all" in said:
            assert all(p.finished for p in tried)
        if (need := re.search(r"It needs ([\d.]+ MiB)", said)) and points[0].seconds:
            assert need[1] == format_size(points[0].demand)
        bought = " ".join(more_memory_sentences(workload))
        if begins := re.search(r"From ([\d.]+ MiB) to ([\d.]+ MiB).*start to finish", bought):
            below, above = named(begins[0], points)[:2]
            assert above.finished
            assert set(below.lost) - {"interrupted"}, bought
            assert not any(p.seconds for p in tried if p.limit <= below.limit), bought  # type: ignore[operator]


@pytest.mark.promise(
    'No limit reported as viable, or as a lower bound ("down to"), has a trial that did not '
    "finish there or above."
)
@given(POINTS)
@quick
def test_the_summary_s_columns_hold_at_every_wider_limit(points: list[Point]):
    """Down to where it finishes, and is no slower: true of all limits from there up."""
    rows = summary_table(sweep_facts(sweep_of(points)).workloads, {}).rows
    columns = [(row, *column) for row in rows for column in ((2, False), (4, True))]
    for row, column, is_time in columns:
        for least in named(row[column], points):
            for point in (p for p in points[1:] if trials_of(p) and p.limit >= least.limit):  # type: ignore[operator]
                assert point.finished, row
                told = ratio(point, points[0])
                assert not is_time or (told and told[0] <= SLIGHT and told[2] < CLEARLY), row


@pytest.mark.promise(
    "No sentence of a report claims slower, faster, no slower or time saved beyond what the "
    "repeats support, or contradicts a median."
)
@given(REPEATS, REPEATS)
@quick
def test_a_pass_of_layers_is_told_as_far_as_repeats_carry(free: list[float], slow: list[float]):
    """What `layers` says of a limit: a cost, or faster, or that it can't tell."""
    if not free or not slow:
        return
    unlimited, at = (PassTimes(*about) for about in (layer_pass(None, free), layer_pass(100, slow)))
    cost = pass_cost(at, unlimited)
    table = LayerCostTable("s", "w", "n", {}, unlimited, [], [cost], [], None, None, [])
    said = cause_sentence(table, cost)
    check_pass(said, [Point(None, free, []), Point(100, slow, [])])


def layer_pass(limit: int | None, seconds: Sequence[float]) -> tuple[Any, ...]:
    """Label, bytes, clock, layers' seconds, glue and overlap of a pass."""
    middle = statistics.median(seconds)
    size = None if limit is None else float(limit * MIB)
    return f"{limit}M", size, spread_of(seconds), middle, middle / 10, 1.0


def check_pass(said: str, points: Sequence[Point]) -> None:
    """One verdict against the raw passes."""
    found = ratio(points[1], points[0])
    if factor := re.search(r"\(([\d.e+-]+) times as long\)", said):
        medians = [statistics.median(p.seconds) for p in points]
        assert math.isclose(float(factor[1]), medians[1] / medians[0], rel_tol=6e-3), said
    if UNSURE.search(said):
        return
    assert found, f"told from one trial: {said}"
    if SAME.search(said):
        assert found[0] <= SLIGHT, f"{said} / {found}"
        assert found[2] < CLEARLY, f"{said} / {found}"
        return
    assert found[2] < 1 if "faster" in said else found[1] > 1, f"{said} / {found}"


@pytest.mark.promise(
    "`compare` reports slower, faster or same only where the 95 % interval supports it."
)
@given(st.lists(st.tuples(REPEATS, REPEATS), min_size=1, max_size=4))
@quick
def test_verdicts_of_two_sweeps_hold_their_intervals(pairs: list[tuple[list[float], list[float]]]):
    """`compare` says slower, faster or same only where median and interval both do."""
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


@pytest.mark.promise(
    "Where a report advises more repeats, more repeats help; where it calls the repeats "
    "enough, they are enough."
)
@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=14))
@quick
def test_enough_repeats_are_enough(values: list[float]):
    """`show` calls repeats enough for a mean within 10 % only where Student's interval is."""
    for said in map(doubt_sentence, spread_doubts(values)):
        if "enough of them" in said or "so many give" in said:
            error = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
            assert error <= 0.105 * statistics.fmean(values), said
        assert "won't help" not in said


@pytest.mark.promise(
    'No limit reported as viable, or as a lower bound ("down to"), has a trial that did not '
    "finish there or above."
)
def test_the_least_limit_was_not_killed_above():
    """`minimum` names a limit at which, and above which, every trial finished, and how many did.

    Each way in which three limits can end, in each order of trying them.
    """
    sizes = [float(size * MIB) for size in (100, 140, 200)]
    for outcomes in itertools.product(OUTCOMES, repeat=3):
        for trials in (1, 3):
            tried = [
                TriedLimit(size, outcome, None, trials)
                for size, outcome in zip(sizes, outcomes, strict=True)
            ]
            for order in (tried, tried[::-1], [tried[1], tried[2], tried[0]]):
                check_least_limit(order)


def check_least_limit(tried: Sequence[TriedLimit]) -> None:
    """The limit that is named against all that were tried."""
    said = bracket_words(viable_bracket(tried), limit_end_words)
    finished = [one for one in tried if one.outcome == "ok"]
    if "finished" not in said:
        widest = max(tried, key=lambda one: one.limit_bytes)
        assert widest not in finished, said
        return
    (least,) = [one for one in tried if said.startswith(format_size(one.limit_bytes))]
    assert all(one in finished for one in tried if one.limit_bytes >= least.limit_bytes)
    times = "once" if least.trials == 1 else f"{least.trials} trials"
    assert f"(finished, {times})" in said


@pytest.mark.promise(
    "Where a report advises more repeats, more repeats help; where it calls the repeats "
    "enough, they are enough."
)
@given(st.lists(st.floats(0.5, 2.0), min_size=9, max_size=60))
@quick
def test_more_repeats_tell_more(values: list[float]):
    """Repeating more often helps: a median of many repeats leaves less than their extremes."""
    spread: Any = spread_of(values)
    exact = interval(values)
    assert exact
    assert spread.sure_low <= exact[0] <= exact[1] <= spread.sure_high
    # A hundredfold of them is told more closely.
    many: Any = spread_of([*values] * 100)
    assert many.sure_high - many.sure_low <= spread.sure_high - spread.sure_low
    assert all(a <= b for a, b in pairwise([spread.low, spread.sure_low, spread.median]))
