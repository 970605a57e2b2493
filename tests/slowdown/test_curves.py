"""Curves and measured limits from records: unequal numbers, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from made_records import MIB, NETWORK, record, repeats, sweep

from edgebench.records import PhaseSum, TrialRecord, WalkReport, WorkingSet
from edgebench.results.results import Results
from edgebench.results.times import Spread
from edgebench.slowdown.answer import measured_limits
from edgebench.slowdown.curves import Curve, curves, lost_limits


def of_phases(*records: TrialRecord, **about: Any) -> dict[str, Curve]:
    return {one.phase: one for one in curves(Results([sweep(*records, **about)]))}


def test_a_curve_has_the_medians_of_its_trials() -> None:
    """2.1 s of 2.0, 2.6 and 2.1; the demand of three trials, the last not the largest."""
    free = [
        record(None, 9.0, s, demand_bytes=size * MIB)
        for s, size in ((2.0, 400), (2.6, 450), (2.1, 410))
    ]
    killed = [record(at, outcome=end) for at, end in ((60, "oom-killed"), (50, "timeout"))]
    again = record(60, outcome="oom-killed")
    made = of_phases(*free, *repeats(100, (6.3, 8.4, 7.0)), *repeats(80, (10.5,)), *killed, again)
    total = made["total"]
    assert total.unlimited_s == 2.1
    assert (total.limits / MIB).tolist() == [80, 100]
    assert total.medians == pytest.approx([5.0, 7 / 2.1])
    assert total.demand_bytes == 410 * MIB
    assert total.lost_bytes == {"oom-killed": (60.0 * MIB,), "timeout": (50.0 * MIB,)}
    assert made["start"].medians == pytest.approx([1.0, 1.0])


def test_a_phase_is_one_pass_and_a_rate_the_seconds_of_one_unit() -> None:
    """Four executions of 8 s together; 40 lines a second without a limit, 16 with one."""
    executed = {
        at: [PhaseSum(0, None, "round", 20.0), PhaseSum(0, "lenet", "execute", s, passes=4)]
        for at, s in ((None, 8.0), (100, 20.0))
    }
    made = of_phases(*(record(at, phases=own) for at, own in executed.items()))
    assert made["execute"].unlimited_s == 2.0
    assert made["execute"].medians == pytest.approx([2.5])
    command = {"kind": "command", "command": ["llm"], "throughput": True}
    rates = {None: 40.0, 100: 16.0}
    told = [
        record(at, phases=[], wall_s=5.0, settings=command, throughput_per_s=rate)
        for at, rate in rates.items()
    ]
    made = of_phases(*told)
    assert made["throughput"].unlimited_s == 1 / 40
    assert made["throughput"].medians == pytest.approx([2.5])
    assert made["total"].medians == pytest.approx([1.0])


def visit(step: int, at: float | None, *s: float, around: float, **values: Any) -> TrialRecord:
    walk = WalkReport("a", step, list(s), around)
    direction = None if at is None else values.pop("direction", "down")
    return record(at, *s, walk=walk, direction=direction, **values)


def test_a_walks_curve_has_the_pairs_of_its_rounds() -> None:
    """6 s beside 2 s, later 18 s beside 4 s: 3.75 times; the start is what it was."""
    watched = WorkingSet(60 * MIB, 20 * MIB, 15 * MIB, 5 * MIB, 900 * MIB)
    own = [
        visit(0, None, 8.0, 2.0, 2.0, around=2.0, working_set=watched),
        visit(1, 100, 7.0, 6.0, 6.0, around=2.0),
        visit(0, None, 8.0, 4.0, 4.0, around=4.0),
        visit(1, 100, 17.0, 18.0, 18.0, around=4.0),
        record(100, 24.0, 6.0),
    ]
    up = [visit(2, 100, 16.0, 10.0, 10.0, around=5.0, direction="up", trial="0099")]
    made = of_phases(*own, upward_records=up)
    total = made["total"]
    # Fresh trials have no round without a limit beside them.
    assert total.walked
    assert total.working_set_bytes == 100 * MIB
    assert total.unlimited_s == 3.0
    assert total.medians == pytest.approx([3.75])
    assert made["start"].seconds.tolist() == [24.0]


def test_limits_that_ended_trials_are_told_by_how_they_did() -> None:
    ends = ((60, "oom-killed"), (80, "oom-killed"), (70, "ok"), (50, "failed"))
    made = [record(at, 9.0, 2.0, outcome=end) for at, end in ends]
    trials = Results([sweep(record(None, 9.0, 2.0), *made)]).trials
    trials.loc[1, "limit_bytes"] = 59 * MIB
    assert lost_limits(trials) == {
        "oom-killed": (59.0 * MIB, 80.0 * MIB),
        "failed": (50.0 * MIB,),
    }


def test_a_measured_limit_has_its_trials_ends_and_times() -> None:
    reads = {**NETWORK, "kind": "command", "command": ["llm"], "throughput": True}
    rates = {None: (40.0, 44.0, 36.0), 100: (16.0, 15.0, 20.0)}
    made = [
        record(at, phases=[], wall_s=5.0, settings=reads, throughput_per_s=rate)
        for at, every in rates.items()
        for rate in every
    ]
    ends = ("oom-killed", "oom-killed", "timeout", "harness-error")
    made += [record(100, settings=reads, outcome=end) for end in ends]
    made += [record(50, settings=reads, outcome="harness-error")]
    (found,) = measured_limits(Results([sweep(*made)])).values()
    limited, free = found
    assert (limited.finished, limited.ended) == (3, 6)
    assert (limited.lost, free.lost, free.limit_bytes) == ("oom-killed", "", math.inf)
    assert limited.times_s["throughput"] == Spread(1 / 16, 1 / 20, 1 / 15, 3)
    assert limited.ratios["throughput"].median == 2.5
