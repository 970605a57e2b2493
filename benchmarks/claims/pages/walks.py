"""docs/reference/scenarios.md, on walks."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import figures
from claims.texts import Claim, says

PAGE = "docs/reference/scenarios.md"


def claims() -> Iterator[Claim]:
    """Walks against fresh trials."""
    every = figures("walk_truth")["told"]["all"]
    yield says(
        "reads differs by {} % in the median, and its seconds by {} %; seconds of two fresh trials"
        " differ by {} %",
        *(f"{100 * every[key]:.1f}" for key in ("median_read_difference", "median_difference")),
        f"{100 * every['fresh_scatter']:.1f}",
    )
