"""Memory or a file that is scanned: passes over it, each timed and counted.

What swap and disks did meanwhile is read from ``/proc/vmstat``, which counts for the whole machine:
nothing else may swap or read files while a scan runs.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict
from edgebench.workloads.pages import PAGE, Area, read_file

_VMSTAT, _DISKSTATS = Path("/proc/vmstat"), Path("/proc/diskstats")
#: So many pages are touched in an order by chance: enough to time, not enough to last.
_ANYHOW_PAGES = 2048


class ScannedArea:
    """What is scanned, and the passes made over it so far.

    Settings: ``of`` and ``planned_share``, which name it in what it notes; ``size_bytes``;
    ``file``, what to map, or None for anonymous memory; ``disk``, whose requests are counted, as
    ``254:0``, or None; ``seed``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._about = {key: settings[key] for key in ("of", "planned_share")}
        self._file = Path(settings["file"]) if settings["file"] else None
        self._size = int(settings["size_bytes"])
        self._seed = int(settings["seed"])
        self._disk = settings["disk"]
        self._made: dict[str, int] = {}
        self._area = Area(self._size, self._file)

    def make(self, name: str) -> dict[str, Any]:
        """One pass, as the keys of a ``Scan``.

        Raises:
            WorkloadError: no such pass.
        """
        if name not in PASSES:
            raise WorkloadError(f"no pass {name!r} of a scan", remedy=f"one of {', '.join(PASSES)}")
        cold, touch = PASSES[name]
        if cold and self._file:
            self.close()
            self._area = Area(self._size, self._file)
        number = self._made[name] = self._made.get(name, -1) + 1
        before, faults, requests = _vmstat(), _major_faults(), _requests(self._disk)
        start_ns = time.perf_counter_ns()
        touched = touch(self)
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        faults, after, requested = _major_faults() - faults, _vmstat(), _requests(self._disk)
        moved = {key: after[key] - before[key] for key in after}
        return {
            **self._about,
            "what": name,
            "number": number,
            "size_bytes": self._size,
            "resident_bytes": self.resident_bytes(),
            "touched_bytes": touched,
            "seconds": seconds,
            "in_bytes": moved["file_in"] if self._file else moved["swap_in"],
            "out_bytes": moved["swap_out"],
            "major_faults": faults,
            "requests": None if requests is None or requested is None else requested - requests,
        }

    def resident_bytes(self) -> int:
        """What of it is in RAM now."""
        return self._area.resident_bytes()

    def close(self) -> None:
        """Free it; a file's pages leave the page cache too, or they would take room of the next."""
        self._area.close()
        if self._file:
            evict(self._file)

    def touch(self) -> int:
        """Write a byte to each page."""
        return self._area.touch()

    def fill(self) -> int:
        """Write every byte."""
        return self._area.fill()

    def read(self) -> int:
        """Read every byte, in order."""
        return self._area.read()

    def read_anyhow(self) -> int:
        """Touch pages by chance, others in each pass."""
        return self._area.read_anyhow(_ANYHOW_PAGES, self._seed + self._made["random"])

    def copy(self) -> int:
        """Read the file, as the loader ``copy`` does."""
        assert self._file
        return read_file(self._file, self._size)


#: Name → whether the file is evicted before it, and what it does; returns the bytes touched.
PASSES: dict[str, tuple[bool, Callable[[ScannedArea], int]]] = {
    "touch": (False, ScannedArea.touch),
    "fill": (False, ScannedArea.fill),
    "read": (False, ScannedArea.read),
    "write": (False, ScannedArea.touch),
    "random": (True, ScannedArea.read_anyhow),
    "map": (True, ScannedArea.read),
    "copy": (True, ScannedArea.copy),
}


def _vmstat() -> dict[str, int]:
    """Bytes that came from swap, went to it, and were read from files since the start."""
    lines = (line.split() for line in _VMSTAT.read_text().splitlines())
    told = {name: int(value) for name, value in lines}
    swap_in, swap_out = told.get("pswpin", 0) * PAGE, told.get("pswpout", 0) * PAGE
    # What comes from swap passes through the block layer too; its unit is KiB.
    return {
        "swap_in": swap_in,
        "swap_out": swap_out,
        "file_in": told["pgpgin"] * 1024 - swap_in,
    }


def _requests(disk: str | None) -> int | None:
    """Reads of the disk since the start, those counted singly that it merged; None: not told."""
    lines = (line.split() for line in _DISKSTATS.read_text().splitlines()) if disk else ()
    return next((int(w[3]) + int(w[4]) for w in lines if f"{w[0]}:{w[1]}" == disk), None)


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
