"""The scan workload: passes over memory or a file inside the limit, each timed and counted.

It knows no network. What swap and disks did meanwhile is read from ``/proc/vmstat``, which counts
for the whole machine: nothing else may swap or read files while a scan runs.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict
from edgebench.workloads.engines.torch import import_torch
from edgebench.workloads.garbage_collection import collected_rounds
from edgebench.workloads.pages import PAGE, Area, read_file
from edgebench.workloads.recorder import Recorder

_VMSTAT, _DISKSTATS = Path("/proc/vmstat"), Path("/proc/diskstats")
#: So many pages are touched in an order by chance: enough to time, not enough to last.
_ANYHOW_PAGES = 2048


def run_scan(settings: dict[str, Any], recorder: Recorder) -> None:
    """Make the passes that the settings name, in their order, and note what each took.

    Settings: ``size_bytes`` of the area; ``file``, what to map, or None for anonymous memory;
    ``disk``, whose requests are counted, as ``254:0``, or None;
    ``passes``, names of :data:`PASSES`; ``seed``; ``gc``; ``runtime``, whether to import torch
    first and let it work between the passes.

    Raises:
        WorkloadError: no such pass.
    """
    work = _runtime(recorder) if settings["runtime"] else None
    scanned = _Scanned(settings)
    passes = []
    with collected_rounds(settings) as before_pass:
        for name in settings["passes"]:
            before_pass()
            passes.append(scanned.make(name))
            if work:
                work()
                # What stays of the area now leaves the runtime the rest.
                passes[-1]["resident_bytes"] = scanned.area.resident_bytes()
    recorder.note(passes=passes)


class _Scanned:
    """What is scanned, and the passes made over it so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._file = Path(settings["file"]) if settings["file"] else None
        self._size = int(settings["size_bytes"])
        self._seed = int(settings["seed"])
        self._disk = settings["disk"]
        self._made: dict[str, int] = {}
        self.area = Area(self._size, self._file)

    def make(self, name: str) -> dict[str, Any]:
        """One pass, as the keys of a ``Scan``."""
        if name not in PASSES:
            raise WorkloadError(f"no pass {name!r} of a scan", remedy=f"one of {', '.join(PASSES)}")
        cold, touch = PASSES[name]
        if cold and self._file:
            self.area.close()
            evict(self._file)
            self.area = Area(self._size, self._file)
        number = self._made[name] = self._made.get(name, -1) + 1
        before, faults, requests = _vmstat(), _major_faults(), _requests(self._disk)
        start_ns = time.perf_counter_ns()
        touched = touch(self)
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        faults, after, requested = _major_faults() - faults, _vmstat(), _requests(self._disk)
        moved = {key: after[key] - before[key] for key in after}
        return {
            "what": name,
            "number": number,
            "size_bytes": self._size,
            "resident_bytes": self.area.resident_bytes(),
            "touched_bytes": touched,
            "seconds": seconds,
            "in_bytes": moved["file_in"] if self._file else moved["swap_in"],
            "out_bytes": moved["swap_out"],
            "major_faults": faults,
            "requests": None if requests is None or requested is None else requested - requests,
        }

    def read_anyhow(self) -> int:
        """Touch pages by chance, others in each pass."""
        return self.area.read_anyhow(_ANYHOW_PAGES, self._seed + self._made["random"])

    def copy(self) -> int:
        """Read the file, as the loader ``copy`` does."""
        assert self._file
        return read_file(self._file, self._size)


#: Name → whether the file is evicted before it, and what it does; returns the bytes touched.
PASSES: dict[str, tuple[bool, Callable[[_Scanned], int]]] = {
    "touch": (False, lambda scanned: scanned.area.touch()),
    "fill": (False, lambda scanned: scanned.area.fill()),
    "read": (False, lambda scanned: scanned.area.read()),
    "write": (False, lambda scanned: scanned.area.touch()),
    "random": (True, _Scanned.read_anyhow),
    "map": (True, lambda scanned: scanned.area.read()),
    "copy": (True, _Scanned.copy),
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


def _runtime(recorder: Recorder) -> Callable[[], object]:
    """Import the runtime; what is returned does a little of what networks do."""
    with recorder.span("import"):
        import_torch(recorder)
    import torch

    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 15 * 15, 10),
    ).eval()
    image = torch.zeros(1, 3, 32, 32)

    def work() -> None:
        with torch.inference_mode():
            network(image)

    return work
