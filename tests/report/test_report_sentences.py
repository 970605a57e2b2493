"""What a report says in sentences, held against numbers."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.records.records import LimitSetting
from edgebench.report.buying import bargains, bought_said
from edgebench.report.folding import folded
from edgebench.report.sentences import fits_said, hardly_slowed, listed, slow_said
from edgebench.report.workload import Workload, briefly, limit_words, workloads
from edgebench.results.summary import PointSummary, Spread

MIB = 1 << 20
NETWORK = {"kind": "inference", "networks": ["alexnet"], "schedule": "bulk", "batch": 1}


def point(
    label: str,
    seconds: tuple[float, ...] = (),
    *,
    outcomes: dict[str, int] | None = None,
    swap: str = "file",
    settings: dict[str, Any] | None = None,
    loads: float | None = None,
) -> PointSummary:
    """A point at a limit in MiB (or ``max``, which needs 200 MiB and takes 2 s)."""
    free = label == "max"
    size = None if free else int(label.rstrip("M")) * MIB
    times = {}
    if seconds:
        middle = sorted(seconds)[len(seconds) // 2]
        times["total"] = Spread(middle, min(seconds), max(seconds), len(seconds))
    slowdowns = {"total": times["total"].median / 2.0} if times else {}
    if loads is not None:
        times["load"], slowdowns["load"] = Spread(loads, loads, loads, 3), loads
    return PointSummary(
        point=f"p-{label}",
        workload="alexnet · bulk · batch 1",
        settings=settings or NETWORK,
        limits=LimitSetting(label, size, swap, 64 * MIB if swap == "file" else None),
        planned=3,
        outcomes=outcomes or {"ok": len(seconds)},
        times_s=times,
        slowdowns=slowdowns,
        limit_bytes=size,
        demand_bytes=200.0 * MIB if free and seconds else None,
    )


FREE = point("max", (1.9, 2.0, 2.1))
KILLED = {"oom-killed": 3}


def made(*points: PointSummary) -> Workload:
    """The one workload of these points."""
    (workload,) = workloads(points)
    return workload


def test_a_workloads_limits_come_widest_first():
    """Whatever the plan's order, a workload goes from unlimited to the tightest limit."""
    workload = made(point("50M", (9.0,)), FREE, point("150M", (2.0,)))
    assert [p.limits.label for p in workload.points] == ["max", "150M", "50M"]
    assert workload.name == "alexnet · batch 1 · swap file 64.0 MiB".replace(" · b", " · bulk · b")


def test_two_of_one_name_are_told_apart():
    """Workloads that differ in a setting that names don't tell have it in both names."""
    small, large = ({**NETWORK, "image": size} for size in (64, 224))
    names = [w.name for w in workloads([point("max", settings=s) for s in (small, large)])]
    assert [name.rpartition(" · ")[2] for name in names] == ["image 64", "image 224"]


def test_where_it_fits():
    """Demand, the tightest limit at which all finished as a share of it, and its swap."""
    workload = made(FREE, point("150M", (2.0,) * 3), point("100M", (4.0,) * 3))
    assert fits_said(workload) == [
        "It needs 200.0 MiB when nothing limits it (median of 3 unlimited trials).",
        "It finished at all 2 limits tried, down to 100.0 MiB, 50% of that, "
        "with 64.0 MiB of swap (file) beside it.",
    ]


def test_where_it_does_not_fit():
    """Limits at which some or all trials ended otherwise are named with how."""
    torn = point("100M", (4.0, 4.0), outcomes={"ok": 2, "oom-killed": 1})
    late = point("60M", outcomes={"timeout": 1, "oom-killed": 2})
    workload = made(FREE, point("150M", (2.0,)), torn, point("80M", outcomes=KILLED), late)
    assert fits_said(workload)[1:] == [
        "The tightest limit at which every trial finished is 150.0 MiB, 75% of that, "
        "with 64.0 MiB of swap (file) beside it.",
        "At 100.0 MiB only 2 of 3 trials finished (1 killed for memory): too little to rely on.",
        "At 80.0 MiB and 60.0 MiB no trial finished: 5 killed for memory and 1 out of time.",
    ]


def test_without_swap_a_kill_is_explained():
    """Where nothing could be swapped, the sentence that swap might help stands there."""
    workload = made(point("max", (2.0,), swap="none"), point("80M", outcomes=KILLED, swap="none"))
    assert fits_said(workload)[-1] == "It had no swap; with some it might finish there, slowly."


def test_nothing_is_said_that_was_not_measured():
    """Without unlimited trials there is no demand and no slowdown; without limits no fit."""
    workload = made(point("100M", outcomes=KILLED))
    assert "not known" in fits_said(workload)[0]
    assert "nothing that slower could be told from" in slow_said(workload)[0]
    assert "no step to compare" in bought_said(workload)[-1]
    assert fits_said(made(FREE))[-1].startswith("No limit was tried")
    assert slow_said(made(FREE)) == [
        "Unlimited, the whole trial takes 2.0 s (3 trials, 1.9 s to 2.1 s)."
    ]


