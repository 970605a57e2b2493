"""What a report says of how slow a workload is, held against numbers."""

from __future__ import annotations

from sentence_making import FREE, KILLED, STEADY, made, point

from edgebench.words.fits import viability_sentences
from edgebench.words.more_memory import more_memory_sentences
from edgebench.words.slowdown import slowdown_sentences


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


def test_how_slow():
    """The tightest limit's time and factor by phase, and down to where it is surely no slower."""
    workload = made(STEADY, point("150M", (2.1,) * 3), point("100M", (7.0, 8.0, 9.0), loads=3.5))
    assert slowdown_sentences(workload)[1:] == [
        "At 100.0 MiB, the tightest limit at which it finished, the whole trial takes 8.0 s "
        "(3 trials, 7.0 s to 9.0 s): 4 times as long (loading 3.5 times).",
        "Down to 150.0 MiB it is at most 10 % slower.",
    ]


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


def test_noise_is_no_sameness():
    """A factor of 1.15 whose repeats overlap with the unlimited ones is not "no slower"."""
    noisy = made(
        point("max", (1.5, 2.0, 2.9)), point("150M", (2.0, 2.3, 2.6)), point("90M", (9.0,) * 3)
    )
    assert slowdown_sentences(noisy)[-1] == (
        "At 150.0 MiB (1.15 times as long) can't tell whether it is slower by more than 10 %: "
        "repeats differ by 45%, so 0.69 to 1.73 times as long is possible; repeat more often."
    )


def test_one_trial_tells_no_difference():
    """Without repeats a factor is told, and that nothing tells what it is worth."""
    workload = made(point("max", (2.0,)), point("150M", (2.4,)), point("100M", (3.0,)))
    unsure = "one trial doesn't tell how far repeats differ; repeat more often."
    assert slowdown_sentences(workload)[1:] == [
        "At 100.0 MiB, the tightest limit at which it finished, the whole trial takes 3.0 s "
        f"(one trial): 1.5 times as long; {unsure}",
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
