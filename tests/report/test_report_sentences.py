"""What a report says in sentences, held against numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgebench.records import LimitSetting
from edgebench.report.badge import badge_words
from edgebench.report.builder import without_repeats
from edgebench.report.more_memory import faster_steps, largest_saving, more_memory_sentences
from edgebench.report.one_sentence import workload_sentence
from edgebench.report.sentences import (
    least_limit_sentences,
    slowdown_sentences,
    viability_sentences,
)
from edgebench.report.slowness import tightest_fast_limit
from edgebench.report.tables import limits_table
from edgebench.report.workload import WorkloadPoints, limit_label, short_names, workloads
from edgebench.results.spread import Spread, ratio_of
from edgebench.results.summary import PointSummary
from edgebench.text import joined_words

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
    if loads is not None:
        times["load"] = Spread(loads, loads, loads, 3)
    return PointSummary(
        point=f"p-{label}",
        workload="alexnet · bulk · batch 1",
        settings=settings or NETWORK,
        limits=LimitSetting(label, size, swap, 64 * MIB if swap == "file" else None),
        planned=3,
        outcomes=outcomes or {"ok": len(seconds)},
        times_s=times,
        limit_bytes=size,
        demand_bytes=200.0 * MIB if free and seconds else None,
    )


FREE = point("max", (1.9, 2.0, 2.1), loads=1.0)
STEADY = point("max", (1.98, 2.0, 2.02), loads=1.0)
KILLED = {"oom-killed": 3}


def made(*points: PointSummary) -> WorkloadPoints:
    """The one workload of these points, each with its slowdowns."""
    free = next((p.times_s for p in points if p.limits.label == "max"), {})
    ratios = [
        {name: ratio_of(times, free[name]) for name, times in p.times_s.items() if name in free}
        for p in points
    ]
    (workload,) = workloads(
        replace(p, ratios=own, slowdowns={name: ratio.median for name, ratio in own.items()})
        for p, own in zip(points, ratios, strict=True)
    )
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
    assert viability_sentences(workload) == [
        "It needs 200.0 MiB without a limit (median of its trials).",
        "It finished at all 2 limits tried, down to 100.0 MiB, 50% of its demand, "
        "with 64.0 MiB of swap (file).",
    ]


def test_where_it_does_not_fit():
    """Limits at which some or all trials ended otherwise are named with how."""
    torn = point("100M", (4.0, 4.0), outcomes={"ok": 2, "oom-killed": 1})
    late = point("60M", outcomes={"timeout": 1, "oom-killed": 2})
    workload = made(FREE, point("150M", (2.0,)), torn, point("80M", outcomes=KILLED), late)
    assert viability_sentences(workload)[1:] == [
        "The tightest limit at which every trial finished is 150.0 MiB, 75% of its demand, "
        "with 64.0 MiB of swap (file).",
        "At 100.0 MiB only 2 of 3 trials finished (1 killed for memory): don't rely on this limit.",
        "No trial finished at 80.0 MiB and 60.0 MiB: 5 killed for memory and 1 out of time.",
    ]


def test_without_swap_a_kill_is_explained():
    """Where nothing could be swapped, the sentence that swap might help stands there."""
    workload = made(point("max", (2.0,), swap="none"), point("80M", outcomes=KILLED, swap="none"))
    assert (
        viability_sentences(workload)[-1]
        == "It had no swap: with swap it might finish there, slowly."
    )


def test_nothing_is_said_that_was_not_measured():
    """Without unlimited trials there is no demand and no slowdown; without limits no fit."""
    workload = made(point("100M", outcomes=KILLED))
    assert "not known" in viability_sentences(workload)[0]
    assert "nothing to compare times with" in slowdown_sentences(workload)[0]
    assert "no step to compare" in more_memory_sentences(workload)[-1]
    assert viability_sentences(made(FREE))[-1].startswith("No limit was tried")
    assert slowdown_sentences(made(FREE)) == [
        "Unlimited, the whole trial takes 2.0 s (3 trials, 1.9 s to 2.1 s)."
    ]


def test_each_end_of_a_limits_trials_is_counted_by_itself():
    """One kill and one failure are not two kills, in the sentence or on the badge."""
    torn = point("90M", (2.0,), outcomes={"ok": 1, "oom-killed": 1, "failed": 1})
    sentence = workload_sentence(made(FREE, torn), "it")
    assert "killed in 1 and failed in 1 of 3 trials at 90.0 MiB" in sentence
    assert badge_words(made(FREE, torn)) == "runs in 200 MiB; some trials killed in 90 MiB"
    lost = point("90M", outcomes={"oom-killed": 2, "failed": 1})
    assert "killed in 2 and failed in 1 of 3 trials" in workload_sentence(made(FREE, lost), "it")
    killed = point("90M", outcomes=KILLED)
    assert workload_sentence(made(FREE, killed), "it").endswith("killed at 90.0 MiB.")
    assert badge_words(made(FREE, killed)) == "runs in 200 MiB; killed in 90 MiB"


def test_a_badge_claims_no_slowdown_that_repeats_do_not_prove():
    """Trials of 1 to 9 s are no proof of twice the time, whatever their median."""
    noisy = point("90M", (1.0, 5.0, 9.0))
    assert badge_words(made(FREE, noisy)) == "runs in 200 MiB"


def test_how_slow():
    """The tightest limit's time and factor by phase, and down to where it is surely no slower."""
    workload = made(STEADY, point("150M", (2.1,) * 3), point("100M", (7.0, 8.0, 9.0), loads=3.5))
    assert slowdown_sentences(workload)[1:] == [
        "At 100.0 MiB, the tightest limit at which it finished, the whole trial takes 8.0 s "
        "(3 trials, 7.0 s to 9.0 s): 4 times as long (loading 3.5 times).",
        "Down to 150.0 MiB it is at most 10 % slower.",
    ]


