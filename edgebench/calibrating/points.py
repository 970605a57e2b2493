"""What a calibration runs: its points, each a few passes of a scan below a limit of its own."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgebench.plan.plan import Point
from edgebench.records.records import LimitSetting
from edgebench.slowdown.calibration.scans import FITS, WIDE
from edgebench.units import format_size

LIMIT_BYTES = 48 << 20
#: What the scanning program itself keeps in RAM, about: the rest is left to what it scans.
_PROGRAM_BYTES = 4 << 20
#: Room beyond the runtime where it can't be swapped.
_ROOM_BYTES = 48 << 20
_LEFT_BYTES = LIMIT_BYTES - _PROGRAM_BYTES
#: The file that is scanned: its tail of any size up to this.
FILE_BYTES = int(WIDE * _LEFT_BYTES)
#: Between what fits and twice what fits, where LRU and optimal replacement lie furthest apart.
_BETWEEN = (1.1, 1.25, 1.5)
_CYCLE = ["read"] * 3
#: Of anonymous memory: its passes where it fits, between, and at its widest.
_ANON = {
    FITS: ["touch", "fill", "read", "read", "write", "random"],
    **{share: ["fill", *_CYCLE] for share in _BETWEEN},
    WIDE: ["fill", *_CYCLE, "write", "random"],
}
#: Of a file.
_FILE = {
    FITS: ["map", "read", "read"],
    **{share: ["map", *_CYCLE] for share in _BETWEEN},
    WIDE: ["copy", "map", *_CYCLE, "random"],
}
#: What presses the runtime, as a trial's weights do: they are loaded, and executed twice.
_PRESS = ["fill", "read", "read"]
_PRESS_SHARE = 1.05


def scan_points(swap_kind: str, swap_bytes: int | None, file: Path, base_bytes: int) -> list[Point]:
    """The points of one block: scans, the runtime unlimited, and the runtime pressed.

    Without swap anonymous memory can't exceed a limit: then files alone are scanned beyond it.
    ``file`` has :data:`FILE_BYTES`; ``base_bytes`` is the runtime's footprint, about.
    """
    swap = swap_kind, swap_bytes
    points = [
        _point(f"{of}-{share:g}", _settings(of, share, passes, file), LIMIT_BYTES, swap)
        for of, share, passes in _scans(swap_kind != "none")
    ]
    base = Point("base", {"kind": "import"}, LimitSetting("max", None, swap_kind, swap_bytes))
    return [*points, base, _pressed(swap, file, base_bytes)]


def _point(
    name: str, settings: dict[str, Any], limit_bytes: int, swap: tuple[str, int | None]
) -> Point:
    # The label is what progress and errors show of it.
    label = f"{format_size(limit_bytes)}, {name}"
    return Point(name, settings, LimitSetting(label, limit_bytes, *swap))


def _scans(swaps: bool) -> Iterator[tuple[str, float, list[str]]]:
    anon = _ANON if swaps else {FITS: ["touch"]}
    file = {share: _FILE[share] for share in (FITS, WIDE)} if swaps else _FILE
    for of, passes in (("anon", anon), ("file", file)):
        yield from ((of, share, passes[share]) for share in passes)


def _pressed(swap: tuple[str, int | None], file: Path, base_bytes: int) -> Point:
    """The runtime below a limit that a scan alone would fill."""
    if swap[0] == "none":
        limit, size = base_bytes + _ROOM_BYTES, FILE_BYTES
        settings = _settings("file", WIDE, ["map", "read", "read"], file)
    else:
        limit, size = base_bytes, _whole_pages(_PRESS_SHARE * base_bytes)
        settings = _settings("anon", _PRESS_SHARE, _PRESS, None)
    settings |= {"of": "pressed", "size_bytes": size, "runtime": True}
    return _point("pressed", settings, limit, swap)


def _settings(of: str, share: float, passes: list[str], file: Path | None) -> dict[str, Any]:
    return {
        "kind": "scan",
        "of": of,
        "planned_share": share,
        "size_bytes": _whole_pages(share * _LEFT_BYTES),
        "file": str(file) if of == "file" else None,
        "passes": passes,
        "seed": 1,
        "runtime": False,
    }


def _whole_pages(size: float) -> int:
    return int(size) // mmap.PAGESIZE * mmap.PAGESIZE
