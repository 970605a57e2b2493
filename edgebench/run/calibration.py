"""A calibration: two or three blocks of scans, and one network that is slowed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.boards.storage import AS_IS, RAM
from edgebench.cache import cache_folder
from edgebench.errors import EdgebenchError, MachineError, ResultsError
from edgebench.measures.machine.disks import swap_devices, whole_disk
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import TrialRecord
from edgebench.run.calibration_points import FILE_BYTES, HOT_BASE, calibration_points, scan_file
from edgebench.run.probe import run_probe
from edgebench.run.sweep.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.storage import swap_areas
from edgebench.safe_files import make_folder
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration import (
    SCHEMA,
    Calibration,
    calibration_path,
    constant,
    save_calibration,
)
from edgebench.units import format_size

#: A calibration is of this many blocks, or of as many as fit into this time, but two.
REPEATS, TIME_S, _LEAST = 3, 20.0, 2
_TIMEOUT_S = 300.0
_AGAIN = """\
the kernel killed {} of its trials though swap was free, and they were made again: see \
docs/explanation/observer-effect.md"""
#: How often a trial that was killed so is made again.
_MOST_AGAIN = 2
#: A scan's own counters tell what it missed; the sampler is only to show the trial's course.
_INTERVAL_S = 0.02
#: The network that is slowed, and the part that is left of what its rounds should use.
SLOWED_NETWORK, _LEFT = "resnet18", 0.8
#: It tells nothing where, by the scans, less than this part of a round is added.
_LEAST_ADDED = 0.25


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
    options = replace(options, device=options.device or device_name())
    path = calibration_path(options.results, str(options.device), options.swap_kind, options.ram)
    try:
        # Before anything is measured: the results must have a place.
        make_folder(path.parent, parents=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(13, os.strerror(13))
    except OSError as error:
        raise ResultsError(
            f"can't write to the device's folder: {error.strerror}",
            where=str(path.parent),
            remedy="make it writable, or name another: --results FOLDER",
        ) from None
    with open_trial_loop(progress, interval_s=_INTERVAL_S, stat_interval_s=_INTERVAL_S) as loop:
        blocks = Blocks(options, loop, meanwhile)
        blocks.run(path)
        made = blocks.result()
    made = with_slowed_visit(made, options, progress)
    return made, save_calibration(made, options.results)


@dataclass
class Blocks:
    """The blocks of one calibration, as far as they were measured."""

    options: CalibrationOptions
    loop: TrialLoop
    meanwhile: Callable[[], None]
    records: list[TrialRecord] = field(default_factory=list)
    blocks: int = 0
    other_swap: dict[str, int] = field(default_factory=dict)
    again: int = 0

    def run(self, path: Path) -> None:
        """Set up, then block after block until all are done or the time is up."""
        began, options, session = time.monotonic(), self.options, self.loop.session
        swap = options.swap_kind, options.swap_bytes
        if options.ram:
            folder = session.setup.storage.ram_disk.need((options.swap_bytes or 0) + FILE_BYTES)
            session.swap.use(*swap, folder)
        else:
            session.swap.use(*swap)
            folder = cache_folder(session.setup.identity)
        # The first import reads the runtime's files too, which is no part of it.
        beside = threading.Thread(target=self.meanwhile)
        beside.start()
        try:
            _finished(self.loop.warm())
        finally:
            beside.join()
        machine, file = SystemFiles(), scan_file(folder / "scan", FILE_BYTES)
        areas = swap_areas(machine, session.swap.state)
        disks = [_disk_of(machine, place) for place in (areas[0] if areas else None, file)]
        blocks = [calibration_points(n, *swap, file, *disks) for n in range(options.repeats)]
        self.loop.progress.begin(path, sum(map(len, blocks)), 0)
        took_s = 0.0
        for block, points in enumerate(blocks):
            if block >= _LEAST and time.monotonic() - began + took_s > options.time_s:
                break
            if options.swap_kind not in ("none", "system"):
                # Swap is the whole machine's: a scan may go to any that is on.
                used = str(session.swap.state.device)
                devices = {d["name"]: d["size_bytes"] for d in swap_devices(machine)}
                self.other_swap |= {k: v for k, v in devices.items() if k != used}
            since = time.monotonic()
            requests = self._requests(block, points)
            self.loop.run(requests, self.make, lambda made: self.records.append(_finished(made)))
            took_s = time.monotonic() - since
            self.blocks += 1

    def _requests(self, block: int, points: list[Point]) -> Iterator[TrialRequest]:
        for number, point in enumerate(points, start=len(self.records) + 1):
            about = f"{number:04d}", point.id, block, block
            yield TrialRequest(*about, point.settings, point.limits, timeout_s=_TIMEOUT_S)

    def make(self, request: TrialRequest) -> TrialRecord:
        """Make a trial; again, but not for ever, if the kernel killed it though swap was free."""
        record = self.loop.unkept(request)
        for _ in range(_MOST_AGAIN):
            if not record.killed_with_swap_free:
                break
            self.again += 1
            record = self.loop.unkept(request)
        return record

    def result(self) -> Calibration:
        """Return the constants, from all blocks.

        Raises:
            MachineError: the kernel doesn't tell what the runtime uses; nothing came from a disk.
        """
        from edgebench.slowdown.scans import Scan, calibration_warnings, constants_of

        options = self.options
        scans = [
            Scan(block=record.block, **one)
            for record in self.records
            for one in record.notes.get("passes", ())
        ]
        runtimes = [record for record in self.records if record.point == HOT_BASE]
        base, hot = zip(*map(runtime_bytes, runtimes), strict=True)
        constants: dict[str, Any] = constants_of(
            scans, base, hot, swaps=options.swap_kind != "none"
        )
        warnings = calibration_warnings(constants, [record.noise for record in self.records])
        if self.blocks < options.repeats:
            warnings.append(
                f"{self.blocks} of {options.repeats} repeats fitted into {options.time_s:.0f} s: "
                "this device is slow, or something else runs on it"
            )
        warnings += [_AGAIN.format(self.again)] if self.again else []
        warnings += [
            f"other swap was on ({name}, {format_size(size)}), and scans may have gone there: "
            f"turn it off (swapoff {name}) and calibrate again, or calibrate it: --swap system"
            for name, size in self.other_swap.items()
        ]
        return Calibration(
            device=str(options.device),
            swap_kind=options.swap_kind,
            created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            schema=SCHEMA,
            environment=capture(self.loop.session.setup.parent),
            **constants,
            scans=tuple(map(asdict, scans)),
            ram=options.ram,
            warnings=tuple(warnings),
        )


def _disk_of(machine: SystemFiles, place: Path | None) -> str | None:
    try:
        disk = whole_disk(machine, place) if place else None
    except UnreadableError:
        return None
    return disk.number if disk else None


def _finished(record: TrialRecord) -> TrialRecord:
    """Without one of its trials there are no constants."""
    if record.outcome != "ok":
        raise MachineError(
            f"the scan at {record.limits.label} ended as {record.outcome}: {record.reason}",
            remedy="end other programs that use memory; give more swap if it is small: --swap 2G",
        )
    return record


def runtime_bytes(record: TrialRecord) -> tuple[float, float]:
    """Return the runtime's footprint before its limit was set, and what it keeps below that.

    Raises:
        MachineError: the kernel doesn't tell it.
    """
    if record.base_bytes is None:
        raise MachineError(
            "this kernel doesn't tell what a cgroup uses, so the runtime's base is unknown",
            remedy="edgebench doctor",
        )
    assert record.limit_bytes
    # Of the limit, all that the scan could not have.
    hot = record.limit_bytes - record.notes["passes"][-1]["resident_bytes"]
    return float(record.base_bytes), float(hot)


def with_slowed_visit(
    made: Calibration, options: CalibrationOptions, progress: Progress
) -> Calibration:
    """Slow a network once, and note what that adds ÷ what the scans say; else a warning."""
    from edgebench.identity import caller_identity
    from edgebench.results.results import load
    from edgebench.slowdown.computed import Computed
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import curves
    from edgebench.slowdown.workload import workload_of
    from edgebench.workloads.preparation import describe_networks

    network, swaps = SLOWED_NETWORK, made.swap_kind != "none"
    settings: dict[str, Any] = {
        "kind": "inference",
        "pipeline": network,
        "schedule": "bulk",
        "warm": 2,
        "loader": "copy" if swaps else "mmap",
        "swap_kind": made.swap_kind,
        "swap_bytes": options.swap_bytes,
        "storage": f"disk={RAM}" if made.ram else AS_IS,
    }
    try:
        networks = describe_networks([network], identity=caller_identity())["networks"]
        tables = {network: networks[network]["table"]}
        used = made.hot_base_bytes.value + workload_of(settings, tables).table_bytes
        folder = run_probe(network, settings, _LEFT * used, options.results, progress, made.device)
        (curve,) = (one for one in curves(load(folder)) if one.phase == "total")
    except (EdgebenchError, ValueError) as error:
        words = f"no network was slowed ({error}): what waiting adds is known from scans alone"
        return replace(made, warnings=(*made.warnings, words))
    phase = Computed(DeviceData(made.device, made.swap_kind, (), tables, made)).phase(curve)
    said = phase.seconds(curve.limits) - curve.unlimited_s
    added = (curve.medians - 1) * curve.unlimited_s
    known = said > _LEAST_ADDED * curve.unlimited_s
    if not known.any():
        words = f"{network} should hardly be slowed at {format_size(curve.limits[0])}"
        words += ": what waiting adds is known from scans alone"
        return replace(made, warnings=(*made.warnings, words))
    ratios = np.maximum(added[known] / said[known], 0.0)
    return replace(made, seen_share=constant("share", ratios.tolist()))
