"""A workload in one sentence, held against numbers."""

from __future__ import annotations

from claim_making import POINTS, Point, named, quick, ratio, sweep_of
from hypothesis import given
from hypothesis import strategies as st
from sentence_making import FREE, KILLED, made, point

from edgebench.results.facts import sweep_facts
from edgebench.words.in_short import workload_sentence


def test_each_end_of_a_limits_trials_is_counted_by_itself():
    """One kill and one failure are not two kills."""
    torn = point("90M", (2.0,), outcomes={"ok": 1, "oom-killed": 1, "failed": 1})
    sentence = workload_sentence(made(FREE, torn), "it")
    assert "killed in 1 and failed in 1 of 3 trials at 90.0 MiB" in sentence
    lost = point("90M", outcomes={"oom-killed": 2, "failed": 1})
    assert "killed in 2 and failed in 1 of 3 trials" in workload_sentence(made(FREE, lost), "it")
    killed = point("90M", outcomes=KILLED)
    assert workload_sentence(made(FREE, killed), "it").endswith("killed at 90.0 MiB.")


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
