"""Words that all of a report's parts share."""

from __future__ import annotations

import pytest

from edgebench.report.builder import without_repeats
from edgebench.text import joined_words


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
