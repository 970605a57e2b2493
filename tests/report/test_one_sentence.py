"""A workload in one sentence, and on a badge, held against numbers."""

from __future__ import annotations

from claim_making import POINTS, Point, named, quick, ratio, sweep_of
from hypothesis import given
from hypothesis import strategies as st
from sentence_making import FREE, KILLED, made, point

from edgebench.results.facts import sweep_facts
from edgebench.words.in_short import badge_words, workload_sentence


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
