"""What a report says of more memory, held against numbers."""

from __future__ import annotations

from sentence_making import FREE, made, point, walked

from edgebench.report.tables import limits_table
from edgebench.words.more_memory import largest_saving


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


def test_steps_within_the_noise_are_no_bargain():
    """Two limits whose repeats overlap make no step, however their medians lie."""
    noisy = [point("150M", (2.0, 3.0, 9.0)), point("100M", (2.5, 6.0, 9.5))]
    assert made(FREE, *noisy).steps == ()


def test_the_limits_table_says_why_a_walks_slowdown_is_no_quotient():
    """Only where limits were walked."""
    free, tight = walked("max", 2.0, (1.0, 1.0, 1.0)), walked("100M", 1.9, (1.1, 1.2, 1.3))
    assert "compares a process with itself" in limits_table(made(free, tight)).note
    assert "compares a process" not in limits_table(made(FREE, point("100M", (3.0,) * 3))).note
