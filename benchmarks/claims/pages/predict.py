"""docs/verbs/predict.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import rows
from claims.texts import Claim, table

PAGE = "docs/verbs/predict.md"


def claims() -> Iterator[Claim]:
    """What networks need at once."""
    yield table("of two plain programs in one control group:", map(tuple, rows("together")))
