"""What a calibration runs: the points of each block, and the file that is scanned."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.errors import MachineError
from edgebench.records import LimitSetting
from edgebench.run.limit_control import ROOM
from edgebench.safe_files import make_folder, replaced
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration.scans import FITS, WIDE
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
_HELD = {"anon": ["fill", *_CYCLE], "file": ["map", *_CYCLE]}
_HELD_SHARE = 1.25
#: In how many blocks they are; the other scans are in all. Sizes in memory, counts and held speeds
#: repeat well.
_HELD_BLOCKS, _BETWEEN_BLOCKS, _HOT_BASE_BLOCKS = 1, 2, 1
#: The points' ids.
SCANS, HOT_BASE = "scans", "hot-base"


@dataclass(frozen=True)
class ScannedDisks:
    """The disks, as ``254:0``, below swap and below the scanned file; None: on none.

    ``speeds``: the declared speeds to try, as labels.
    """

    swap: str | None = None
    file: str | None = None
    speeds: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalibrationPlan:
    """Which points each block has.

    Without swap anonymous memory can't exceed a limit: then files alone are scanned beyond it.

    Args:
        swap_kind, swap_bytes: as in the limits of trials.
        file: what is scanned, of :data:`FILE_BYTES`.
        disks: those below swap and file.
    """

    swap_kind: str
    swap_bytes: int | None
    file: Path
    disks: ScannedDisks = ScannedDisks()

    def points(self, block: int) -> list[Point]:
        """The points of a block, and the areas of each scan, in an order drawn from its number."""
        drawn = random.Random(block)
        areas = list(self._areas(block))
        points = [self._scan(SCANS, drawn.sample(areas, len(areas)))]
        if block < _HOT_BASE_BLOCKS:
            points.append(self._hot_base())
        if block < _HELD_BLOCKS:
            points += self._held()
        return drawn.sample(points, len(points))

    @property
    def _swaps(self) -> bool:
        return self.swap_kind != "none"

    def _areas(self, block: int) -> Iterator[dict[str, Any]]:
        """Memory and the file at every size in the first blocks, then at both ends."""
        anon = _ANON if self._swaps else {FITS: ["touch"]}
        file = {share: _FILE[share] for share in (FITS, WIDE)} if self._swaps else _FILE
        for of, by_share in (("anon", anon), ("file", file)):
            for share, passes in by_share.items():
                if share not in _BETWEEN or block < _BETWEEN_BLOCKS:
                    yield self._area(of, share, passes)

    def _held(self) -> Iterator[Point]:
        """A scan below each declared speed."""
        of = "anon" if self.disks.swap else "file"
        for storage in self.disks.speeds:
            area = self._area(of, _HELD_SHARE, _HELD[of])
            point = self._scan(f"{of}-{storage}", [area])
            yield replace(point, limits=structs.replace(point.limits, storage=storage))

    def _hot_base(self) -> Point:
        """The runtime without a limit, and then below one that a scan alone would fill."""
        if self._swaps:
            area, room = self._area("anon", _PRESS_SHARE, _PRESS) | {"size_bytes": None}, 0
        else:
            area, room = self._area("file", WIDE, ["map", *_CYCLE]), _ROOM_BYTES
        settings = {"kind": HOT_BASE, "gc": FROZEN, "area": area | {"of": "pressed"}, ROOM: room}
        label = "the size of the runtime"
        return Point(HOT_BASE, settings, LimitSetting(label, None, self.swap_kind, self.swap_bytes))

    def _scan(self, name: str, areas: list[dict[str, Any]]) -> Point:
        settings = {"kind": "scan", "gc": FROZEN, "areas": areas}
        limit = LIMIT_BYTES + (0 if self._swaps else _UNSWAPPED_BYTES)
        # The label is what progress and errors show of it.
        label = f"{format_size(limit)}, {name}"
        limits = LimitSetting(label, limit, self.swap_kind, self.swap_bytes)
        return Point(name, settings, limits)

    def _area(self, of: str, share: float, passes: list[str]) -> dict[str, Any]:
        return {
            "of": of,
            "planned_share": share,
            "size_bytes": int(share * _LEFT_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE,
            "file": str(self.file) if of == "file" else None,
            "disk": self.disks.file if of == "file" else self.disks.swap,
            "passes": passes,
            "seed": 1,
        }


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
