"""The table of limits as values: what is needed, what to give, each row, and what is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgebench.answers.limits import (
    answer_headline,
    limits_table,
    needs_words,
    overview_table,
    paste_lines,
    workload_answer,
)
from edgebench.answers.table import size_cells, slowdown, time_cells
from edgebench.need import Need, least_to_give
from edgebench.records import EndedIn, LimitSetting
from edgebench.results.facts import PointFacts, WorkloadFacts, workload_facts
from edgebench.results.limit_to_give import AskedPace
from edgebench.results.times import Ratio, Spread, ratio_of, spread_of
from edgebench.results.workload_key import short_names

MIB = 1 << 20
NETWORK = {"kind": "inference", "networks": ["alexnet"], "schedule": "bulk", "batch": 1}
KILLED = {"oom-killed": 3}


def point(
    label: str,
    seconds: tuple[float, ...] = (),
    *,
    outcomes: dict[str, int] | None = None,
    swap: str = "file",
    settings: dict[str, Any] | None = None,
) -> PointFacts:
    """A point whose trials took these seconds, the middle one its median."""
    free = label == "max"
    size = None if free else int(label.rstrip("M")) * MIB
    total = spread_of(seconds)
    return PointFacts(
        point=f"p-{label}",
        workload="alexnet · bulk · batch 1",
        settings=settings or NETWORK,
        limits=LimitSetting(label, size, swap, 64 * MIB if swap == "file" else None),
        planned=3,
        outcomes=outcomes or {"ok": len(seconds)},
        times_s={"total": total} if total else {},
        limit_bytes=size,
        demand_bytes=200.0 * MIB if free and seconds else None,
    )


FREE = point("max", (1.9, 2.0, 2.1))
STEADY = point("max", (1.98, 2.0, 2.02))


def made(*points: PointFacts) -> WorkloadFacts:
    """The workload of these points, each compared with the one without a limit."""
    free = next((p.times_s for p in points if p.is_unlimited), {})
    ratios = [
        {name: ratio_of(times, free[name]) for name, times in p.times_s.items() if name in free}
        for p in points
    ]
    (workload,) = workload_facts(
        replace(p, ratios=own) for p, own in zip(points, ratios, strict=True)
    )
    return workload


def rounds(label: str, start_s: float, steady_s: float) -> PointFacts:
    spreads = {"total": steady_s, "start": start_s, "steady": steady_s}
    times = {name: Spread(s, s, s, 3) for name, s in spreads.items()}
    return replace(point(label, (steady_s,) * 3), times_s=times)


def needing(mib: tuple[float, ...], one: PointFacts = STEADY, elsewhere: float = 0) -> PointFacts:
    needs = [Need(size * MIB, elsewhere_bytes=elsewhere * MIB) for size in mib]
    sizes = spread_of(need.total_bytes for need in needs)
    return replace(one, need_bytes=sizes, least_to_give_bytes=least_to_give(needs))


def test_a_workload_is_a_headline_and_rows():
    killed = replace(
        point("70M", outcomes=KILLED), ended_in=EndedIn("execute", "alexnet", "features.8")
    )
    found = workload_answer(
        made(
            needing((198, 204)),
            point("90M", (31.0, 31.0, 31.0)),
            killed,
            point("150M", (2.1, 2.1, 2.12)),
        ),
        "alexnet",
    )
    assert answer_headline(found, "9 trials, 36 s") == (
        "alexnet   needs 204 MiB   give 150 MiB + 64 MiB swap   16x below 90 MiB   9 trials, 36 s"
    )
    table = limits_table(found)
    assert table.columns == ("limit", "ok", "time", "slower", "")
    assert table.rows == [
        ["none", "3/3", "2.00 s", "1.00x", ""],
        ["150 MiB", "3/3", "2.10 s", "1.05x", "<- give"],
        [" 90 MiB", "3/3", "31.0 s", "15.5x", ""],
        [" 70 MiB", "0/3", "", "", "killed in features.8"],
    ]


def test_rounds_have_a_start():
    found = workload_answer(made(rounds("max", 0.3, 0.15), rounds("120M", 0.9, 0.16)))
    table = limits_table(found)
    assert table.columns == ("limit", "ok", "start", "round", "slower", "")
    assert table.rows[1] == ["120 MiB", "3/3", "0.90 s", "0.16 s", "1.07x", "<- give"]


@pytest.mark.parametrize(("most", "give"), [(1.1, 150), (1.5, 120), (1.02, None)])
def test_give_is_the_least_limit_that_was_tried_and_fast_enough(most: float, give: int | None):
    torn = point("100M", (2.0, 2.0), outcomes={"ok": 2, "oom-killed": 1})
    points = (STEADY, point("150M", (2.1,) * 3), point("120M", (2.8,) * 3), torn)
    found = workload_answer(replace(made(*points), asked=AskedPace(most)))
    assert found.give_bytes == (give and give * MIB)
    assert [row.give for row in found.rows].count(True) == (give is not None)


@pytest.mark.parametrize(
    ("needs", "elsewhere", "give"),
    [
        ((208, 120, 121), 0, 210),
        ((208, 190, 121), 0, 120),
        ((120, 208, 209), 0, 120),
        ((203, 204, 205), 30, 210),
        ((203, 204, 205), 5, 120),
    ],
    ids=["first run", "all differ", "less at first", "charged elsewhere", "little elsewhere"],
)
def test_the_need_is_given_where_limits_were_kinder(
    needs: tuple[float, ...], elsewhere: float, give: int
):
    fine = [point(f"{size}M", (2.0,) * 3) for size in (210, 120)]
    found = workload_answer(made(needing(needs, elsewhere=elsewhere), *fine))
    assert found.give_bytes == give * MIB


def test_a_stopped_trial_has_the_time_after_which_it_was():
    late = replace(point("90M", outcomes={"timeout": 1}), stopped_s=6.4)
    both = point("100M", (5.1,), outcomes={"ok": 1, "timeout": 1})
    table = limits_table(workload_answer(made(STEADY, replace(both, stopped_s=6.4), late)))
    assert [row[2] for row in table.rows] == ["2.00 s", "5.10 s", ">6.40 s"]


def test_a_kill_between_huge_pages_bounds_nothing():
    odd = point("151M", outcomes=KILLED)
    assert workload_answer(made(STEADY, odd, point("150M", (2.0,) * 3))).give_bytes == 150 * MIB
    assert workload_answer(made(STEADY, odd, point("148M", (2.0,) * 3))).give_bytes is None


@pytest.mark.parametrize(
    ("needs", "other", "words"),
    [
        ((200, 204), (), "needs 204 MiB"),
        ((152, 208), (), "needs 152 to 208 MiB"),
        ((201,), [point("104M", (2.0,) * 3, swap="none")], "uses 201 MiB"),
        ((201,), [point("190M", (2.0,) * 3, swap="none")], "needs 201 MiB"),
        ((201,), [point("300M", outcomes=KILLED, swap="none")], "uses 201 MiB"),
        ((201,), [point("104M", (2.8,) * 3, swap="none")], "needs 201 MiB"),
    ],
    ids=[
        "alike",
        "differ",
        "less is enough",
        "about as much",
        "more is too little",
        "less is slow",
    ],
)
def test_needs_are_a_range_where_runs_differ_and_refuted_by_trials(
    needs: tuple[float, ...], other: list[PointFacts], words: str
):
    free = needing(needs, point("max", (2.0, 2.0, 2.0), swap="none"))
    assert needs_words(workload_answer(made(free, *other))) == words


def test_many_limits_are_shown_in_part():
    fine = [point(f"{size}M", (2.0,) * 3) for size in range(150, 126, -1)]
    lost = [point(f"{size}M", outcomes=KILLED) for size in range(126, 120, -1)]
    found = workload_answer(made(STEADY, *fine, *lost))
    shown = [row[0] for row in limits_table(found).rows]
    assert len(shown) == 10
    assert {"none", "150 MiB", "127 MiB", "126 MiB", "121 MiB"} <= {*shown}
    assert len(limits_table(found, every=True).rows) == 31


def test_many_workloads_have_a_row_each():
    one = made(
        FREE, point("150M", (2.1,) * 3), point("90M", (9.0,) * 3), point("50M", (), outcomes=KILLED)
    )
    alone = made(point("max", (4.0,) * 3))
    table = overview_table([workload_answer(one, "a"), workload_answer(alone, "b")])
    assert table.columns == ("workload", "needs", "give", "ok at", "time", "slowest")
    assert table.rows == [
        ["a", "200 MiB", "150 MiB", "2/3", "2.00 s", "4.50x"],
        ["b", "200 MiB", "", "", "4.00 s", ""],
    ]


def test_lines_to_paste_carry_their_swap():
    with_swap = workload_answer(made(STEADY, point("150M", (2.0,) * 3)))
    assert paste_lines(with_swap) == {
        "docker": "docker run --memory=150m --memory-swap=214m",
        "systemd": "systemd-run -p MemoryMax=150M -p MemorySwapMax=64M",
    }
    bare = replace(with_swap, swap_kind="none", swap_bytes=None, give_bytes=8_441_036)
    assert paste_lines(bare)["docker"] == "docker run --memory=8244k --memory-swap=8244k"
    assert 'limits: {memory: "8244Ki"}' in paste_lines(bare)["kubernetes"]
    assert paste_lines(replace(bare, swap_kind="system")) == {}
    assert paste_lines(replace(bare, give_bytes=None)) == {}


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(1.068), "1.07x"),
        (Ratio(1.13, 0.9, 1.4, 0.2), "~1.1x"),
        (Ratio(1.13, 1.1, 1.2, 0.04), "1.13x"),
        (Ratio(15.34, 15, 16, 0.03), "15.3x"),
        (Ratio(15.34, 9, 16, 0.4), "~15x"),
        (None, ""),
    ],
)
def test_a_slowdown_has_no_more_digits_than_its_repeats(ratio: Ratio | None, words: str):
    assert slowdown(ratio) == words


@pytest.mark.parametrize(
    ("mib", "cells"),
    [
        ((471.2, 94.4, None), ["471 MiB", " 94 MiB", ""]),
        ((253.6, 253.9), ["253.6 MiB", "253.9 MiB"]),
        ((8.05, 12.31), [" 8.1 MiB", "12.3 MiB"]),
        ((0.25, 0.5), ["256 KiB", "512 KiB"]),
        ((20480, 15360), ["20 GiB", "15 GiB"]),
    ],
)
def test_a_column_of_sizes_has_one_unit(mib: tuple[float | None, ...], cells: list[str]):
    assert size_cells([size and size * MIB for size in mib]) == cells


def test_a_column_of_times_has_one_unit():
    """Milliseconds where all are short; else all in seconds."""
    assert time_cells([0.0123, 0.31, None]) == ["12.3 ms", "310 ms", ""]
    assert time_cells([0.0123, 2.31]) == ["0.01 s", "2.31 s"]
    assert time_cells([83.0]) == ["1 min 23 s"]


def test_two_of_one_name_are_told_apart():
    small, large = ({**NETWORK, "image": size} for size in (64, 224))
    names = [w.name for w in workload_facts([point("max", settings=s) for s in (small, large)])]
    assert [name.rpartition(" · ")[2] for name in names] == ["image 64", "image 224"]


def test_what_all_workloads_share_is_told_once():
    brief, shared = short_names(["alexnet · bulk · batch 1", "alexnet · linear · batch 1"])
    assert list(brief.values()) == ["bulk", "linear"]
    assert shared == "alexnet · batch 1"
    assert short_names(["alexnet · bulk"]) == ({"alexnet · bulk": "alexnet · bulk"}, "")


def test_a_limit_that_a_walk_visits_often_has_more_trials_than_were_planned():
    table = limits_table(workload_answer(made(point("max", (2.0,) * 4), point("100M", (3.0,)))))
    assert [row[1] for row in table.rows] == ["4/4", "1/3"]
