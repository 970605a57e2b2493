"""A calibration from start to end: blocks of scans in cgroups of their own, and what they say."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.calibrating.points import FILE_BYTES, scan_points
from edgebench.calibrating.scan_file import scan_file
from edgebench.cgroups.identity import give_to_caller
from edgebench.cgroups.proof import prove_limit
from edgebench.errors import MachineError, ResultsError
from edgebench.machine.environment import capture, device_name
from edgebench.machine.machine import Machine, swap_devices
from edgebench.plan.plan import Point, plan
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.slowdown.calibration.constants import constants_of
from edgebench.slowdown.calibration.device import (
    SCHEMA,
    Calibration,
    calibration_path,
    save_calibration,
)
from edgebench.slowdown.calibration.doubts import (
    noise_doubts,
    other_swap_doubts,
    spread_doubts,
)
from edgebench.slowdown.calibration.scans import Scan, blocks_of
from edgebench.sweep.sweep import Progress
from edgebench.trial.recording import TrialRequest
from edgebench.trial.trial import TrialFiles, run_trial
from edgebench.workshop.preparing import cache_folder
from edgebench.workshop.workshop import Workshop, open_workshop

#: A calibration is of so many blocks, or of as many as fit into this time, but two.
REPEATS, TIME_S, _LEAST = 5, 115.0, 2
_SEED = 1
_TIMEOUT_S = 120.0
#: The name of trials that only set up.
_WARM = "warm"
#: A scan's own counters tell what it missed; the sampler is only to show the trial's course.
_INTERVAL_S = 0.02


@dataclass(frozen=True)
class CalibrationOptions:
    """What to calibrate and where to keep it. ``swap_bytes`` is None for ``none``, ``system``."""

    results: Path = Path("results")
    device: str | None = None
    swap_kind: str = "none"
    swap_bytes: int | None = None
    repeats: int = REPEATS
    time_s: float = TIME_S


def calibrate(options: CalibrationOptions, progress: Progress) -> tuple[Calibration, Path]:
    """Measure this device's constants with one kind of swap, and keep them.

    Raises:
        CgroupError: no cgroup can be made here, or its limits don't bite.
        MachineError: no GNU time, no swap, no room, or a scan that did not finish.
        ResultsError: the results folder can't be written.
    """
    device = options.device or device_name()
    path = calibration_path(options.results, device, options.swap_kind)
    _make_folder(path.parent)
    with open_workshop(interval_s=_INTERVAL_S, stat_interval_s=_INTERVAL_S) as workshop:
        for sentence in workshop.cleared:
            progress.stage(f"cleared what an earlier run left: {sentence}")
        under_way = _Calibrating(options, progress, workshop)
        under_way.run(path)
        made = under_way.result(device)
    return made, save_calibration(made, options.results)


def _make_folder(folder: Path) -> None:
    """Before two minutes of work: the results must have a place."""
    new = [path for path in (folder.parent, folder) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, os.strerror(13))
    except OSError as error:
        raise ResultsError(
            f"can't write to the device's folder: {error.strerror}",
            where=str(folder),
            remedy="make it writable, or name another: --results FOLDER",
        ) from None
    for path in new[:1]:
        give_to_caller(path)


@dataclass
class _Calibrating:
    """One calibration under way: what was measured so far."""

    options: CalibrationOptions
    progress: Progress
    workshop: Workshop
    records: list[TrialRecord] = field(default_factory=list)
    blocks: int = 0
    other_swap: dict[str, int] = field(default_factory=dict)

    def run(self, path: Path) -> None:
        """Set up, then block after block until all are done or the time is up."""
        began = time.monotonic()
        self.workshop.swap.use(self.options.swap_kind, self.options.swap_bytes)
        self.progress.stage("proving that a limit bites")
        prove_limit(self.workshop.apparatus.place)
        points = self._points(self._base())
        self.progress.begin(path, len(points) * self.options.repeats, 0)
        planned = plan(points, self.options.repeats, _SEED)
        by_id = {point.id: point for point in points}
        longest = 0.0
        for block in range(self.options.repeats):
            block_began = time.monotonic()
            if block >= _LEAST and block_began - began + longest > self.options.time_s:
                break
            self._look_for_other_swap()
            for trial in (trial for trial in planned if trial.block == block):
                self.records.append(self._trial(by_id[trial.point_id], trial.trial, block))
            longest = max(longest, time.monotonic() - block_began)
            self.blocks += 1

    def _look_for_other_swap(self) -> None:
        """Swap is the whole machine's: a scan may go to any that is on."""
        if self.options.swap_kind in ("none", "system"):
            return
        ours = str(self.workshop.swap.state.device)
        devices = swap_devices(Machine())
        self.other_swap |= {d["name"]: d["size_bytes"] for d in devices if d["name"] != ours}

    def _base(self) -> int:
        """The runtime's footprint: of the second import, for the first reads its files too."""
        self.progress.stage("warming the runtime")
        point = Point("base", {"kind": "import"}, LimitSetting())
        _, base = (self._trial(point, name, 0).base_bytes for name in (_WARM, _WARM))
        if base is None:
            raise MachineError(
                "this kernel doesn't tell what a cgroup uses, so the runtime's base is unknown",
                remedy="edgebench doctor",
            )
        return base

    def _points(self, base_bytes: int) -> list[Point]:
        folder = cache_folder(self.workshop.apparatus.identity) / "scan"
        file = scan_file(folder, FILE_BYTES)
        swap = self.options.swap_kind, self.options.swap_bytes
        return scan_points(*swap, file, base_bytes)

    def _trial(self, point: Point, trial: str, block: int) -> TrialRecord:
        folder = self.workshop.folder
        files = TrialFiles(folder / "s.npz", folder / "e.gz", folder / "log", folder)
        request = TrialRequest(
            trial, point.id, block, block, point.settings, point.limits, _TIMEOUT_S
        )
        self.progress.trial(request)
        record = run_trial(self.workshop.apparatus, request, files)
        if record.outcome != "ok":
            raise MachineError(
                f"the scan at {point.limits.label} ended as {record.outcome}: {record.reason}",
                remedy="end what else uses memory; give more swap if it is small: --swap 2G",
            )
        if trial != _WARM:
            self.progress.finished(record)
        return record

    def result(self, device: str) -> Calibration:
        """What all of it says."""
        scans = tuple(scan for record in self.records for scan in scans_of(record))
        base = [float(r.base_bytes or 0) for r in self.records if r.point == "base"]
        hot = [hot_bytes(record) for record in self.records if record.point == "pressed"]
        kind = self.options.swap_kind
        constants: dict[str, Any] = constants_of(blocks_of(scans), base, hot, swaps=kind != "none")
        return Calibration(
            device=device,
            swap_kind=kind,
            created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            schema=SCHEMA,
            environment=capture(self.workshop.apparatus.place),
            **constants,
            scans=scans,
            warnings=(
                *self._cut_short(),
                *other_swap_doubts(self.other_swap),
                *noise_doubts([record.noise for record in self.records]),
                *spread_doubts(constants),
            ),
        )

    def _cut_short(self) -> list[str]:
        if self.blocks == self.options.repeats:
            return []
        return [
            f"{self.blocks} of {self.options.repeats} repeats fitted into "
            f"{self.options.time_s:.0f} s: this device is slow, or something else runs on it"
        ]


def scans_of(record: TrialRecord) -> list[Scan]:
    """A trial's passes, as its worker noted them."""
    about: dict[str, Any] = {"trial": record.trial, "block": record.block}
    about |= {key: record.settings.get(key) for key in ("of", "planned_share")}
    return [Scan(**about, **made) for made in record.notes.get("passes", ())]


def hot_bytes(record: TrialRecord) -> float:
    """What a pressed runtime keeps: of the limit, all that the scan could not have."""
    assert record.limit_bytes
    return float(record.limit_bytes - record.notes["passes"][-1]["resident_bytes"])
