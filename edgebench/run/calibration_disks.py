"""The disks of a calibration: which they are, how fast by themselves, which speeds to try."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from edgebench.boards.storage import DECLARED_BPS, StorageSpeed
from edgebench.cgroups.disk_limits import DiskLimit
from edgebench.cgroups.storage_check import DiskSpeed
from edgebench.errors import CgroupError
from edgebench.measures.machine.disks import WholeDisk, whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.calibration_points import ScannedDisks
from edgebench.run.session import Session
from edgebench.run.storage import swap_areas
from edgebench.slowdown.calibration.device import Constant, constant

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
