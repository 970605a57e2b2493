"""What a sweep shows, as numbers: each case's values differ, and were worked out by hand."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
from made_records import MIB, NETWORK, counts, record, repeats, rounds, sweep
from made_sweep import Shape, make
from msgspec.structs import replace

from edgebench.records import (
    EndedIn,
    GrowthReport,
    KillReport,
    LimitSetting,
    OutsideReport,
    PhaseSum,
    TrialRecord,
    WalkReport,
    Watching,
    WorkingSet,
)
from edgebench.results.facts import (
    PointFacts,
    WalkedRows,
    WorkloadFacts,
    point_facts,
    steady_relative,
    sweep_facts,
)
from edgebench.results.folder import keep_asked_pace
from edgebench.results.limit_to_give import AskedPace, Unmeasured, is_limit_met, unmeasured
from edgebench.results.results import Results, once_for_results
from edgebench.results.sweep_reader import read_sweep, reads_statistics
from edgebench.results.times import (
    Ratio,
    Spread,
    median_interval_of,
    ratio_of,
    rounds_of,
    spread_of,
    trial_times,
)


def points(*records: TrialRecord, **about: Any) -> list[PointFacts]:
    return point_facts(sweep(*records, **about))


def workload(*records: TrialRecord, **about: Any) -> WorkloadFacts:
    (found,) = sweep_facts(sweep(*records, **about)).workloads
    return found


# Repeats and ratios


@pytest.mark.parametrize(
    ("values", "expected", "farthest", "interval"),
    [
        # Two: (8 / 2) ** 1.5 = 8 times around the middle.
        ([8.0, 2.0], (5.0, 2.0, 8.0, 2), 0.6, (0.625, 40.0)),
        ([2.0, 2.6, 2.1], (2.1, 2.0, 2.6, 3), 0.5 / 2.1, (2.0, 2.6)),
        ([10.0, None, 11.0, 6.0], (10.0, 6.0, 11.0, 3), 0.4, (6.0, 11.0)),
        # Twenty: (20 - 1.96 · √20) / 2 = 5.6, so four are left out at each end.
        ([float(n) for n in range(20, 0, -1)], (10.5, 1.0, 20.0, 20), 9.5 / 10.5, (5.0, 16.0)),
        ([3.0], (3.0, 3.0, 3.0, 1), 0.0, None),
    ],
)
def test_repeats_have_a_middle_extremes_and_an_interval(
    values: list[float | None], expected: Any, farthest: float, interval: Any
) -> None:
    found = spread_of(values)
    assert (found.median, found.low, found.high, found.count) == expected
    assert found.farthest == pytest.approx(farthest)
    assert median_interval_of(found) == (interval and pytest.approx(interval))


def test_a_ratio_is_as_wide_as_both_intervals() -> None:
    """7.0 (6.3 to 8.4) over 2.1 (2.0 to 2.6)."""
    limited, free = Spread(7.0, 6.3, 8.4, 3), Spread(2.1, 2.0, 2.6, 3)
    found = ratio_of(limited, free)
    assert (found.median, found.low, found.high) == pytest.approx((7 / 2.1, 6.3 / 2.6, 4.2))
    assert found.off == pytest.approx(0.5 / 2.1)
    assert (found.is_more, found.is_surely_more) == (True, True)
    assert not ratio_of(free, limited).is_more
    # Without repeats the median has to be well above 1.
    unsure = (Ratio(1.05), Ratio(1.2), Ratio(1.2, 0.9, 1.5), Ratio(1.05, 1.01, 1.15))
    assert [ratio.is_surely_more for ratio in unsure] == [False, True, False, True]


# Rounds and times


def test_phases_are_summed_over_networks_and_are_of_one_pass() -> None:
    seconds = (9.0, 5.0, 8.0, 6.0)
    own = [PhaseSum(n, "a", "execute", 4 * s, passes=4) for n, s in enumerate(seconds)]
    other = [PhaseSum(n, "b", "execute", 1.0) for n in range(4)]
    times = trial_times(record(phases=[*rounds(12.0, 7.0, 7.1, 6.9), *own, *other]))
    assert times == {"total": 7.0, "start": 12.0, "steady": 7.0, "execute": 7.0}


def test_what_rounds_read_tells_steady_ones_only_below_a_limit() -> None:
    read = {"round_counts": counts(9, 50, 200, 201)}
    limited, free = (record(limit, 9.0, 1.0, 2.0, 4.0, **read) for limit in (100, None))
    assert [*rounds_of(limited).stages.values()] == ["start", "settling", "steady", "steady"]
    assert [*rounds_of(free).stages.values()] == ["start", "steady", "steady", "steady"]
    # Two are too few to tell whether seconds repeat.
    assert (rounds_of(limited).repeat, rounds_of(free).repeat) == (None, False)


def test_a_walks_first_visit_has_a_start_and_later_ones_have_none() -> None:
    first, later = (record(None, 9.0, 1.0, walk=WalkReport("0001", step)) for step in (0, 1))
    assert trial_times(first) == {"total": 1.0, "start": 9.0, "steady": 1.0}
    assert trial_times(later) == {"total": 1.0, "steady": 1.0}


# Points


def test_a_points_numbers_are_of_its_own_trials() -> None:
    free = [
        record(
            None,
            9.0,
            steady_s,
            peak_bytes=peak * MIB,
            swap_peak_bytes=swap * MIB,
            base_bytes=base * MIB,
            demand_bytes=demand * MIB,
            undroppable_bytes=(demand - 100) * MIB,
            library_bytes=base // 2 * MIB,
            saturated=False,
            working_set=WorkingSet(base * MIB, 3 * MIB, 5 * MIB, 7 * MIB, 900 * MIB),
        )
        for steady_s, peak, swap, base, demand in (
            (2.0, 500, 1, 60, 410),
            (2.6, 520, 9, 64, 450),
            (2.1, 505, 4, 62, 400),
        )
    ]
    limits = LimitSetting("150M", 150 * MIB, "file", 512 * MIB)
    # The kernel rounded the limit; one of them touched it.
    limited = [
        record(149, 9.0, steady_s, limits=limits, saturated=touched, collections_s=collected)
        for steady_s, touched, collected in ((6.3, False, 0.0), (8.4, True, 0.5), (7.0, False, 0.2))
    ]
    wide, tight = points(*free, *limited)
    assert wide.times_s["steady"] == wide.times_s["total"] == spread_of([2.0, 2.6, 2.1])
    assert wide.times_s["start"].median == 9.0
    assert wide.peak_bytes == spread_of([500 * MIB, 520 * MIB, 505 * MIB])
    assert wide.swap_peak_bytes == spread_of([MIB, 9 * MIB, 4 * MIB])
    assert (wide.base_bytes, wide.library_bytes) == (62 * MIB, 31 * MIB)
    # Sums of what a round needs; what is only cached is none of it.
    assert wide.working_set_bytes == spread_of([75 * MIB, 79 * MIB, 77 * MIB])
    for point in (wide, tight):
        assert (point.demand_bytes, point.undroppable_bytes) == (410 * MIB, 310 * MIB)
    assert (wide.saturated, tight.saturated) == (False, True)
    assert tight.limit_bytes == 149 * MIB
    assert tight.collections_s == [0.5, 0.2]
    assert tight.slowdowns == pytest.approx({"total": 7 / 2.1, "steady": 7 / 2.1, "start": 1.0})
    assert tight.ratios["total"] == ratio_of(tight.times_s["total"], wide.times_s["total"])


def test_outcomes_are_counted_and_what_did_not_finish_has_no_time() -> None:
    free = record(None, 9.0, 2.0)
    doing, other = EndedIn("load", "lenet", "fc"), EndedIn("first", "lenet", "conv")
    kill = {"outcome": "oom-killed", "reason": "killed\nby the kernel"}
    left = [
        record(100, **kill, killed_with_swap_free=was_free, kill=report, ended_in=doing)
        for was_free, mib in ((True, 50), (False, 7), (True, 30))
        for report in [KillReport(swap_free_bytes=mib * MIB)]
    ]
    mixed = [
        record(200, 9.0, 4.0, throughput_per_s=3.0),
        record(200, 9.0, 5.0, throughput_per_s=99.0, **kill, ended_in=doing),
        record(200, outcome="timeout", ended_in=other),
    ]
    _, tight, wide = points(free, *left, *mixed)
    assert tight.outcomes == {"oom-killed": 3}
    assert wide.outcomes == {"ok": 1, "oom-killed": 1, "timeout": 1}
    assert (tight.made, tight.finished, wide.made, wide.finished) == (3, False, 3, False)
    assert tight.swap_free_bytes == spread_of([50 * MIB, 30 * MIB])
    assert (tight.ended_in, wide.ended_in) == (doing, None)
    assert tight.reasons == ["oom-killed: killed by the kernel"]
    assert wide.reasons == ["oom-killed: killed by the kernel", "timeout: no reason recorded"]
    assert wide.times_s["total"] == spread_of([4.0])
    assert wide.throughput_per_s == spread_of([3.0])


def test_a_throughput_is_the_slowdown_where_it_is_known() -> None:
    """Unlimited rate over rate: 40 of a second become 16."""
    free, limited = (
        [record(limit, phases=[], wall_s=5.0, throughput_per_s=rate) for rate in rates]
        for limit, rates in ((None, (40.0, 44.0, 36.0)), (100, (16.0, 15.0, 20.0)))
    )
    point = points(*free, *limited)[1]
    assert point.slowdown == point.slowdowns["throughput"] == 2.5
    assert (point.ratio and point.ratio.low, point.ratio and point.ratio.high) == (36 / 20, 44 / 15)
    assert point.slowdowns["total"] == 1.0


def test_a_limit_is_compared_with_its_own_swaps_unlimited_trials() -> None:
    """2 s with swap, 3 s without; zram was never tried without a limit: the first there is."""
    none, zram = LimitSetting(), LimitSetting("100M", 100 * MIB, "zram", 64 * MIB)
    made = points(
        record(None, 9.0, 3.0, limits=none, point="a"),
        record(None, 9.0, 2.0, point="b"),
        record(100, 9.0, 12.0, point="c"),
        record(100, 9.0, 12.0, limits=zram, point="d"),
    )
    assert [one.slowdown for one in made] == [1.0, 1.0, 6.0, 4.0]


def test_an_unlimited_trial_on_other_cores_is_no_comparison() -> None:
    one_core = LimitSetting("100M", 100 * MIB, "file", 512 * MIB, cores=1)
    made = points(record(None, 9.0, 2.0), record(100, 9.0, 5.0, limits=one_core))
    assert [one.slowdowns for one in made] == [{"total": 1.0, "start": 1.0, "steady": 1.0}, {}]


@pytest.mark.parametrize(
    ("settle", "told"), [((1, 1, 0), False), ((0, 1, 0), True), ((0, 1), True)]
)
def test_every_second_unsteady_trial_makes_a_point_unsteady(
    settle: tuple[int, ...], told: bool
) -> None:
    steady = [(9.0, 1.0, 1.0, 1.0), (9.0, 1.0, 2.0, 4.0)]
    (point,) = points(*(record(None, *steady[1 - one]) for one in settle))

    assert ("unsteady_rounds" in {doubt.kind for doubt in point.doubts}) is told


# Walks


def visit(
    walk: str, step: int, limit: float | None, *s: float, around: float | None, **values: Any
) -> TrialRecord:
    return record(limit, *s, walk=WalkReport(walk, step, list(s), around), **values)


def test_rounds_of_a_walk_are_paired_with_those_without_a_limit_around_them() -> None:
    """Two walks, the second on a machine twice as slow: 6 and 18 s over 2 and 4 s are 3 and 4.5."""
    made = sweep(
        visit("a", 0, None, 9.0, 2.0, 2.2, around=2.0),
        visit("a", 1, 100, 6.6, 5.9, 6.1, 6.0, around=None),
        visit("b", 0, None, 9.0, 4.0, 4.4, around=4.0),
        visit("b", 1, 100, 16.0, 18.4, 17.6, 18.0, around=4.0),
        visit("b", 2, 80, 8.0, 40.0, 24.0, 26.0, 40.0, around=5.0),
        record(90, 9.0, 5.0, 5.2, 5.4),
        record(90, 9.0, 7.0, 7.2, 7.1),
        visit("b", 3, 100, 70.0, 90.0, around=5.0, outcome="oom-killed"),
    )
    walked = WalkedRows(made.columns)
    assert walked.unlimited_s == {0: 2.0, 1: 2.0, 2: 4.0, 3: 4.0, 4: 5.0, 7: 5.0}
    # A visit's median is its repeat; the first round of a later one is none of them.
    assert steady_relative(made, [1, 3, 7], walked) == spread_of([3.0, 4.5])
    # Of one walk its rounds are: 40, 24, 26 and 40 s over 5 s.
    assert steady_relative(made, [4], walked) == spread_of([8.0, 4.8, 5.2, 8.0])
    free, tight, _, fresh = point_facts(made)
    # Trials of no walk are repeats themselves.
    assert fresh.times_s["total"] == spread_of([5.2, 7.1])
    relative = spread_of([1.0, 1.1, 1.0, 1.1])
    assert free.steady_relative == relative
    assert tight.slowdown == pytest.approx(3.75 / 1.05)


# Workloads


def test_which_limits_finish_are_given_and_are_not_enough() -> None:
    """2 s at no limit; a bit slower at 300 and 250 MiB, then 4.4 and 11 s; killed from 150 down."""
    seconds = {None: 2.0, 300: 2.1, 250: 2.16, 200: 4.4, 180: 11.0}
    spread = (1.001, 0.999, 1.0)
    made = [one for at, s in seconds.items() for one in repeats(at, [s * by for by in spread])]
    made += [record(at, outcome="oom-killed") for at in (180, 150, 150, 120)]
    found = workload(*made, record(100, outcome="timeout"))
    names = ["max", "300M", "250M", "200M", "180M", "150M", "120M", "100M"]
    assert [point.point for point in found.points] == names
    assert [point.point for point in found.slowed] == names[1:5]
    assert found.bracket().good.limit_bytes == 250 * MIB


@pytest.mark.parametrize(
    ("asked", "give"),
    [
        (AskedPace(), 250),
        (AskedPace(slowdown=3.0), 200),
        # 40 a second without a limit, so at most 2.5 times as slow.
        (AskedPace(throughput=16.0), 200),
        (AskedPace(slowdown=-1.0), 250),
    ],
)
def test_a_search_keeps_how_slow_the_limit_to_give_may_be(
    asked: AskedPace, give: int, tmp_path: Path
) -> None:
    """So that ``show`` marks the limit that ``minimum --slowdown`` gave."""
    path = make(tmp_path, Shape())
    keep_asked_pace(path, asked)
    rates = {None: 40.0, 250: 38.0, 200: 18.0, 150: 10.0}
    rate = [record(at, 9.0, 40 / r, throughput_per_s=r) for at, r in rates.items()]
    found = workload(*rate, resolved=read_sweep(path).resolved)
    assert found.bracket().good.limit_bytes == give * MIB


def test_what_rounds_read_again_stands_at_limits_where_visits_agree() -> None:
    """At 240 MiB the process was in two states."""
    reads = {300: (0,), 240: (0, 200), 200: (190,), 150: (200,), 100: (210,)}
    made = [record(None, 9.0, 2.0, 2.0, round_counts=counts(5, 0, 0))]
    made += [
        record(at, 9.0, 2.0, 2.0, direction="down", round_counts=counts(9, read, read))
        for at, each in reads.items()
        for read in each
    ]
    found = workload(*made)
    read = [p.read_again_bytes and p.read_again_bytes // MIB for p in found.points]
    assert read == [None, 0, None, 190, 200, 210]
    assert found.miss_curve.knee_between == (200 * MIB, 300 * MIB)


# What trials of a program leave open, and how they were watched


def test_what_programs_leave_open_is_the_most_of_all_trials() -> None:
    slow, fast = GrowthReport(True, 5.0, 900, None, 9.0), GrowthReport(True, 8.0, 500, None, 9.0)
    level = GrowthReport(False, 0.0, 9, 7.0)
    idle = {"wall_s": 40.0, "cpu_s": 1.5, "demand_bytes": 4 * MIB}
    reports = ((1, ["a"], 7 * MIB), (4, ["b"], 2 * MIB), (2, ["c"], 3 * MIB))
    made = [record(outside=OutsideReport(*report), **idle) for report in reports]
    found = unmeasured(made)
    assert (found.processes, found.names, found.left_bytes) == (4, ("b",), 7 * MIB)
    assert found.is_idle
    assert not unmeasured([replace(made[0], cpu_s=2.5)]).is_idle
    for other in ({"wall_s": 1.9}, {"demand_bytes": 6 * MIB}, {"demand_bytes": None}):
        assert not unmeasured([*made, replace(made[0], **other)]).is_idle  # type: ignore[arg-type]
    little = OutsideReport(left_bytes=4096)
    assert unmeasured([record(outside=little), record()]) == Unmeasured()
    growing = [replace(made[0], growth=one) for one in (slow, fast, level)]
    assert unmeasured(growing).growth == fast
    assert unmeasured(growing[2:]).growth is None


def test_only_limited_trials_tell_whether_kills_may_have_been_prevented() -> None:
    quiet, reading = (Watching(0.001, None, 1.0, [], flushes, True) for flushes in (False, True))
    limited = record(100, watched=quiet)
    assert not reads_statistics(sweep(record(watched=reading), limited))
    assert reads_statistics(sweep(limited, record(90, watched=reading)))


# Frames


def test_frames_have_each_workloads_own_demand_and_page_cache() -> None:
    """The median of its unlimited trials; the cache as it was found, else as it was asked for."""
    pytest.importorskip("pandas")
    other = {**NETWORK, "networks": ["alexnet"], "page_cache": "warm"}
    made = sweep(
        *(record(demand_bytes=size * MIB) for size in (41, 45, 40)),
        record(100, page_cache="cold"),
        record(100, settings=other),
        record(demand_bytes=7 * MIB, settings=other, page_cache="cold"),
    )
    trials = Results([made, changed(made, path=made.path.with_name("again"))]).trials.iloc[:6]
    assert list(trials["workload_demand_bytes"] / MIB) == [41, 41, 41, 41, 7, 7]
    assert list(trials["page_cache"].fillna("")) == ["", "", "", "cold", "warm", "cold"]


def test_networks_sum_their_own_layers_and_curves_their_own_points() -> None:
    pytest.importorskip("pandas")
    rows = {"a": [{"order": 0, "flops": 300}, {"order": 1, "flops": 40}]}
    rows["b"] = [{"order": 0, "flops": 7}]
    sizes = {"a": 9, "b": 5}
    tables = {name: {"file_bytes": sizes[name], "table": table} for name, table in rows.items()}
    reads = {300: 0, 250: 40, 200: 190, 150: 200, 100: 200}
    made = [
        record(at, 9.0, 2.0, 2.0, round_counts=counts(9, r, r, out_bytes=3, major_faults=4))
        for at, r in reads.items()
    ]
    results = Results([sweep(*made, networks={"networks": tables})])
    networks = results.networks[["network", "layers", "flops", "file_bytes"]]
    assert networks.to_numpy().tolist() == [["a", 2, 340, 9], ["b", 1, 7, 5]]
    row = results.misses.set_index("limit_bytes").loc[250 * MIB]
    names = ("round_bytes", "plateau_bytes", "knee_low_bytes", "knee_high_bytes")
    assert [row[name] / MIB for name in names] == [40, 200, 200, 250]
    assert (row["out_bytes"], row["faults"], row["rounds"], row["visits"]) == (3, 4, 2, 1)


def test_the_same_results_are_worked_out_once_and_forgotten_with_them():
    calls: list[int] = []

    @once_for_results
    def count(results: Results) -> int:
        calls.append(len(calls))
        return len(calls)

    first, second = Results([]), Results([])
    assert [count(one) for one in (first, first, second, first)] == [1, 1, 2, 1]
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("hits", "high", "met"),
    # A throttled trial met its limit though no hit is counted.
    [((0, 0), None, False), ((0, 7), None, True), ((0, None), None, True), ((0, 0), "61M", True)],
)
def test_a_limit_is_met_unless_all_trials_show_that_it_was_not(
    hits: tuple[int, ...], high: str | None, met: bool
):
    assert is_limit_met(LimitSetting("83M", 83 << 20, memory_high=high), 2, hits) is met


@pytest.mark.parametrize(("hits", "peak", "slowdown"), [(0, 72, 1.0), (3, 72, 1.5), (0, 70, 1.5)])
def test_busy_neighbours_are_a_doubt_and_no_slowdown(hits: int, peak: int, slowdown: float):
    """Half as long again at a limit never met is 1.00; what the clock said is a doubt.

    Unless the program took less than 0.9 of its 79 MiB: its heap was sized from the limit.
    """
    limited = repeats(83, (3.0, 3.0, 3.0), limit_hits=hits, peak_bytes=peak << 20)
    point = points(*repeats(None, (2.0, 2.0, 2.0), peak_bytes=79 << 20), *limited)[1]
    assert point.slowdown == slowdown
    kinds = {doubt.kind for doubt in point.doubts}
    assert ("limit_not_met" in kinds) is (slowdown == 1)
    assert point.is_slower is (slowdown > 1)
