"""docs/decisions/0083-page-lists-are-simulated.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import rows
from claims.texts import Claim, table

PAGE = "docs/decisions/0083-page-lists-are-simulated.md"
FAMILIES = {"training": "chosen on", "kept shut": "opened once"}


def claims() -> Iterator[Claim]:
    """What the simulation's slowdowns miss by, where they matter and over all."""
    yield table("## Consequences", _rows())


def _rows() -> Iterator[list[str]]:
    for families, points, of, *errors in rows("simulated_counts"):
        if of == "slowdown" and points.endswith(("all", "1.5 times or more")):
            yield [FAMILIES[families], points, *errors]
