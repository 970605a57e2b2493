"""What a calibration runs: its points, each some passes of a scan below a limit, and their file."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError
from edgebench.records import LimitSetting
from edgebench.safe_files import make_folder, replaced
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration.scans import FITS, WIDE
from edgebench.storage_speed import AS_IS
from edgebench.units import format_size
from edgebench.workloads.garbage_collection import FROZEN

LIMIT_BYTES = 32 << 20
#: What the scanning program itself keeps in RAM, about: the rest is left to what it scans.
_PROGRAM_BYTES = 4 << 20
#: Room beyond the runtime where it can't be swapped.
_ROOM_BYTES = 48 << 20
_LEFT_BYTES = LIMIT_BYTES - _PROGRAM_BYTES
#: The file that is scanned: its tail of any size up to this.
FILE_BYTES = int(WIDE * _LEFT_BYTES)
#: Between what fits and twice what fits, where LRU and optimal replacement lie furthest apart.
_BETWEEN = (1.1, 1.25, 1.5)
_CYCLE = ["read"] * 2
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
#: What is scanned below a declared speed: memory where it is swapped to a disk, else a file.
_HELD = {"anon": ["fill", *_CYCLE, "read"], "file": ["map", *_CYCLE, "read"]}
_HELD_SHARE = 1.25
#: In how many blocks such points are; the others are in all. Counts and held speeds repeat well.
_BLOCKS = {"held": 1, "between": 2, "runtime": 2}


@dataclass(frozen=True)
class ScannedDisks:
    """The disks, as ``254:0``, below swap and below the scanned file; None: on none.

    ``speeds``: the declared speeds to try, as labels.
    """

    swap: str | None = None
    file: str | None = None
    speeds: tuple[str, ...] = ()


def in_block(point: Point, block: int) -> bool:
    """Whether a point is measured in this block."""
    if point.limits.storage != AS_IS:
        return block < _BLOCKS["held"]
    if point.settings.get("planned_share") in _BETWEEN:
        return block < _BLOCKS["between"]
    runtime = point.settings["kind"] == "import" or point.settings["runtime"]
    return not runtime or block < _BLOCKS["runtime"]


def scan_points(
    swap_kind: str,
    swap_bytes: int | None,
    file: Path,
    base_bytes: int,
    disks: ScannedDisks = ScannedDisks(),
) -> list[Point]:
    """All points: scans, the runtime unlimited and pressed, and scans below a declared speed.

    Without swap anonymous memory can't exceed a limit: then files alone are scanned beyond it.
    ``file`` has :data:`FILE_BYTES`; ``base_bytes`` is the runtime's footprint, about.
    :func:`in_block` says which blocks each belongs to.
    """
    swap = swap_kind, swap_bytes
    points = [
        _point(f"{of}-{share:g}", _settings(of, share, passes, file, disks), LIMIT_BYTES, swap)
        for of, share, passes in _scans(swap_kind != "none")
    ]
    base = Point("base", {"kind": "import"}, LimitSetting("max", None, swap_kind, swap_bytes))
    return [*points, base, _pressed(swap, file, base_bytes), *_held(swap, file, disks)]


def _held(swap: tuple[str, int | None], file: Path, disks: ScannedDisks) -> Iterator[Point]:
    of = "anon" if disks.swap else "file"
    for storage in disks.speeds:
        settings = _settings(of, _HELD_SHARE, _HELD[of], file, disks)
        point = _point(f"{of}-{storage}", settings, LIMIT_BYTES, swap)
        yield replace(point, limits=replace(point.limits, storage=storage))


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


def _settings(
    of: str,
    share: float,
    passes: list[str],
    file: Path | None,
    disks: ScannedDisks = ScannedDisks(),
) -> dict[str, Any]:
    return {
        "kind": "scan",
        "of": of,
        "planned_share": share,
        "size_bytes": _whole_pages(share * _LEFT_BYTES),
        "file": str(file) if of == "file" else None,
        "disk": disks.file if of == "file" else disks.swap,
        "passes": passes,
        "seed": 1,
        "gc": FROZEN,
        "runtime": False,
    }


def _whole_pages(size: float) -> int:
    return int(size) // mmap.PAGESIZE * mmap.PAGESIZE


def scan_file(folder: Path, size_bytes: int) -> Path:
    """A file of random bytes to scan; made where there is none yet, kept for later calibrations.

    Raises:
        MachineError: the folder can't be written, or its disk is full.
    """
    path = folder / f"{size_bytes}.bin"
    try:
        if not path.is_file() or path.stat().st_size != size_bytes:
            make_folder(folder, parents=True)
            _write_random(path, size_bytes)
    except OSError as error:
        raise MachineError(
            f"the file to scan can't be made: {error.strerror}",
            where=str(path),
            remedy="free some space there, or name another folder: EDGEBENCH_CACHE=FOLDER",
        ) from None
    return path


def _write_random(path: Path, size_bytes: int) -> None:
    with replaced(path) as file:
        for start in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - start)))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