def rounds(label: str, start_s: float, steady_s: float | None) -> PointSummary:
    """A point of three equal trials with a start, and steady rounds if there are any."""
    one = point(label, (steady_s or start_s,) * 3)
    known = {"start": start_s, "steady": steady_s}
    own = {name: Spread(s, s, s, 3) for name, s in known.items() if s is not None}
    return replace(one, times_s={**one.times_s, **own})


def test_start_and_steady_are_two_answers():
    """A limit that delays the start alone is not called slower; both are said."""
    workload = made(rounds("max", 1.0, 0.5), rounds("100M", 1.2, 0.5))
    assert workload_sentence(workload, "it") == (
        "it needs 200.0 MiB; its first round takes 200.0 ms longer at 100.0 MiB; once running, "
        "at most 10% slower down to 100.0 MiB; finished at every limit tried, down to 100.0 MiB."
    )
    said = slowdown_sentences(workload)
    assert said[0].startswith("Unlimited, a steady round takes 500.0 ms")
    assert said[1].startswith("Its start, the first round after the import, takes 1.0 s")
    assert said[2].startswith("At 100.0 MiB the start takes 1.2 s")
    assert "a steady round takes 500.0 ms" in said[3]


def test_rounds_before_a_kill_are_said():
    """How slow they were stands beside the kill, where they were slower than steady rounds."""
    free, killed = rounds("max", 1.0, 0.5), point("90M", outcomes=KILLED)

    def ends(seconds: float, count: int, unlimited: PointSummary) -> str:
        before = Spread(seconds, 0.98 * seconds, 1.02 * seconds, count)
        workload = made(unlimited, replace(killed, rounds_before_end_s=before))
        return workload_sentence(workload, "it").rpartition("; ")[2]

    at = "killed at 90.0 MiB"
    assert ends(1.75, 3, free) == f"{at}, after rounds that took 3.5 times as long."
    assert ends(1.75, 1, free) == f"{at}, after a round that took 3.5 times as long."
    assert ends(0.5, 3, free) == f"{at}."
    assert ends(1.75, 3, FREE) == f"{at}."
    assert workload_sentence(made(free, killed), "it").endswith(f"; {at}.")

    def fits(*points: PointSummary) -> str:
        return viability_sentences(made(free, *points))[-1]

    before = Spread(1.75, 1.7, 1.8, 3)
    took = "after rounds that took 3.5 times as long"
    ended = replace(killed, rounds_before_end_s=before)
    assert fits(ended) == f"No trial finished at 90.0 MiB: 3 killed for memory, {took}."
    tighter = point("80M", outcomes=KILLED)
    said = "No trial finished at 90.0 MiB and 80.0 MiB: 6 killed for memory, at 90.0 MiB"
    assert fits(ended, tighter) == f"{said} {took}."
    torn = replace(rounds("90M", 1.0, 0.5), outcomes={"ok": 2, "oom-killed": 1})
    words = f"only 2 of 3 trials finished (1 killed for memory, {took}): don't rely on this limit."
    assert fits(replace(torn, rounds_before_end_s=before)) == f"At 90.0 MiB {words}"


