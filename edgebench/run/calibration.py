"""A calibration: blocks of scans, each in a cgroup of its own, and the constants they give."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.boards.storage import DECLARED_BPS, StorageSpeed
from edgebench.cache import cache_folder
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.storage import DiskSpeed, disk_speed
from edgebench.errors import CgroupError, MachineError, ResultsError
from edgebench.measures.machine.disks import WholeDisk, swap_devices, whole_disk
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import TrialRecord
from edgebench.run.calibration_points import (
    FILE_BYTES,
    HOT_BASE,
    CalibrationPlan,
    ScannedDisks,
    scan_file,
)
from edgebench.run.session import Session
from edgebench.run.storage import swap_areas
from edgebench.run.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial_record import TrialRequest
from edgebench.safe_files import make_folder
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration.device import (
    SCHEMA,
    Calibration,
    Constant,
    calibration_path,
    constant,
    save_calibration,
)
from edgebench.slowdown.calibration.scans import Scan, blocks_of
from edgebench.slowdown.calibration.warnings import (
    calibration_noise_warnings,
    constant_spread_warnings,
    other_swap_warnings,
)

#: A declared speed is tried if the disk is by itself this many times faster; else half its own.
_MARGIN = 1.25
#: Bytes of a swap-in's request are a page: so many requests hold it a little below the bytes.
_REQUEST_BYTES = 5000
_MB = 10**6


def scanned_disks(session: Session, file: Path, speed: DiskSpeed) -> tuple[ScannedDisks, str]:
    """The disks below swap and the scanned file, and the speeds to try on the first.

    The second value is the reason if none can be tried here; else empty.
    """
    machine = SystemFiles()
    areas = swap_areas(machine, session.swap.state)
    below = _disk(machine, areas[0]) if areas else None
    of_file = _disk(machine, file)
    held = below or of_file
    if held is None:
        return ScannedDisks(), "there is no disk"
    swap, files = (one.number if one else None for one in (below, of_file))
    bps = DECLARED_BPS
    if speed.sequential.bps < _MARGIN * bps:
        bps = max(1, int(speed.sequential.bps / 2 / _MB)) * _MB
    speeds = [StorageSpeed(read_bps=bps)]
    if below:
        speeds.append(StorageSpeed(read_iops=bps // _REQUEST_BYTES))
    if why_not := _refused(session, held, speeds):
        return ScannedDisks(swap, files), why_not
    return ScannedDisks(swap, files, tuple(one.label for one in speeds)), ""


def _disk(machine: SystemFiles, place: Path) -> WholeDisk | None:
    try:
        return whole_disk(machine, place)
    except UnreadableError:
        return None


def _refused(session: Session, disk: WholeDisk, speeds: Sequence[StorageSpeed]) -> str:
    """Why the disk can't be held to these speeds; empty if it can."""
    cgroup = session.setup.parent.create(f"{os.getpid()}-storage")
    try:
        for speed in speeds:
            cgroup.hold_disks((DiskLimit(disk.number, disk.name, speed),))
    except CgroupError as error:
        return error.what
    finally:
        cgroup.remove()
    return ""


def disk_constants(speeds: Sequence[DiskSpeed]) -> dict[str, Constant | None]:
    """What the disk does by itself, from one measurement a block."""
    alone = [one.alone.latency_s for one in speeds if one.alone.latency_s is not None]
    return {
        "disk_read_bytes_per_s": constant("bytes/s", [one.sequential.bps for one in speeds]),
        "disk_read_iops": constant("requests/s", [one.random.iops for one in speeds]),
        "request_s": constant("s", alone) if alone else None,
    }


#: A calibration is of so many blocks, or of as many as fit into this time, but two.
REPEATS, TIME_S, _LEAST = 3, 20.0, 2
#: How long a disk is read, each way in each block.
_PROBE_S = 0.1
_TIMEOUT_S = 300.0
_AGAIN = """\
the kernel killed {} of its trials though swap was free, and they were made again: see \
docs/explanation/observer-effect.md"""
#: How often one such trial is made again.
_MOST_AGAIN = 2
#: A scan's own counters tell what it missed; the sampler is only to show the trial's course.
_INTERVAL_S = 0.02


@dataclass(frozen=True)
class CalibrationOptions:
    """What to calibrate and where to keep it. ``swap_bytes`` is None for ``none``, ``system``.

    ``ram``: swap, and the files that are scanned, are on a disk in memory.
    """

    results: Path = Path("results")
    device: str | None = None
    swap_kind: str = "none"
    swap_bytes: int | None = None
    ram: bool = False
    repeats: int = REPEATS
    time_s: float = TIME_S


