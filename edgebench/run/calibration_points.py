"""What a calibration runs: memory and a file are scanned, and the runtime is pressed once."""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError
from edgebench.records import LimitSetting
from edgebench.run.trial.limit_control import ROOM
from edgebench.safe_files import make_folder, replaced
from edgebench.scenario.points import Point
from edgebench.slowdown.scans import FITS, WIDE
from edgebench.units import format_size
from edgebench.workloads.memory_settings import FROZEN

LIMIT_BYTES = 32 << 20
#: What the scanning program itself keeps in RAM, about: the rest is left to what it scans.
_PROGRAM_BYTES = 4 << 20
#: What more it keeps, at most, where nothing of it can be swapped: the limit is wider by that.
_UNSWAPPED_BYTES = 10 << 20
#: Room beyond the runtime where it can't be swapped.
_ROOM_BYTES = 48 << 20
_LEFT_BYTES = LIMIT_BYTES - _PROGRAM_BYTES
#: The file that is scanned: its tail of any size up to this.
FILE_BYTES = int(WIDE * _LEFT_BYTES)
#: What is scanned, at what size, and its passes.
_ANON = {
    FITS: ["touch", "fill", "read", "read", "write", "random"],
    WIDE: ["fill", "read", "read", "write", "random"],
}
_FILE = {FITS: ["map", "read", "read"], WIDE: ["copy", "map", "random"]}
#: What presses the runtime, as a trial's weights do: they are loaded, and executed twice.
_PRESS, _PRESS_SHARE = ["fill", "read", "read"], 1.05
#: The points' ids.
SCANS, HOT_BASE = "scans", "hot-base"


def calibration_points(
    block: int,
    swap_kind: str,
    swap_bytes: int | None,
    file: Path,
    swap_disk: str | None = None,
    file_disk: str | None = None,
) -> list[Point]:
    """Return the points of a block, in an order drawn from its number.

    Without swap anonymous memory can't exceed a limit: then only its first touch is timed.

    Args:
        block: which repeat; the runtime is pressed in the first.
        swap_kind: as in the limits of trials.
        swap_bytes: its size, as there.
        file: what is scanned, of :data:`FILE_BYTES`.
        swap_disk: the disk below swap, as ``254:0``; None: it is on none.
        file_disk: the disk below the file.
    """
    swaps, drawn = swap_kind != "none", random.Random(block)

    def area(of: str, share: float, passes: list[str]) -> dict[str, Any]:
        return {
            "of": of,
            "planned_share": share,
            "size_bytes": int(share * _LEFT_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE,
            "file": str(file) if of == "file" else None,
            "disk": file_disk if of == "file" else swap_disk,
            "passes": passes,
            "seed": 1,
        }

    anon = _ANON if swaps else {FITS: ["touch"]}
    areas = [area("anon", *one) for one in anon.items()]
    areas += [area("file", *one) for one in _FILE.items()]
    limit = LIMIT_BYTES + (0 if swaps else _UNSWAPPED_BYTES)
    # The label is what progress and errors show of it.
    label = f"{format_size(limit)}, {SCANS}"
    settings: dict[str, Any] = {
        "kind": "scan",
        "gc": FROZEN,
        "areas": drawn.sample(areas, len(areas)),
    }
    points = [Point(SCANS, settings, LimitSetting(label, limit, swap_kind, swap_bytes))]
    if not block:
        # The runtime without a limit, and then below one that a scan alone would fill.
        if swaps:
            pressing, room = area("anon", _PRESS_SHARE, _PRESS) | {"size_bytes": None}, 0
        else:
            pressing, room = area("file", WIDE, ["map", "read", "read"]), _ROOM_BYTES
        settings = {"kind": HOT_BASE, "gc": FROZEN, "area": pressing | {"of": "pressed"}}
        limits = LimitSetting("the size of the runtime", None, swap_kind, swap_bytes)
        points.append(Point(HOT_BASE, settings | {ROOM: room}, limits))
    return drawn.sample(points, len(points))


def scan_file(folder: Path, size_bytes: int) -> Path:
    """Return a file of random bytes to scan; it is made once, and kept for later calibrations.

    Raises:
        MachineError: the folder can't be written, or its disk is full.
    """
    path = folder / f"{size_bytes}.bin"
    try:
        if not path.is_file() or path.stat().st_size != size_bytes:
            make_folder(folder, parents=True)
            with replaced(path) as file:
                for start in range(0, size_bytes, 1 << 20):
                    file.write(os.urandom(min(1 << 20, size_bytes - start)))
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        raise MachineError(
            f"the file to scan can't be made: {error.strerror}",
            where=str(path),
            remedy="free some space there, or name another folder: EDGEBENCH_CACHE=FOLDER",
        ) from None
    return path
