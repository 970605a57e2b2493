"""docs/verbs/show.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.quickstart import answer
from claims.texts import Claim, box

PAGE = "docs/verbs/show.md"


def claims() -> Iterator[Claim]:
    """The quick start."""
    yield box(
        "What did a sweep measure?", ["$ edgebench show results/DEVICE/SWEEP", *answer(), "…"]
    )