def test_one_round_is_a_start():
    """With one round a trial nothing is said of steady rounds, and that is said."""
    workload = made(rounds("max", 1.0, None), rounds("100M", 3.0, None))
    said = workload_sentence(workload, "it")
    assert "; at its start it takes 3 times as long at 100.0 MiB; " in said
    assert "Only one round was run" in slowdown_sentences(workload)[1]


def test_what_noise_hides_is_said_to_be_unknown():
    """A limit whose repeats overlap with the unlimited ones: can't tell, and why."""
    workload = made(FREE, point("100M", (2.05, 2.2, 2.3)))
    why = "repeats differ by 7%, so 0.976 to 1.21 times as long is possible; repeat more often."
    assert slowdown_sentences(workload)[1].endswith(
        f": 1.1 times as long, but can't tell whether that is slower: {why}"
    )
    assert more_memory_sentences(workload) == [
        f"Can't tell whether more than 100.0 MiB saves time: {why}"
    ]


def test_what_is_at_most_a_little_slower_is_not_called_slower_too():
    """A limit that surely costs 4 % is not named beside "at most 10 % slower"."""
    little = point("150M", (2.08, 2.08, 2.08))
    words = workload_sentence(made(STEADY, little, point("50M", (4.0,) * 3)), "it")
    assert "at most 10% slower down to 150.0 MiB; takes 2 times as long at 50.0 MiB" in words
    assert "1.04" not in words


def test_noise_is_told_from_slowdown():
    """Where all medians are alike no slowdown was seen, which proves none; else nothing is told."""
    free = point("max", (1.5, 2.0, 2.9))
    alike = workload_sentence(made(free, point("150M", (1.6, 2.0, 2.6))), "it")
    assert "; no slowdown seen down to 150.0 MiB, though repeats differ by 45%; " in alike
    slower = workload_sentence(made(free, point("150M", (1.6, 2.6, 2.6))), "it")
    assert "; the repeats differ too much to tell whether a limit slows it; " in slower


def test_noise_is_no_sameness():
    """A factor of 1.15 whose repeats overlap with the unlimited ones is not "no slower"."""
    noisy = made(
        point("max", (1.5, 2.0, 2.9)), point("150M", (2.0, 2.3, 2.6)), point("90M", (9.0,) * 3)
    )
    assert slowdown_sentences(noisy)[-1] == (
        "At 150.0 MiB (1.15 times as long) can't tell whether it is slower by more than 10 %: "
        "repeats differ by 45%, so 0.69 to 1.73 times as long is possible; repeat more often."
    )


