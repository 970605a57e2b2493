"""Counting how many labels a step got right, after the step has ended."""

from __future__ import annotations

from collections.abc import Callable

#: Counts how many labels were right; None: there are no labels.
CountOfRight = Callable[[], int | None]
#: Larger scores are counted within the step: kept until it has ended, they would add to its peak.
_MOST_KEPT_BYTES = 64 * 1024


def counted(count: CountOfRight) -> CountOfRight:
    """The same count, made now."""
    right = count()
    return lambda: right


def counted_later(count: CountOfRight, kept_bytes: int) -> CountOfRight:
    """The same count, made now where it would keep more than a few pages.

    Args:
        count: reads the scores.
        kept_bytes: of the scores.
    """
    return count if kept_bytes <= _MOST_KEPT_BYTES else counted(count)
