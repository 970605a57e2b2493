"""docs/explanation/storage-speed.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import calibration, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/storage-speed.md"


def claims() -> Iterator[Claim]:
    """How much less repeats differ at held speeds."""
    request_s = calibration("file-ram")["request_s"]["value"]
    yield says("On it a request takes some {} µs", f"{request_s * 1e6:.0f}")
    points = [int(row[2]) for row in rows("storage_repeats")]
    yield says("(median over {} to {} points;", min(points), max(points))
    yield table("## How much better times repeat", _repeats())


def _repeats() -> Iterator[list[str]]:
    found = {(storage, stage): spread for storage, stage, _, spread, _ in rows("storage_repeats")}
    storages = ("as-is", "read=100MB/s", "read=100MB/s,disk=ram")
    for stage in ("steady", "start"):
        yield [stage, *(found[storage, stage].replace("%", " %") for storage in storages)]