def test_the_best_step_is_told_in_short():
    """The one that surely saves most per byte; nothing where no step surely saves time."""
    workload = made(
        FREE, point("150M", (3.0,) * 3), point("140M", (4.0,) * 3), point("50M", (9.0,) * 3)
    )
    assert largest_saving(workload) == (
        "10.0 MiB more than 140.0 MiB save 1.0 s (25%) of the whole trial."
    )
    assert largest_saving(made(FREE, point("100M", (2.05, 2.2, 2.3)))) == ""
    assert largest_saving(made(FREE, point("100M", (3.0,)), point("90M", (9.0,)))) == ""


def test_rounds_are_not_called_trials():
    """Of a limit that one walk visited once or twice, there are more times than trials."""
    visited = point("100M", (2.9, 3.0, 3.1), outcomes={"ok": 1, "oom-killed": 1})
    assert "takes 3.0 s (3 rounds, 2.9 s to 3.1 s)" in slowdown_sentences(made(FREE, visited))[1]


def test_a_limit_that_a_walk_visits_often_has_more_trials_than_were_planned():
    """``4 of 4`` of three planned ones."""
    table = limits_table(made(point("max", (2.0,) * 4), point("100M", (3.0,))))
    assert [row[2] for row in table.rows] == ["4 of 4", "1 of 3"]


def test_one_trial_tells_no_difference():
    """Without repeats a factor is told, and that nothing tells what it is worth."""
    workload = made(point("max", (2.0,)), point("150M", (2.4,)), point("100M", (3.0,)))
    unsure = "one trial doesn't tell how far repeats differ; repeat more often."
    assert slowdown_sentences(workload)[1:] == [
        "At 100.0 MiB, the tightest limit at which it finished, the whole trial takes 3.0 s "
        "(one trial): 1.5 times as long, "
        f"but can't tell whether that is slower: {unsure}",
        "At 150.0 MiB (1.2 times as long) can't tell whether it is slower by more than 10 %: "
        f"{unsure}",
    ]
    assert more_memory_sentences(workload)[0] == (
        f"Can't tell whether the next step up, from 100.0 MiB to 150.0 MiB, saves time: {unsure}"
    )


def test_faster_is_told_as_faster():
    """A limit at which it is surely faster is not said to be like unlimited."""
    workload = made(FREE, point("100M", (1.0, 1.1, 1.2)))
    assert slowdown_sentences(workload)[1].endswith(": 0.55 times as long, so it is faster there.")


def test_a_kill_above_is_not_passed_over():
    """What finished only below a limit at which it was killed is not what it "finishes down to"."""
    workload = made(
        FREE, point("150M", (2.0,) * 3), point("100M", outcomes=KILLED), point("80M", (2.0,) * 3)
    )
    assert (
        "down to 150.0 MiB (and at 80.0 MiB, but not in between)"
        in viability_sentences(workload)[1]
    )
    assert not any("start to finish" in one for one in more_memory_sentences(workload))


@pytest.mark.parametrize(
    ("times", "expected"),
    [((2.1, 2.15, 4.0), "120M"), ((2.1, 4.0, 2.1), "150M"), ((4.0, 2.0, 2.0), None)],
)
def test_unslowed_has_no_slow_limit_above_it(times: tuple[float, ...], expected: str | None):
    """The tightest limit down to which *no* limit slowed it by more than 10 %."""
    points = [point(f"{m}M", (t,) * 3) for m, t in zip((150, 120, 100), times, strict=True)]
    found = tightest_fast_limit(made(STEADY, *points))
    assert (found.limits.label if found else None) == expected


def test_what_more_memory_buys():
    """The next step up and the one with the most seconds a MiB, each with its numbers."""
    workload = made(
        FREE, point("150M", (3.0,) * 3), point("140M", (8.0,) * 3), point("100M", (10.0,) * 3)
    )
    assert more_memory_sentences(workload) == [
        "The next step up: from 100.0 MiB to 140.0 MiB, 40.0 MiB more save 2.0 s (20%) of "
        "the whole trial, 50.0 ms per MiB.",
        "The step that saves most per MiB: from 140.0 MiB to 150.0 MiB, 10.0 MiB more save 5.0 s "
        "(62%) of the whole trial, 500.0 ms per MiB.",
        "Without a limit the whole trial takes 1.0 s less than at 150.0 MiB, "
        "the widest limit at which it finished.",
    ]


