"""A workload in one sentence, and on a badge, held against numbers."""

from __future__ import annotations

from dataclasses import replace

from sentence_making import FREE, KILLED, STEADY, made, point, rounds

from edgebench.report.badge import badge_words
from edgebench.report.one_sentence import workload_sentence
from edgebench.report.sentences import (
    slowdown_sentences,
    viability_sentences,
)
from edgebench.results.spread import Spread
from edgebench.results.summary import PointSummary


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
