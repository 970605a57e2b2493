"""Curves, counted rounds, answers and intervals: unequal numbers, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from curve_making import curve
from made_records import MIB, NETWORK, record, repeats, sweep
from verb_making import calibration

from edgebench.boards.storage import parse_storage
from edgebench.records import PhaseSum, TrialRecord, WalkReport, WorkingSet
from edgebench.results.miss_curve import MissCurve, MissPoint
from edgebench.results.results import Results
from edgebench.results.spread import Ratio, Spread
from edgebench.slowdown.answer import (
    Answer,
    AnswerDoubt,
    MeasuredLimit,
    WorkloadAnswers,
    measured_limits,
)
from edgebench.slowdown.counted import (
    CountedRound,
    StorageCosts,
    counted_models,
    counted_rounds,
    storage_costs,
)
from edgebench.slowdown.curves import Curve, curves, lost_limits, upward_seconds, upward_slowdown
from edgebench.slowdown.models.base import CurvePrediction
from edgebench.slowdown.models.intervals import interval_at, reach_of, with_interval
from edgebench.slowdown.slowdown_function import SlowdownFunction


def of_phases(*records: TrialRecord, **about: Any) -> dict[str, Curve]:
    """The curves of a sweep of these trials, by their phases."""
    return {one.phase: one for one in curves(Results([sweep(*records, **about)]))}


# Curves


def test_a_curve_has_the_medians_of_its_trials() -> None:
    """2.1 s of 2.0, 2.6 and 2.1; demand and noise of three trials, the last not the largest."""
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
    # Off by 0.7, 1.4 and 0 of 7; 0.1, 0.5 and 0 of 2.1: the median of six.
    assert total.noise == pytest.approx((0.1 / 2.1 + 0.1) / 2)
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
    """A limit of a walk."""
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
    results = Results([sweep(*own, upward_records=up)])
    upward = upward_seconds(results)
    assert upward is not None
    limits, slowdowns = upward_slowdown(total, upward)
    assert (limits.tolist(), slowdowns.tolist()) == ([100 * MIB], [2.0])


def test_limits_that_ended_trials_are_told_by_how_they_did() -> None:
    """As the kernel rounded them; else as they were asked for."""
    ends = ((60, "oom-killed"), (80, "oom-killed"), (70, "ok"), (50, "failed"))
    made = [record(at, 9.0, 2.0, outcome=end) for at, end in ends]
    trials = Results([sweep(record(None, 9.0, 2.0), *made)]).trials
    trials.loc[1, "limit_bytes"] = 59 * MIB
    assert lost_limits(trials) == {
        "oom-killed": (59.0 * MIB, 80.0 * MIB),
        "failed": (50.0 * MIB,),
    }


# Counted rounds on another storage


@pytest.mark.parametrize(
    ("storage", "kind", "expected"),
    [
        # 1 / 500e6 + 80e-6 / 32768; 1 / 700e6 + 80e-6 / 131072; 1 / 900e6.
        (None, "file", (4.44141e-9, 2.03892e-9, 1.11111e-9, True, False)),
        # And 1 / 400e6 to write, 0.8 · 0.5e-6 / 4096 to reclaim.
        (None, "zram", (7.03906e-9, 2.03892e-9, 1.11111e-9, False, False)),
        # Held to 450 MB/s: 2.22 ns a byte, but where it takes longer in any case.
        ("read=450MB/s", "file", (4.44141e-9, 2.22222e-9, 2.22222e-9, True, True)),
        ("read=5MB/s", "file", (2e-7, 2e-7, 2e-7, True, True)),
    ],
)
def test_what_a_byte_takes(storage: str | None, kind: str, expected: tuple[Any, ...]) -> None:
    """From swap, from a mapped file and from one that is read in order: three numbers."""
    known = replace(calibration(), swap_kind=kind)
    found = storage_costs(known.held_to(parse_storage(storage)) if storage else known)
    assert (found.swap_s, found.mapped_s, found.file_s) == pytest.approx(expected[:3], rel=1e-4)
    assert (found.waits, found.held) == expected[3:]
    assert found.fault_s == 80e-6
    assert found.again_s("mmap") == found.mapped_s
    assert found.again_s("copy") == found.swap_s


def timed(seconds: dict[int, float], phase: str = "total", **about: Any) -> Curve:
    """A phase of 4 s with these seconds at limits in MiB; a demand of 400 MiB."""
    free_s = about.pop("unlimited_s", 4.0)
    limits = sorted(seconds)
    settings = {"kind": "inference", "schedule": "bulk", "loader": "copy", "warm": 3}
    return Curve(
        "net",
        phase,
        {**settings, "pipeline": "net", "threads": 1, **about},
        np.array(limits, dtype=float) * MIB,
        np.array([seconds[at] for at in limits]),
        np.array([free_s]),
        400.0 * MIB,
        workload="w",
    )


def misses(reads: dict[int, int], faults: dict[int, int] | None = None) -> MissCurve:
    """Limits in MiB → MiB read again, and faults, on the way down."""
    workload: Any = None
    made = [
        MissPoint(at * MIB, "down", read * MIB, faults=(faults or {}).get(at), rounds=9)
        for at, read in reads.items()
    ]
    return MissCurve(workload, tuple(made), direction="down")


@pytest.mark.parametrize(
    ("loader", "computing_s", "least_s"),
    # Three executions of 0.4 s and the first of 1.5; without loading. Mapped, the first one reads.
    [("copy", 2.7, 3.3), ("mmap", 1.2, 2.9)],
)
def test_what_of_a_round_is_computed(loader: str, computing_s: float, least_s: float) -> None:
    """Of 4 s, 0.7 are loading."""
    seconds = {"total": 4.0, "load": 0.7, "first": 1.5, "execute": 0.4}
    every = [timed({100: 9.0}, phase, unlimited_s=s, loader=loader) for phase, s in seconds.items()]
    (found,) = counted_rounds(every, {"w": misses({100: 300})})
    assert (found.computing_s, found.least_s) == pytest.approx((computing_s, least_s))


def test_bytes_and_faults_lie_between_counted_limits_and_end_at_the_demand() -> None:
    """In proportion to the logarithm of the limit: half way at 141.4 and 282.8 MiB."""
    known = misses({200: 50, 100: 300}, {200: 10, 100: 40})
    one = CountedRound(timed({100: 9.0}), known, 1.0, 4.0)
    at = np.array([50, 100, 100 * 2**0.5, 200, 200 * 2**0.5, 400, 500]) * MIB
    assert one.again_bytes(at) / MIB == pytest.approx([300, 300, 175, 50, 25, 0, 0], abs=1e-6)
    assert one.again_faults(at) == pytest.approx([40, 40, 25, 10, 5, 0, 0], abs=1e-6)


def test_threads_wait_for_each_other_by_the_median_of_slowed_limits() -> None:
    """Added 6, 3 and 2.5 s where one thread would wait 2, 2 and 0.6: 3, 1.5 and 4.2 times."""
    here = StorageCosts(1 / (100 * MIB), 1, 1)
    slowed = timed({100: 8.0, 150: 5.0, 200: 4.5}, unlimited_s=2.0, threads=2)
    one = CountedRound(slowed, misses({100: 300, 150: 300, 200: 120}), 1.0, 2.0)
    assert one.factor(here) == pytest.approx(3.0)
    other = replace(slowed, settings={**slowed.settings, "pipeline": "free", "threads": 4})
    unseen = CountedRound(replace(other, seconds=other.seconds * 0 + 2.0), one.misses, 1.0, 2.0)
    made = counted_models([one, unseen], here, replace(here, swap_s=2 / (100 * MIB)))
    assert made[slowed.key].factor == pytest.approx(3.0)
    # Four threads are no two: nothing shows theirs.
    assert made[unseen.curve.key].factor == 1.0
    assert made[slowed.key].tightest_bytes == 100 * MIB
    # 300 MiB take 6 s, of which computing hides one: three times 5 s more.
    found = made[slowed.key].predict(slowed, np.array([100.0 * MIB]))
    assert found.slowdown[0] * found.unlimited_s == pytest.approx(2 + 15)


# Intervals


@pytest.mark.parametrize(("level", "reach"), [(0.4, 3.0), (0.5, 10.0), (0.9, 10.0), (0.1, 1.0)])
def test_a_reach_counts_networks_alike_and_one_more_unseen_score(
    level: float, reach: float
) -> None:
    """Weights of a third each and of one; half of 2 and of the mean 0.5 is 1.25, beyond the 3."""
    groups = [np.array([3.0, 1.0, 2.0]), np.array([10.0]), np.array([])]
    assert reach_of(groups, level) == reach
    assert reach_of([np.array([])]) is None


def test_an_interval_reaches_aside_and_up() -> None:
    """Twice as slow in the middle of 4 and 1, falling by 2 a logarithm; 0.4 is 0.1 aside."""
    function = SlowdownFunction(np.log([100.0, 200.0]), np.log([4.0, 1.0]))
    at = np.array([100 * 2**0.5])
    low, high = interval_at(function, at, 0.4)
    middle = math.log(2)
    assert (low[0], high[0]) == pytest.approx((math.exp(middle - 0.6), math.exp(middle + 0.6)))
    bounded = with_interval(3.0, function, at, 0.4, (np.array([1.5]), np.array([3.0])))
    assert bounded.interval is not None
    assert [float(end[0]) for end in bounded.interval] == pytest.approx([1.5, 3.0])
    beyond = with_interval(3.0, function, at, 0.4, (np.array([2.5]), np.array([1.8])))
    assert beyond.interval is not None
    assert [float(end[0]) for end in beyond.interval] == pytest.approx([2.0, 2.0])
    assert with_interval(3.0, function, at, None).interval is None


# Answers


def test_a_measured_limit_has_its_trials_ends_and_times() -> None:
    """Three of four that tell finished; of a rate the seconds of one unit."""
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
    assert (limited.finished, limited.ended, limited.share) == (3, 6, 0.5)
    assert (limited.lost, free.lost, free.limit_bytes) == ("oom-killed", "", math.inf)
    assert limited.times_s["throughput"] == Spread(1 / 16, 1 / 20, 1 / 15, 3)
    assert limited.ratios["throughput"].median == 2.5


class Square:
    """A model: as many times slower as the square of what lacks of 100 MiB, times a factor."""

    name = "square"

    def __init__(self, factor: float = 1.0) -> None:
        self._factor, self.fitted = factor, {"total": self}

    def check(self, limit_bytes: Any, name: str) -> None:
        """It holds everywhere."""

    def tells(self, curve: Curve) -> bool:
        """Every curve."""
        return True

    def predict(self, curve: Curve, limit_bytes: Any) -> CurvePrediction:
        """With a tenth more or less."""
        found = self._factor * (100 * MIB / limit_bytes) ** 2
        return CurvePrediction(curve.unlimited_s, found, (found * 0.9, found * 1.1))


def limit(size: float, finished: int, ended: int, slowdown: float = 0.0) -> MeasuredLimit:
    """A limit in MiB; a slowdown lies between a fifth less and a fifth more."""
    s = slowdown * 2.0
    return MeasuredLimit(
        label=f"{size:g}%",
        limit_bytes=size * MIB,
        finished=finished,
        ended=ended,
        lost="timeout" if finished < ended else "",
        times_s={"total": Spread(s, s * 0.8, s * 1.2, finished)} if s else {},
        ratios={"total": Ratio(slowdown, slowdown * 0.8, slowdown * 1.2)} if s else {},
    )


FREE = MeasuredLimit("max", math.inf, 3, 3)
FINE = (limit(50, 3, 3, 3.0), limit(80, 3, 3, 1.5), FREE)
TORN = (limit(40, 0, 3), limit(50, 2, 3, 3.0), limit(60, 3, 3, 1.2), limit(80, 2, 3, 1.1), FREE)


def answers(
    measured: tuple[MeasuredLimit, ...], factor: float = 1.0, edge: Any = None
) -> WorkloadAnswers:
    """A workload that needs 100 MiB and takes 2 s (2.0, 2.6 and 1.9) without a limit."""
    asked = replace(
        curve(limits=tuple(one.limit_bytes / MIB for one in measured[:-1])),
        demand_bytes=100.0 * MIB,
        unlimited_seconds=np.array([2.0, 2.6, 1.9]),
    )
    model: Any = Square(factor)
    return WorkloadAnswers((asked,), measured, 100.0 * MIB, edge, lambda: model, lambda _: True)


def total(found: Answer) -> tuple[float, ...]:
    """Seconds and slowdown of a round, both with their intervals, and what more memory saves."""
    time = found.phase("total")
    assert time is not None
    ends = (time.low_s, time.high_s, time.slowdown_low, time.slowdown_high, time.saved_s)
    return (time.seconds, time.slowdown, *(math.nan if one is None else one for one in ends))


@pytest.mark.parametrize(
    ("size", "factor", "kind", "expected"),
    [
        # From 3 to 1.5 times 2 s by 50 to 80 MiB: a tenth more is ln 1.1 / ln 1.6 of it.
        (50, 1.0, "measured", (6.0, 3.0, 4.8, 7.2, 2.4, 3.6, 3 * math.log(1.1) / math.log(1.6))),
        # And of the demand.
        (80, 1.0, "measured", (3.0, 1.5, 2.4, 3.6, 1.2, 1.8, math.log(1.1) / math.log(1.25))),
        # (100 / 60)² between 1.5 and 3, and (100 / 66)²; the interval is all that both leave.
        (60, 1.0, "between", (5.5556, 2.7778, 2.4, 7.2, 1.2, 3.6, 2 * (2.7778 - 2.2957))),
        # More than 3 at the tighter limit: no slower; with a tenth more memory 3 · (100 / 66)².
        (60, 3.0, "between", (6.0, 3.0, 2.4, 7.2, 1.2, 3.6, 0.0)),
        # Tighter than all that were tried: (100 / 40)² and (100 / 44)².
        (40, 1.0, "simulated", (12.5, 6.25, 11.25, 13.75, 5.625, 6.875, 2 * (6.25 - 5.1653))),
        # 2 there would be faster than at 50 MiB.
        (40, 0.32, "simulated", (6.0, 3.0, 3.6, 6.0, 1.8, 3.0, 0.0)),
    ],
)
def test_a_rounds_time_and_what_a_tenth_more_memory_saves(
    size: float, factor: float, kind: str, expected: tuple[float, ...]
) -> None:
    """Measured, between and beyond."""
    found = answers(FINE, factor).at(size * MIB)
    assert (found.kind, found.share) == (kind, size / 100)
    assert total(found) == pytest.approx(expected, rel=1e-3, abs=1e-9)
    assert (AnswerDoubt.CLIFF in found.doubts) == (kind == "between")


def test_no_more_is_saved_than_the_next_limit_saves() -> None:
    """It is nearer than a tenth: from 3 to 1.5 times 2 s."""
    near = (limit(50, 3, 3, 3.0), limit(52, 3, 3, 1.5), FREE)
    assert total(answers(near).at(50 * MIB))[-1] == pytest.approx(3.0)


def test_repeats_are_the_interval_where_no_ratio_is_known() -> None:
    """4.8 to 7.2 s over 2 s; one trial has none."""
    bare = replace(FINE[0], ratios={})
    found = answers((bare, *FINE[1:])).at(50 * MIB)
    assert total(found)[:6] == pytest.approx((6.0, 3.0, 4.8, 7.2, 2.4, 3.6))
    once = replace(bare, finished=1, ended=1, times_s={"total": Spread(6.0, 6.0, 6.0, 1)})
    found = answers((once, *FINE[1:])).at(50 * MIB)
    assert all(math.isnan(one) for one in total(found)[2:6])
    assert AnswerDoubt.ONE_TRIAL in found.doubts


@pytest.mark.parametrize(
    ("size", "edge", "probability", "outcome"),
    [
        # In proportion to the logarithm: ln(45 / 40) / ln(50 / 40) of two thirds.
        (45, None, 0.35190, "timeout"),
        (45, 0.1, 0.1, "timeout"),
        (45, 0.9, 2 / 3, "ok"),
        (50, 0.1, 2 / 3, "ok"),
        (30, 0.9, 0.0, "oom-killed"),
        # Above 80 MiB as much of what lacks to the demand: ln(90 / 80) / ln(100 / 80).
        (90, None, 2 / 3 + 0.52785 / 3, "ok"),
        (90, 0.2, 2 / 3, "ok"),
    ],
)
def test_how_many_finish_between_limits(
    size: float, edge: float | None, probability: float, outcome: str
) -> None:
    """By the edge, but within what was seen at both neighbours."""
    told: Any = None if edge is None else SimpleNamespace(probability=lambda _: edge)
    found = answers(TORN, edge=told).at(size * MIB)
    assert found.probability == pytest.approx(probability, abs=1e-4)
    assert found.outcome == outcome


def test_where_kills_vary_and_where_there_is_no_cliff() -> None:
    """Fewer finish at the wider neighbour; slowdowns that are near each other."""
    torn = answers(TORN)
    vary = {
        at: AnswerDoubt.KILLS_VARY in torn.at(at * MIB).doubts for at in (40, 45, 50, 60, 70, 80)
    }
    assert vary == {40: False, 45: False, 50: True, 60: False, 70: True, 80: True}
    assert AnswerDoubt.CLIFF not in torn.at(70 * MIB).doubts
    assert torn.at(50 * MIB, label="60%").limit_bytes == 60 * MIB


@pytest.mark.parametrize(
    ("edge", "share", "least"),
    [(58, 0.5, 58), (70, 0.5, 60), (45, 0.5, 60), (None, 0.5, 60), (45, 0.9, None), (90, 0.9, 90)],
)
def test_the_least_limit_is_above_all_that_failed_and_at_most_the_next(
    edge: float | None, share: float, least: float | None
) -> None:
    """By the edge between these."""
    ends = {40: 0, 50: 1, 60: 2, 80: 2}
    tried = (*(limit(at, finished, 3, finished and 1.2) for at, finished in ends.items()), FREE)
    told: Any = None if edge is None else SimpleNamespace(least_bytes=lambda _: edge * MIB)
    assert answers(tried, edge=told).least_bytes(share) == (least and least * MIB)


@pytest.mark.parametrize(("factor", "mib"), [(1.3, 60), (1.15, 80), (1.05, None), (9.0, 50)])
def test_from_which_limit_up_a_round_is_hardly_slower(factor: float, mib: float | None) -> None:
    """As far down as all trials finish and none is slower."""
    fine = (limit(40, 2, 3, 3.2), limit(50, 3, 3, 3.0), limit(60, 3, 3, 1.2), limit(80, 3, 3, 1.1))
    assert answers((*fine, FREE)).unslowed_bytes(factor) == (mib and mib * MIB)


def test_kills_are_for_memory_below_the_tightest_limit_that_finished() -> None:
    """60 and 95 MiB finish: a kill at 70 or 90 had another cause, as a timeout at 40 has."""
    from edgebench.slowdown.answer import killed_for_memory

    ends = {30: "oom-killed", 40: "timeout", 60: "", 70: "oom-killed", 90: "oom-killed", 95: ""}
    limits = [replace(limit(at, int(not lost), 1), lost=lost) for at, lost in ends.items()]
    assert [one.label for one in killed_for_memory(limits)] == ["30%"]