def test_memory_that_makes_it_run_at_all():
    """From the limit that kills to the next that doesn't is a step worth naming."""
    workload = made(FREE, point("150M", (2.0,) * 3), point("100M", outcomes=KILLED))
    assert more_memory_sentences(workload)[0] == (
        "From 100.0 MiB to 150.0 MiB, 50.0 MiB more, trials start to finish."
    )


def test_steps_within_the_noise_are_no_bargain():
    """Two limits whose repeats overlap make no step, however their medians lie."""
    noisy = [point("150M", (2.0, 3.0, 9.0)), point("100M", (2.5, 6.0, 9.5))]
    assert faster_steps(noisy) == []


def test_a_share_is_told_with_its_size():
    """``75%`` alone says nothing to who reads it elsewhere."""
    share = PointSummary("p", "w", {}, LimitSetting("75%", 150 * MIB), 1, {}, limit_bytes=150 * MIB)
    assert limit_label(share) == "75% (150.0 MiB)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_lists_read_as_people_write_them(words: list[str], expected: str):
    """One, two and more words."""
    assert joined_words(words) == expected


def test_sentences_that_differ_in_their_trial_are_told_once():
    """640 trials without events are one doubt that says how many, not 640."""
    lost = [f"no events of trial '{n:04d}' (/x/{n:04d}.jsonl.gz)" for n in range(1, 641)]
    assert without_repeats([*lost, "another", "another one"]) == [
        "no events of trial '0001' (/x/0001.jsonl.gz), and 639 more like it",
        "another",
        "another one",
    ]


def test_what_all_workloads_share_is_told_once():
    """A table's rows are named by what sets them apart."""
    brief, shared = short_names(["alexnet · bulk · batch 1", "alexnet · linear · batch 1"])
    assert list(brief.values()) == ["bulk", "linear"]
    assert shared == "alexnet · batch 1"
    assert short_names(["alexnet · bulk"]) == ({"alexnet · bulk": "alexnet · bulk"}, "")


def test_kills_with_swap_free_are_said():
    """How many of a limit's trials, how much was free at the least, and where it is explained."""
    free = Spread(1.5 * MIB * 1024, 1.4 * MIB * 1024, 1.6 * MIB * 1024, 2)
    odd = replace(point("100M", (4.0,), outcomes={"ok": 1, "oom-killed": 2}), swap_free_bytes=free)
    said = viability_sentences(made(FREE, point("150M", (2.0,) * 3), odd))
    assert said[-3:] == [
        "At 100.0 MiB 2 of 3 trials were killed while at least 1.40 GiB of swap were free: the "
        "kernel found nothing it could reclaim. Another trial may finish there.",
        "See docs/explanation/observer-effect.md.",
        "At 150.0 MiB, its least viable limit: killed in 0 of 3 trials of 1 round: probability 0 % "
        "(90 % interval 0 % to 63 %); for an hour (1,800 rounds of 2.0 s) it holds with a "
        "probability of 0 % to 100 %, if rounds are alike and independent; 3 rounds tried.",
    ]


def test_the_least_viable_limit_lies_above_all_that_killed():
    """A tighter one that finished by luck is not it; without a kill or with one trial, no word."""
    lucky = made(
        FREE,
        point("150M", (2.0,) * 3),
        point("100M", (4.0,), outcomes={"ok": 1, "oom-killed": 2}),
        point("90M", (4.0,) * 3),
    )
    assert "At 150.0 MiB, its least viable" in least_limit_sentences(lucky)[0]
    assert least_limit_sentences(made(FREE, point("150M", (2.0,) * 3))) == []
    assert (
        least_limit_sentences(made(FREE, point("150M", (2.0,)), point("90M", outcomes=KILLED)))
        == []
    )
