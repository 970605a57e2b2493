"""docs/explanation/storage-speed.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims.kept import calibration, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/storage-speed.md"
BOTH_WAYS = "storage_speed_both_ways"


def claims() -> Iterator[Claim]:
    """How exactly speeds are held, and how much less repeats differ then."""
    request_s = calibration("file-ram")["request_s"]["value"]
    yield says("On it a request takes some {} µs", f"{request_s * 1e6:.0f}")
    yield table("## Threads", rows("swap_threads"))
    yield table("Held ÷ declared on the disk in memory", _held())
    held = [float(cell.split()[0]) for _, *cells in rows(BOTH_WAYS) for cell in cells]
    yield says(
        "reads and writes are {} to {} of what was declared", f"{min(held):.3f}", f"{max(held):.3f}"
    )
    yield table("## How much better times repeat", _repeats())


def _repeats() -> Iterator[list[str]]:
    for name, slowed in (("all", 0.0), ("slowed 1.5 times or more", 1.5)):
        off = (edgecaffe.farthest_repeat(slowed, of) for of in (edgecaffe.HELD, edgecaffe.AS_IS))
        yield [name, *(f"{share:.1f} %" for share in off)]


def _held() -> Iterator[list[str]]:
    for declared, in_sequence, anywhere, _ in rows("storage_speed_ram"):
        yield [f"`{declared}`", in_sequence, anywhere.partition(":")[0]]
