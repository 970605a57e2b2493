"""The answer of ``advise`` in one sentence: what helps, by how much, how sure that is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.results.advice_file import TriedRemedy
from edgebench.run.advice_answer import Advice, BestRemedy

TRIED = TriedRemedy("mmap-threshold", "gives blocks back", "ok", 0.3, 0.2, 0.4, 3, 0.2, "")
BEST = BestRemedy(
    name="mmap-threshold",
    titles=("gives blocks back",),
    typed=("MALLOC_MMAP_THRESHOLD_=131072 python3 train.py",),
    finished=5,
    trials=5,
    plain_finished=5,
    ratio=0.25,
    low=0.2,
    high=0.5,
    pairs=5,
    seconds=0.2,
    unlimited_ratio=1.8,
    changes="",
    costs="slower where memory is no limit",
    confirmed=True,
)
FOUND = Advice(
    name="train",
    kind="training",
    folder=Path("results"),
    limit_bytes=250 << 20,
    plain_end="ok",
    plain_s=0.8,
    unlimited_s=0.1,
    pressed=True,
    best=BEST,
    tried=(TRIED,),
    untried=(),
    out_of_time=(),
    trials=30,
    total_s=90.0,
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "at 250 MiB is 4 times faster (2 to 5) with mmap-threshold: "),
        ({}, "a step instead of 800.0 ms; without a limit it takes 1.8 times as long (30 trials, "),
        ({"pressed": False, "plain_s": 0.1}, "is not slowed (×1): no remedy was tried, none is"),
        ({"best": None}, "is slowed (×8): the one remedy that was tried does not help"),
        ({"best": None, "tried": ()}, "is slowed (×8): no remedy fits it"),
        (
            {"plain_end": "oom-killed", "plain_s": None},
            "is killed; with mmap-threshold it finishes",
        ),
        ({"plain_end": "oom-killed"}, "is killed at times; with mmap-threshold it finishes 5 of 5"),
    ],
)
def test_each_end_has_its_sentence(changed: dict[str, object], said: str):
    """A gain, no pressure, nothing that helps, and what makes it fit."""
    assert said in replace(FOUND, **changed).sentence  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"confirmed": False}, "may help, but 5 pairs of fresh trials can't tell (×0.25, 95 %"),
        ({"confirmed": False, "finished": 3}, "may help, but it finished only 3 of 5 times"),
        ({"plain_finished": 2}, "; it finished 5 of 5 times, plain 2; without a limit"),
        ({"ratio": 0.8, "low": 0.7, "high": 0.9}, "is 20 % faster (10 to 30 %) with"),
        ({"unlimited_ratio": 1.02}, "without a limit it takes no more than 10 % longer"),
    ],
)
def test_the_sentence_says_how_sure_it_is(changed: dict[str, object], said: str):
    """The interval, what the fresh trials came to, and what it costs without a limit."""
    best = replace(BEST, **changed)  # type: ignore[arg-type]
    assert said in replace(FOUND, best=best).sentence
