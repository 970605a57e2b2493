"""docs/explanation/storage-speed.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from claims import edgecaffe
from claims.kept import rows
from claims.texts import Claim, table

PAGE = "docs/explanation/storage-speed.md"
_SLOWER = ": the disk by itself is slower"


def claims() -> Iterator[Claim]:
    """How exactly speeds are held, and how much less repeats differ then."""
    yield table("## How exactly, measured", _held())
    yield table("By version 2", _both_ways())
    yield table("## What it brings, measured", _repeats())
    yield table("Both storages in one sweep", _in_turn())


def _both_ways() -> Iterator[list[str]]:
    for declared, *cells in rows("storage_speed_both_ways"):
        yield [f"`{declared.partition(',')[0].removeprefix('read=')}`", *cells]


def _repeats() -> Iterator[list[str]]:
    for name, slowed in (("all", 0.0), ("slowed 1.5 times or more", 1.5)):
        off = (edgecaffe.farthest_repeat(slowed, of) for of in (edgecaffe.HELD, edgecaffe.AS_IS))
        yield [name, *(f"{share:.1f} %" for share in off)]


def _in_turn() -> Iterator[list[str]]:
    names = {"as-is": "as it is", "read=100MB/s": "`read=100MB/s`"}
    for storage, points, *spread in rows("storage_repeats"):
        yield [names[storage], points, *(share.replace("%", " %") for share in spread)]


def _held() -> Iterator[list[str]]:
    for declared, in_sequence, anywhere, others in rows("storage_speed"):
        known = re.match(r"[\d.]+ \(", in_sequence)
        cells = (
            [in_sequence, anywhere.replace(_SLOWER, ""), others] if known else ["refused", "", ""]
        )
        yield [f"`{declared}`", *cells]
