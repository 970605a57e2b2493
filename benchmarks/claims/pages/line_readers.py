"""docs/decisions/0063-million-lines-stay-with-msgspec.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import FIGURES, rows
from claims.texts import Claim, says, table

PAGE = "docs/decisions/0063-million-lines-stay-with-msgspec.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    size = (FIGURES / "line_readers.md").read_text().partition("(")[2].partition(" MiB)")[0]
    yield says("(1,000,000 lines, {} MiB)", size)
    yield table("Seconds of each round:", rows("line_readers"))
