"""What a report says of where a workload fits, held against numbers."""

from __future__ import annotations

from dataclasses import replace

from sentence_making import FREE, KILLED, MIB, made, point

from edgebench.results.spread import Spread
from edgebench.words.fits import least_limit_sentences, viability_sentences
from edgebench.words.more_memory import more_memory_sentences


def test_where_it_fits():
    """Demand, the tightest limit at which all finished as a share of it, and its swap."""
    workload = made(FREE, point("150M", (2.0,) * 3), point("100M", (4.0,) * 3))
    assert viability_sentences(workload) == [
        "It needs 200.0 MiB without a limit (median of its trials).",
        "It finished at both limits tried, down to 100.0 MiB, 50% of its demand, "
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
        "(90 % interval 0 % to 63 %); for an hour (1,800 rounds of 2.0 s) nothing is known: only "
        "3 rounds tried.",
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
