"""Holds a cgroup's disks to a speed: version 1's ``blkio.throttle.*``, version 2's ``io.max``.

Kernel documentation: admin-guide/cgroup-v1/blkio-controller.rst, admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.boards.storage import AS_IS_REMEDY, StorageSpeed
from edgebench.errors import CgroupError

#: Attribute of a speed → version 1's file, and version 2's key in ``io.max``.
_V1 = {
    "read_bps": "blkio.throttle.read_bps_device",
    "write_bps": "blkio.throttle.write_bps_device",
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
}
_V2 = {"read_bps": "rbps", "write_bps": "wbps", "read_iops": "riops", "write_iops": "wiops"}
_V2_FILE = "io.max"
NO_CONTROLLER = f"""\
storage can be held only as root, with the {{controller}} controller available to edgebench's cgroup
(kernel option CONFIG_BLK_DEV_THROTTLING). See which are, with: edgebench doctor; or
{AS_IS_REMEDY}"""


@dataclass(frozen=True)
class DiskLimit:
    """A whole disk and the speed it is held to. ``number`` is the kernel's, as ``254:0``."""

    number: str
    name: str
    speed: StorageSpeed


def set_disk_limits(
    version: int, folder: Path | None, limits: Iterable[DiskLimit]
) -> tuple[DiskLimit, ...]:
    """Hold the disks for the cgroup, and read back what the kernel has.

    Args:
        version: 1 or 2, of cgroups.
        folder: the cgroup's folder of the blkio or io controller; None: it has none.
        limits: at most one for each disk.

    Raises:
        CgroupError: the controller is not available, or the kernel refused or ignored a speed.
    """
    return tuple(_set(version, folder, limit) for limit in limits)


def _set(version: int, folder: Path | None, limit: DiskLimit) -> DiskLimit:
    controller, files = ("blkio", _V1.values()) if version == 1 else ("io", [_V2_FILE])
    if folder is None or not all((folder / name).exists() for name in files):
        raise CgroupError(
            f"the speed of storage can't be held: the {controller} controller is not available",
            where=str(folder) if folder else None,
            remedy=NO_CONTROLLER.format(controller=controller),
        )
    if version == 1:
        for key, name in _V1.items():
            _write(folder / name, f"{limit.number} {getattr(limit.speed, key) or 0}")
    else:
        words = [f"{name}={getattr(limit.speed, key) or 'max'}" for key, name in _V2.items()]
        _write(folder / _V2_FILE, " ".join([limit.number, *words]))
    applied = _speed(version, folder, limit.number)
    if applied != limit.speed:
        raise CgroupError(
            f"the speed of disk {limit.name} is not held: asked for {limit.speed.label}, "
            f"and the kernel has {applied.label}",
            where=str(folder),
            remedy=AS_IS_REMEDY,
        )
    return DiskLimit(limit.number, limit.name, applied)


def _write(file: Path, words: str) -> None:
    try:
        file.write_text(words)
    except OSError as error:
        raise CgroupError(
            f"the kernel refused to hold a disk to {words!r}: {error.strerror}",
            where=str(file),
            remedy=AS_IS_REMEDY,
        ) from error


def _speed(version: int, folder: Path, number: str) -> StorageSpeed:
    found: dict[str, Any]
    if version == 1:
        told = {key: _entry(folder / name, number) for key, name in _V1.items()}
        found = {key: int(words) for key, words in told.items() if words}
    else:
        pairs = dict(word.split("=") for word in _entry(folder / _V2_FILE, number).split())
        told = {key: pairs.get(name, "max") for key, name in _V2.items()}
        found = {key: int(words) for key, words in told.items() if words != "max"}
    return StorageSpeed(**found)


def _entry(file: Path, number: str) -> str:
    """What follows the disk's number in its line; empty if there is none."""
    for line in file.read_text(errors="replace").splitlines():
        disk, _, words = line.partition(" ")
        if disk == number:
            return words
    return ""


def lift_disk_limits(folder: Path) -> None:
    """Let requests pass that are held, so that killed processes which wait for them end at once."""
    for name in _V1.values():
        _lift(folder / name, "{} 0")
    _lift(folder / _V2_FILE, "{} rbps=max wbps=max riops=max wiops=max")


def _lift(file: Path, words: str) -> None:
    # The cgroup, or the file, may be gone.
    with contextlib.suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            file.write_text(words.format(line.partition(" ")[0]))
