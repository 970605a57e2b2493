"""What is said of the import and the first round below a limit, held against numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sentence_making import made, rounds

from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import Spread
from edgebench.words.in_short import workload_sentence
from edgebench.words.slowdown import slowdown_sentences


def imported(one: PointFacts, low_s: float, high_s: float, count: int = 3) -> PointFacts:
    """The point with fresh processes that import their runtime in so many seconds."""
    spread = Spread((low_s + high_s) / 2, low_s, high_s, count)
    return replace(one, times_s={**one.times_s, "import": spread})


FREE = imported(rounds("max", 1.0, 0.5), 1.9, 2.1)


@pytest.mark.parametrize(
    ("low_s", "high_s", "count"), [(2.0, 9.0, 3), (8.0, 8.0, 1), (2.11, 2.2, 3)]
)
def test_an_import_is_called_longer_only_where_repeats_prove_it(
    low_s: float, high_s: float, count: int
):
    """Not where repeats overlap, not from one trial, not for a few percent."""
    workload = made(FREE, imported(rounds("100M", 1.0, 0.5), low_s, high_s, count))
    said = [workload_sentence(workload, "it"), *slowdown_sentences(workload)]
    assert not any("mporting" in words for words in said)
