"""Words that all of a report's parts share."""

from __future__ import annotations

import pytest

from edgebench.text import joined_words


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_lists_read_as_people_write_them(words: list[str], expected: str):
    """One, two and more words."""
    assert joined_words(words) == expected
