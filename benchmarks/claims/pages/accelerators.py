"""docs/how-to/accelerators.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import rows
from claims.texts import Claim, table

PAGE = "docs/how-to/accelerators.md"


def claims() -> Iterator[Claim]:
    """What two networks took of a real GPU."""
    yield table("## GPU memory of two networks", rows("accelerator_memory"))