def run_calibration(
    options: CalibrationOptions, progress: Progress, meanwhile: Callable[[], None] = lambda: None
) -> tuple[Calibration, Path]:
    """Measure this device's constants with one kind of swap, and keep them.

    ``meanwhile`` is called in a thread while the runtime is imported for the first time, which is
    not timed.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time, no swap, no room, or a scan that did not finish.
        ResultsError: the results folder can't be written.
    """
    device = options.device or device_name()
    path = calibration_path(options.results, device, options.swap_kind, ram=options.ram)
    _make_folder(path.parent)
    with open_trial_loop(progress, interval_s=_INTERVAL_S, stat_interval_s=_INTERVAL_S) as loop:
        blocks = _Blocks(options, _unproved(loop), meanwhile)
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
    meanwhile: Callable[[], None]
    records: list[TrialRecord] = field(default_factory=list)
    blocks: int = 0
    other_swap: dict[str, int] = field(default_factory=dict)
    speeds: list[DiskSpeed] = field(default_factory=list)
    not_held: str = ""
    again: int = 0
    _took_s: dict[str, float] = field(default_factory=dict)

    def run(self, path: Path) -> None:
        """Set up, then block after block until all are done or the time is up."""
        began = time.monotonic()
        swap = self.options.swap_kind, self.options.swap_bytes
        folder = self._place(*swap)
        self._warm()
        file = scan_file(folder / "scan", FILE_BYTES)
        self._read_disk(file)
        disks, self.not_held = scanned_disks(self.loop.session, file, self.speeds[0])
        planned = CalibrationPlan(*swap, file, disks)
        blocks = [planned.points(block) for block in range(self.options.repeats)]
        self.loop.progress.begin(path, sum(map(len, blocks)), 0)
        for block, points in enumerate(blocks):
            expected_s = sum(self._took_s.get(point.id, 0.0) for point in points)
            if block >= _LEAST and time.monotonic() - began + expected_s > self.options.time_s:
                break
            self._look_for_other_swap()
            if block:
                self._read_disk(file)
            self.loop.run(self._requests(block, points), self._make, self._keep)
            self.blocks += 1

    def _place(self, swap_kind: str, swap_bytes: int | None) -> Path:
        """Set up the swap; the folder for files to scan."""
        session = self.loop.session
        if not self.options.ram:
            session.swap.use(swap_kind, swap_bytes)
            return cache_folder(session.setup.identity)
        folder = session.setup.storage.ram_disk.need((swap_bytes or 0) + FILE_BYTES)
        session.swap.use(swap_kind, swap_bytes, folder)
        return folder

    def _warm(self) -> None:
        """Import once: the first import reads the runtime's files too, which is no part of it."""
        beside = threading.Thread(target=self.meanwhile)
        beside.start()
        try:
            finished(self.loop.warm())
        finally:
            beside.join()

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

    def _requests(self, block: int, points: list[Point]) -> Iterator[TrialRequest]:
        for number, point in enumerate(points, start=len(self.records) + 1):
            about = f"{number:04d}", point.id, block, block
            yield TrialRequest(*about, point.settings, point.limits, timeout_s=_TIMEOUT_S)

    def _make(self, request: TrialRequest) -> TrialRecord:
        """Make a trial; again, but not for ever, if the kernel killed it though swap was free."""
        record = self.loop.unkept(request)
        for _ in range(_MOST_AGAIN):
            if not record.killed_with_swap_free:
                break
            self.again += 1
            record = self.loop.unkept(request)
        return record

    def _keep(self, record: TrialRecord) -> None:
        self.records.append(finished(record))
        self._took_s[record.point] = record.wall_s or 0.0

    def result(self, device: str) -> Calibration:
        """The constants, from all blocks."""
        from edgebench.slowdown.calibration.constants import constants_of, held_share

        scans = tuple(scan for record in self.records for scan in scans_of(record))
        runtimes = [record for record in self.records if record.point == HOT_BASE]
        base, hot = map(base_bytes, runtimes), map(hot_bytes, runtimes)
        kind = self.options.swap_kind
        constants: dict[str, Any] = constants_of(
            blocks_of(scans), [*base], [*hot], swaps=kind != "none"
        )
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
            ram=self.options.ram,
            warnings=(
                *self._cut_short(),
                *([f"no declared storage speed was tried: {self.not_held}"] * bool(self.not_held)),
                *([_AGAIN.format(self.again)] * bool(self.again)),
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


def finished(record: TrialRecord) -> TrialRecord:
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
    return [Scan(**about, **made) for made in record.notes.get("passes", ())]


def base_bytes(record: TrialRecord) -> float:
    """The runtime's footprint before its limit was set.

    Raises:
        MachineError: the kernel doesn't tell it.
    """
    if record.base_bytes is None:
        raise MachineError(
            "this kernel doesn't tell what a cgroup uses, so the runtime's base is unknown",
            remedy="edgebench doctor",
        )
    return float(record.base_bytes)


def hot_bytes(record: TrialRecord) -> float:
    """What a pressed runtime keeps: of the limit, all that the scan could not have."""
    assert record.limit_bytes
    return float(record.limit_bytes - record.notes["passes"][-1]["resident_bytes"])
