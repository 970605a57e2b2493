"""A workload in one sentence, and on a badge, held against numbers."""

from __future__ import annotations

from dataclasses import replace

from claim_making import POINTS, Point, named, quick, ratio, sweep_of
from hypothesis import given
from hypothesis import strategies as st
from sentence_making import FREE, KILLED, NETWORK, made, point, rounds

from edgebench.report.badge import badge_words
from edgebench.results.facts import sweep_facts, workload_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import Spread, ratio_of
from edgebench.words.fits import viability_sentences
from edgebench.words.in_short import sweep_sentences, workload_sentence


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


def test_rounds_before_a_kill_are_said():
    """How slow they were stands beside the kill, where they were slower than steady rounds."""
    free, killed = rounds("max", 1.0, 0.5), point("90M", outcomes=KILLED)

    def ends(seconds: float, count: int, unlimited: PointFacts) -> str:
        before = Spread(seconds, 0.98 * seconds, 1.02 * seconds, count)
        workload = made(unlimited, replace(killed, rounds_before_end_s=before))
        return workload_sentence(workload, "it").rpartition("; ")[2]

    at = "killed at 90.0 MiB"
    assert ends(1.75, 3, free) == f"{at}, after rounds that took 3.5 times as long."
    assert ends(1.75, 1, free) == f"{at}, after a round that took 3.5 times as long."
    assert ends(0.5, 3, free) == f"{at}."
    assert ends(1.75, 3, FREE) == f"{at}."
    assert workload_sentence(made(free, killed), "it").endswith(f"; {at}.")

    def fits(*points: PointFacts) -> str:
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


def test_what_one_trial_says_is_told_as_that():
    """Beside each claim: of the first round, of several limits, and of an unlimited time alone."""

    def said(*points: PointFacts) -> str:
        return workload_sentence(made(*points), "it").partition("; ")[2]

    def delayed(count: int) -> str:
        once = rounds("100M", 1.2, 0.5)
        times = {**once.times_s, "start": Spread(1.2, 1.2, 1.2, count)}
        return said(rounds("max", 1.0, 0.5), replace(once, times_s=times))

    longer = "its first round takes 200.0 ms longer at 100.0 MiB"
    assert delayed(1).startswith(f"{longer} in one trial; once running, ")
    assert delayed(3).startswith(f"{longer}; once running, ")
    wide, tight = point("150M", (4.0,)), point("100M", (8.0,))
    both = "takes 2 times as long at 150.0 MiB and 4 times at 100.0 MiB"
    assert said(FREE, wide, tight).startswith(f"{both}, one trial each; ")
    repeated = point("100M", (7.9, 8.0, 8.1))
    mixed = "takes 2 times as long at 150.0 MiB in one trial and 4 times at 100.0 MiB; "
    assert said(FREE, wide, repeated).startswith(mixed)
    free = point("max", (2.0,))
    compared = "takes 4 times as long at 100.0 MiB, compared with one unlimited trial; "
    assert said(free, repeated).startswith(compared)
    assert said(free, tight).startswith("takes 4 times as long at 100.0 MiB in one trial; ")


def test_of_many_workloads_the_worst_one_is_told_with_its_trials():
    """One sentence for all says of its claim, too, that one trial makes it."""
    settings = [{**NETWORK, "batch": size} for size in range(1, 9)]
    points = [point("max", (2.0, 2.0), settings=own) for own in settings]
    slow = point("90M", (8.0,), settings=settings[0])
    ratio = ratio_of(slow.times_s["total"], points[0].times_s["total"])
    found = workload_facts([*points, replace(slow, ratios={"total": ratio})])
    (said,) = sweep_sentences(found, {one.name: "it" for one in found})
    assert said.endswith("it, which takes 4 times as long at 90.0 MiB in one trial.")


@given(POINTS, st.sampled_from([1, 2]))
@quick
def test_every_slowdown_of_one_trial_is_told_as_that(points: list[Point], of_rounds: int):
    """Over made-up sweeps: a factor has repeats on both sides, or its sentence says otherwise."""
    for workload in sweep_facts(sweep_of(points, rounds=of_rounds)).workloads:
        sentence = workload_sentence(workload, "it")
        for part in sentence.split("; "):
            if "times as long at" not in part and "longer at" not in part:
                continue
            bare = [one for one in named(part, points) if not ratio(one, points[0])]
            assert bool(bare) == ("one trial" in part or "one unlimited" in part), part
