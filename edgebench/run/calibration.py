"""A calibration: blocks of scans, each in a cgroup of its own, and the constants they give."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any

from edgebench.cgroups.disk_speed import DiskSpeed, disk_speed
from edgebench.errors import MachineError, ResultsError
from edgebench.measures.machine.disks import swap_devices
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.records import TrialRecord
from edgebench.run.calibration_disks import disk_constants, scanned_disks
from edgebench.run.calibration_points import FILE_BYTES, in_block, scan_file, scan_points
from edgebench.run.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial_record import TrialRequest
from edgebench.safe_files import make_folder
from edgebench.scenario.points import PlannedTrial, Point, plan
from edgebench.slowdown.calibration.constants import constants_of
from edgebench.slowdown.calibration.device import (
    SCHEMA,
    Calibration,
    calibration_path,
    save_calibration,
)
from edgebench.slowdown.calibration.requests import held_share
from edgebench.slowdown.calibration.scans import Scan, blocks_of
from edgebench.slowdown.calibration.warnings import (
    calibration_noise_warnings,
    constant_spread_warnings,
    other_swap_warnings,
)
from edgebench.workloads.preparation import cache_folder

#: A calibration is of so many blocks, or of as many as fit into this time, but two.
REPEATS, TIME_S, _LEAST = 3, 20.0, 2
#: How long a disk is read, each way in each block.
_PROBE_S = 0.15
_SEED = 1
_TIMEOUT_S = 120.0
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


def run_calibration(options: CalibrationOptions, progress: Progress) -> tuple[Calibration, Path]:
    """Measure this device's constants with one kind of swap, and keep them.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time, no swap, no room, or a scan that did not finish.
        ResultsError: the results folder can't be written.
    """
    device = options.device or device_name()
    path = calibration_path(options.results, device, options.swap_kind)
    _make_folder(path.parent)
    with open_trial_loop(progress, interval_s=_INTERVAL_S, stat_interval_s=_INTERVAL_S) as loop:
        blocks = _Blocks(options, _unproved(loop))
        blocks.run(path)
        made = blocks.result(device)
    return made, save_calibration(made, options.results)


def _unproved(loop: TrialLoop) -> TrialLoop:
    """The same, without a proof before a declared speed: its scans show how it is held."""
    setup = loop.session.setup
    setup = replace(setup, storage=replace(setup.storage, proves=False))
    return replace(loop, session=replace(loop.session, setup=setup))


def _make_folder(folder: Path) -> None:
    """Before anything is measured: the results must have a place."""
    try:
        make_folder(folder, parents=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, os.strerror(13))
    except OSError as error:
        raise ResultsError(
            f"can't write to the device's folder: {error.strerror}",
            where=str(folder),
            remedy="make it writable, or name another: --results FOLDER",
        ) from None


@dataclass
class _Blocks:
    """The blocks of one calibration, as far as they were measured."""

    options: CalibrationOptions
    loop: TrialLoop
    records: list[TrialRecord] = field(default_factory=list)
    blocks: int = 0
    other_swap: dict[str, int] = field(default_factory=dict)
    speeds: list[DiskSpeed] = field(default_factory=list)
    not_held: str = ""
    _base_bytes: list[float] = field(default_factory=list)
    _took_s: dict[str, float] = field(default_factory=dict)

    def run(self, path: Path) -> None:
        """Set up, then block after block until all are done or the time is up."""
        began = time.monotonic()
        swap = self.options.swap_kind, self.options.swap_bytes
        self.loop.session.swap.use(*swap)
        file = scan_file(cache_folder(self.loop.session.setup.identity) / "scan", FILE_BYTES)
        self._read_disk(file)
        disks, self.not_held = scanned_disks(self.loop.session, file, self.speeds[0])
        by_id = {p.id: p for p in scan_points(*swap, file, self._base(), disks)}
        planned = plan(list(by_id.values()), self.options.repeats, _SEED)
        planned = [one for one in planned if in_block(by_id[one.point_id], one.block)]
        self.loop.progress.begin(path, len(planned), 0)
        for block, grouped in groupby(planned, lambda one: one.block):
            trials = list(grouped)
            expected_s = sum(self._took_s.get(one.point_id, 0.0) for one in trials)
            if block >= _LEAST and time.monotonic() - began + expected_s > self.options.time_s:
                break
            self._look_for_other_swap()
            if block:
                self._read_disk(file)
            requests = (_request(by_id[one.point_id], one) for one in trials)
            self.loop.run(requests, self.loop.unkept, self._keep)
            self.blocks += 1

    def _read_disk(self, file: Path) -> None:
        """The disk below the weights as it is."""
        parent = self.loop.session.setup.parent
        self.speeds.append(disk_speed(parent, file, _PROBE_S))

    def _look_for_other_swap(self) -> None:
        """Swap is the whole machine's: a scan may go to any that is on."""
        if self.options.swap_kind in ("none", "system"):
            return
        ours = str(self.loop.session.swap.state.device)
        devices = swap_devices(SystemFiles())
        self.other_swap |= {d["name"]: d["size_bytes"] for d in devices if d["name"] != ours}

    def _base(self) -> int:
        """The runtime's footprint: of the second import, for the first reads its files too."""
        *_, base = (_finished(self.loop.warm()).base_bytes for _ in range(2))
        if base is None:
            raise MachineError(
                "this kernel doesn't tell what a cgroup uses, so the runtime's base is unknown",
                remedy="edgebench doctor",
            )
        self._base_bytes.append(float(base))
        return base

    def _keep(self, record: TrialRecord) -> None:
        self.records.append(_finished(record))
        self._took_s[record.point] = record.wall_s or 0.0

    def result(self, device: str) -> Calibration:
        """The constants, from all blocks."""
        scans = tuple(scan for record in self.records for scan in scans_of(record))
        base = [float(r.base_bytes or 0) for r in self.records if r.point == "base"]
        base += self._base_bytes
        hot = [hot_bytes(record) for record in self.records if record.point == "pressed"]
        kind = self.options.swap_kind
        constants: dict[str, Any] = constants_of(blocks_of(scans), base, hot, swaps=kind != "none")
        constants |= disk_constants(self.speeds)
        constants["held_share"] = held_share(scans, constants)
        return Calibration(
            device=device,
            swap_kind=kind,
            created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            schema=SCHEMA,
            environment=capture(self.loop.session.setup.parent),
            **constants,
            scans=scans,
            warnings=(
                *self._cut_short(),
                *([f"no declared storage speed was tried: {self.not_held}"] * bool(self.not_held)),
                *other_swap_warnings(self.other_swap),
                *calibration_noise_warnings([record.noise for record in self.records]),
                *constant_spread_warnings(constants),
            ),
        )

    def _cut_short(self) -> list[str]:
        if self.blocks == self.options.repeats:
            return []
        return [
            f"{self.blocks} of {self.options.repeats} repeats fitted into "
            f"{self.options.time_s:.0f} s: this device is slow, or something else runs on it"
        ]


