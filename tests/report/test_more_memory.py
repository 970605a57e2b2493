"""What a report says of more memory, held against numbers."""

from __future__ import annotations

from sentence_making import FREE, KILLED, made, point, walked

from edgebench.report.tables import limits_table
from edgebench.words.more_memory import largest_saving, more_memory_sentences


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
    assert made(FREE, *noisy).steps == ()


def test_savings_of_walks_follow_their_own_rounds():
    """Processes differ more than the limits do: medians of seconds lie the wrong way round."""
    free, wide, tight = (
        walked("max", 2.0, (1.0, 1.0, 1.0)),
        walked("150M", 1.9, (1.17, 1.18, 1.19)),
        walked("100M", 1.8, (2.3, 2.36, 2.4)),
    )
    assert more_memory_sentences(made(free, wide, tight)) == [
        "The next step up: from 100.0 MiB to 150.0 MiB, 50.0 MiB more save 900.0 ms (50%) of "
        "the whole trial, 18.0 ms per MiB.",
        "Without a limit the whole trial takes 360.0 ms less than at 150.0 MiB, "
        "the widest limit at which it finished.",
    ]


def test_the_limits_table_says_why_a_walks_slowdown_is_no_quotient():
    """Only where limits were walked."""
    free, tight = walked("max", 2.0, (1.0, 1.0, 1.0)), walked("100M", 1.9, (1.1, 1.2, 1.3))
    assert "compares a process with itself" in limits_table(made(free, tight)).note
    assert "compares a process" not in limits_table(made(FREE, point("100M", (3.0,) * 3))).note
