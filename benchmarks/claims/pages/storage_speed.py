"""docs/explanation/storage-speed.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from claims.kept import rows
from claims.texts import Claim, table

PAGE = "docs/explanation/storage-speed.md"
_SLOWER = ": the disk by itself is slower"


def claims() -> Iterator[Claim]:
    """How exactly speeds are held."""
    yield table("## How exactly, measured", _held())


def _held() -> Iterator[list[str]]:
    for declared, in_sequence, anywhere, others in rows("storage_speed"):
        known = re.match(r"[\d.]+ \(", in_sequence)
        cells = (
            [in_sequence, anywhere.replace(_SLOWER, ""), others] if known else ["refused", "", ""]
        )
        yield [f"`{declared}`", *cells]
