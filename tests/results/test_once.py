"""What is worked out once for the same results."""

from __future__ import annotations

import gc
import weakref

from edgebench.results.once import once_for_results
from edgebench.results.results import Results


def test_the_same_results_are_worked_out_once_and_forgotten_with_them():
    """Other results are others, and nothing keeps them in memory."""
    calls: list[int] = []

    @once_for_results
    def count(results: Results) -> int:
        """Count calls."""
        calls.append(len(calls))
        return len(calls)

    first, second = Results([]), Results([])
    assert [count(one) for one in (first, first, second, first)] == [1, 1, 2, 1]
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