def test_how_slow():
    """The tightest limit's time and factor by phase, and down to where it hardly slows."""
    workload = made(FREE, point("150M", (2.1,) * 3), point("100M", (7.0, 8.0, 9.0), loads=3.5))
    assert slow_said(workload)[1:] == [
        "At 100.0 MiB, the tightest at which it finished, it takes 8.0 s (3 trials, 7.0 s to 9.0 s)"
        ": ×4 (loading ×3.5).",
        "Down to 150.0 MiB it is slower by no more than 10 %.",
    ]


def test_what_noise_hides_is_not_told_as_slower():
    """A limit whose repeats overlap with the unlimited ones gets no factor."""
    workload = made(FREE, point("100M", (2.05, 2.2, 2.3)))
    assert slow_said(workload)[1].endswith(": that can't be told from unlimited.")
    assert bought_said(workload) == ["More than 100.0 MiB buys no time that these trials can tell."]


def test_a_limit_within_the_noise_did_not_slow_it():
    """A factor above 1.1 whose repeats overlap with the unlimited ones is told as noise."""
    noisy = made(
        point("max", (1.5, 2.0, 2.9)), point("150M", (2.0, 2.3, 2.6)), point("90M", (9.0,))
    )
    assert slow_said(noisy)[-1] == (
        "Down to 150.0 MiB it is slower by no more than 10 %, as far as repeats can tell."
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [((2.1, 2.2, 4.0), "120M"), ((2.1, 4.0, 2.1), "150M"), ((4.0, 2.0, 2.0), None)],
)
def test_hardly_slowed_has_no_slow_limit_above_it(times: tuple[float, ...], expected: str | None):
    """The tightest limit down to which *no* limit slowed it by more than 10 %."""
    points = [point(f"{m}M", (t,) * 3) for m, t in zip((150, 120, 100), times, strict=True)]
    found = hardly_slowed(made(FREE, *points))
    assert (found.limits.label if found else None) == expected


def test_what_more_memory_buys():
    """The next step up and the one with the most seconds a MiB, each with its numbers."""
    workload = made(
        FREE, point("150M", (3.0,) * 3), point("140M", (8.0,) * 3), point("100M", (10.0,) * 3)
    )
    assert bought_said(workload) == [
        "The next step up: from 100.0 MiB to 140.0 MiB, 40.0 MiB more save 2.0 s (20%) of "
        "the whole trial, 50.0 ms for each MiB.",
        "The most for each MiB: from 140.0 MiB to 150.0 MiB, 10.0 MiB more save 5.0 s (62%) of "
        "the whole trial, 500.0 ms for each MiB.",
        "Without a limit the whole trial takes 1.0 s less than at 150.0 MiB, "
        "the widest limit tried.",
    ]


def test_memory_that_makes_it_run_at_all():
    """From the limit that kills to the next that doesn't is a step worth naming."""
    workload = made(FREE, point("150M", (2.0,) * 3), point("100M", outcomes=KILLED))
    assert bought_said(workload)[0] == (
        "From 100.0 MiB to 150.0 MiB, 50.0 MiB more, it begins to finish at all."
    )


def test_steps_within_the_noise_are_no_bargain():
    """Two limits whose repeats overlap make no step, however their medians lie."""
    noisy = [point("150M", (2.0, 3.0, 9.0)), point("100M", (2.5, 6.0, 9.5))]
    assert bargains(noisy) == []


def test_a_share_is_told_with_its_size():
    """``75%`` alone says nothing to who reads it elsewhere."""
    share = PointSummary("p", "w", {}, LimitSetting("75%", 150 * MIB), 1, {}, limit_bytes=150 * MIB)
    assert limit_words(share) == "75% (150.0 MiB)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_lists_read_as_people_write_them(words: list[str], expected: str):
    """One, two and more words."""
    assert listed(words) == expected


def test_sentences_that_differ_in_their_trial_are_told_once():
    """640 trials without events are one doubt that says how many, not 640."""
    lost = [f"no events of trial '{n:04d}' (/x/{n:04d}.jsonl.gz)" for n in range(1, 641)]
    assert folded([*lost, "another", "another one"]) == [
        "no events of trial '0001' (/x/0001.jsonl.gz), and 639 more like it",
        "another",
        "another one",
    ]


def test_what_all_workloads_share_is_told_once():
    """A table's rows are named by what sets them apart."""
    brief, shared = briefly(["alexnet · bulk · batch 1", "alexnet · linear · batch 1"])
    assert list(brief.values()) == ["bulk", "linear"]
    assert shared == "alexnet · batch 1"
    assert briefly(["alexnet · bulk"]) == ({"alexnet · bulk": "alexnet · bulk"}, "")