def _request(point: Point, planned: PlannedTrial) -> TrialRequest:
    return TrialRequest(
        trial=planned.trial,
        point=point.id,
        block=planned.block,
        repeat=planned.block,
        settings=point.settings,
        limits=point.limits,
        timeout_s=_TIMEOUT_S,
    )


def _finished(record: TrialRecord) -> TrialRecord:
    """The record of a trial that finished; without one of them there are no constants."""
    if record.outcome != "ok":
        raise MachineError(
            f"the scan at {record.limits.label} ended as {record.outcome}: {record.reason}",
            remedy="end other programs that use memory; give more swap if it is small: --swap 2G",
        )
    return record


def scans_of(record: TrialRecord) -> list[Scan]:
    """A trial's passes, as its worker noted them."""
    about: dict[str, Any] = {"trial": record.trial, "block": record.block}
    about["storage"] = record.limits.storage
    about |= {key: record.settings.get(key) for key in ("of", "planned_share")}
    return [Scan(**about, **made) for made in record.notes.get("passes", ())]


def hot_bytes(record: TrialRecord) -> float:
    """What a pressed runtime keeps: of the limit, all that the scan could not have."""
    assert record.limit_bytes
    return float(record.limit_bytes - record.notes["passes"][-1]["resident_bytes"])
