"""A calibration: blocks of scans, and one network that is slowed by a probe.

Memory and a file are scanned, and the runtime is pressed once. A probe is one walk without a limit,
whose pages are marked, and one slowed visit.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.boards import RAM
from edgebench.errors import EdgebenchError, MachineError, ResultsError
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import (
    SystemFiles,
    UnreadableError,
    swap_devices,
    whole_disk,
)
from edgebench.processes import cache_folder, caller_identity
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.run.trial.command import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial.controllers import ROOM
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import swap_areas
from edgebench.safe_files import make_folder, replaced
from edgebench.scenario.limits import WALK
from edgebench.scenario.new_scenario import scenario_from_flags
from edgebench.scenario.points import Point
from edgebench.slowdown.calibration import (
    FITS,
    SCHEMA,
    WIDE,
    Calibration,
    Scan,
    calibration_path,
    calibration_warnings,
    constant,
    constants_of,
    save_calibration,
)
from edgebench.text import AS_IS, MIB, format_size
from edgebench.workloads.recorder import FROZEN

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
SLOWED_NETWORK, _LEFT = "resnet50", 0.8
#: It tells nothing where, by the scans, less than this part of a round is added.
_LEAST_ADDED = 0.25
LIMIT_BYTES = 32 * MIB
#: The limit without what the scanning program itself keeps in RAM, about: left to what it scans.
_LEFT_BYTES = LIMIT_BYTES - 4 * MIB
#: What more it keeps, at most, where nothing of it can be swapped: the limit is wider by that.
_UNSWAPPED_BYTES = 10 * MIB
#: Room beyond the runtime where it can't be swapped.
_ROOM_BYTES = 48 * MIB
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
#: Settings that the probed workload shares with the one that was asked about.
_SHARED = ("schedule", "loader", "batch", "image", "threads", "warm")


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


def run_calibration(options: CalibrationOptions, progress: Progress) -> tuple[Calibration, Path]:
    """Measure this device's constants with one kind of swap, and keep them.

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
        blocks = Blocks(options, loop)
        blocks.run(path)
        made = blocks.result()
    made = with_slowed_visit(made, options, progress)
    return made, save_calibration(made, options.results)


@dataclass
class Blocks:
    """The blocks of one calibration, as far as they were measured."""

    options: CalibrationOptions
    loop: TrialLoop
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
        _finished(self.loop.warm())
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
            requests = (
                TrialRequest(
                    f"{number:04d}", point.id, block, block, point.settings, point.limits,
                    timeout_s=_TIMEOUT_S,
                )
                for number, point in enumerate(points, start=len(self.records) + 1)
            )  # fmt: skip
            self.loop.run(requests, self._keep)
            took_s = time.monotonic() - since
            self.blocks += 1

    def _keep(self, request: TrialRequest) -> TrialRecord:
        record = _finished(self.make(request))
        self.records.append(record)
        return record

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
            environment=capture(self.loop.session.setup.parent.describe),
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
    from edgebench.results.results import load
    from edgebench.slowdown.computed import Computed, workload_of
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import curves
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

    def visit() -> Path:
        limit = _LEFT * (made.hot_base_bytes.value + workload_of(settings, tables).table_bytes)
        return run_probe(network, settings, limit, options.results, progress, made.device)

    try:
        networks = describe_networks([network], identity=caller_identity())["networks"]
        tables = {network: networks[network]["table"]}
        try:
            measured = curves(load(visit()))
        except ResultsError:
            # The kernel may kill it though swap is free; the next time it may not.
            measured = curves(load(visit()))
        curve = next(curve for curve in measured if curve.phase == "total")
    except EdgebenchError as error:
        words = (
            f"{network} was not slowed: {error.what}; what waiting adds is known from scans alone"
        )
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


def run_probe(
    network: str,
    settings: Mapping[str, Any],
    limit_bytes: float,
    results: Path,
    progress: Progress,
    device: str | None = None,
) -> Path:
    """Walk to a limit, keep it as a sweep, and return its folder.

    Args:
        network: as a person names it.
        settings: the workload's; swap and storage are those that it is asked about with.
        limit_bytes: where it should be slowed.
        results: the folder of all devices.
        progress: shows the trial.
        device: its name; None: this machine's.

    Raises:
        EdgebenchError: the machine can't run it.
    """
    # Frames have whole numbers as floats, and NaN, which is not itself, for none.
    known = {k: v for k, v in settings.items() if v is not None and v == v}
    whole = {k: int(v) if isinstance(v, float) else v for k, v in known.items() if k in _SHARED}
    swap = kind = str(known.get("swap_kind", "none"))
    if kind not in ("none", "system"):
        size = known.get("swap_bytes")
        swap = "none" if size is None else f"{kind}:{float(size) / MIB:.0f}M"
    limits: dict[str, Any] = {
        "memory": ["max", f"{limit_bytes / MIB:.0f}M"],
        "swap": swap,
        "plan": WALK,
        # No fresh process starts at the limit.
        "starts": ["max"],
    }
    if storage := known.get("storage"):
        limits["storage"] = storage
    workload = {"kind": "inference", "network": network, "rounds": 3, **whole}
    scenario = scenario_from_flags("probe", workload, limits, repeats=1)
    return run_sweep(scenario, SweepOptions(results, device, fresh=True), progress).folder
