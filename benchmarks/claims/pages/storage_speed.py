"""docs/explanation/storage-speed.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims.kept import calibration
from claims.texts import Claim, says, table

PAGE = "docs/explanation/storage-speed.md"


def claims() -> Iterator[Claim]:
    """How much less repeats differ at held speeds."""
    request_s = calibration("file-ram")["request_s"]["value"]
    yield says("On it a request takes some {} µs", f"{request_s * 1e6:.0f}")
    yield table("## How much better times repeat", _repeats())


def _repeats() -> Iterator[list[str]]:
    for name, slowed in (("all", 0.0), ("slowed 1.5 times or more", 1.5)):
        off = (edgecaffe.farthest_repeat(slowed, of) for of in (edgecaffe.HELD, edgecaffe.AS_IS))
        yield [name, *(f"{share:.1f} %" for share in off)]
