"""The kernel's files that set a cgroup's limits.

Most are typed attributes, with cgroupspy's descriptors: version 1's controllers are its own
classes; version 2's files, and version 1's pids, are declared here with its interfaces. The hot
path of sampling does not come through here.

A disk's speed has a line for each disk: version 1's ``blkio.throttle.*``, version 2's ``io.max``
(Kernel documentation: admin-guide/cgroup-v1/blkio-controller.rst, admin-guide/cgroup-v2.rst).
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgroupspy.controllers import Controller, CpuController, MemoryController
from cgroupspy.interfaces import BaseFileInterface, CommaDashSetFile, FlagFile, ListFile
from cgroupspy.nodes import Node

from edgebench.boards import AS_IS_REMEDY, StorageSpeed
from edgebench.errors import CgroupError

PAGE = os.sysconf("SC_PAGE_SIZE")
#: What version 1 shows where there is no limit, whatever its page size.
UNLIMITED = sys.maxsize // PAGE * PAGE
#: The kernel's own default period, µs.
CPU_PERIOD_US = 100_000
_REFUSALS = {
    errno.EACCES: "run it as root, or in a cgroup that you own; see how with: edgebench doctor",
    errno.EBUSY: "the memory in use can't be reclaimed down to that limit: set a larger one",
    errno.EINVAL: "the parent cgroup doesn't allow that value, or the cores don't exist: see nproc",
    errno.ERANGE: "choose a value in the kernel's range",
}
#: Attribute of a speed → version 1's file, and version 2's key in ``io.max``.
_V1_SPEEDS = {
    "read_bps": "blkio.throttle.read_bps_device",
    "write_bps": "blkio.throttle.write_bps_device",
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
}
_V2_SPEEDS = {"read_bps": "rbps", "write_bps": "wbps", "read_iops": "riops", "write_iops": "wiops"}
_V2_SPEED_FILE = "io.max"
NO_CONTROLLER = f"""\
storage can be held only as root, with the {{controller}} controller available to edgebench's cgroup
(kernel option CONFIG_BLK_DEV_THROTTLING). See which are, with: edgebench doctor; or
{AS_IS_REMEDY}"""


class MaxFile(BaseFileInterface):  # type: ignore[misc]
    """A number, or ``max`` for no limit: None."""

    def sanitize_get(self, value: str) -> int | None:
        """Return None for ``max``."""
        return None if value == "max" else int(value)

    def sanitize_set(self, value: int | None) -> str:
        """Return ``max`` for None."""
        return "max" if value is None else str(value)


class CpuMaxFile(BaseFileInterface):  # type: ignore[misc]
    """``quota period`` in µs as a number of cores; None for no limit."""

    def sanitize_get(self, value: str) -> float | None:
        """Return the cores."""
        quota, period = value.split()
        return None if quota == "max" else int(quota) / int(period)

    def sanitize_set(self, value: float | None) -> str:
        """Return quota and period for this many cores."""
        quota = "max" if value is None else str(round(value * CPU_PERIOD_US))
        return f"{quota} {CPU_PERIOD_US}"


class SwitchesFile(ListFile):  # type: ignore[misc]
    """The controllers switched on; written as ``+name`` and ``-name`` words."""

    readonly = False


class PidsController(Controller):  # type: ignore[misc]
    """Version 1's pids."""

    max = MaxFile("pids.max")


class UnifiedController(Controller):  # type: ignore[misc]
    """All files of one version 2 cgroup that edgebench sets."""

    controllers = ListFile("cgroup.controllers")
    subtree_control: Any = SwitchesFile("cgroup.subtree_control")
    memory_max = MaxFile("memory.max")
    memory_high = MaxFile("memory.high")
    swap_max = MaxFile("memory.swap.max")
    oom_group = FlagFile("memory.oom.group")
    cpu_max = CpuMaxFile("cpu.max")
    cpus = CommaDashSetFile("cpuset.cpus")
    effective_cpus = CommaDashSetFile("cpuset.cpus.effective")
    pids_max = MaxFile("pids.max")


def unified_files(folder: Path) -> UnifiedController:
    """Open version 2's files of the cgroup at the folder."""
    return UnifiedController(Node(str(folder)))


def controller_files(kind: type[Any], folder: Path) -> Any:
    """Open the files of one of version 1's controllers, by its class."""
    return kind(Node(str(folder)))


def file_of(files: Any, name: str) -> Path:
    """Return the path of the file behind one typed attribute."""
    filename = inspect.getattr_static(files, name).filename
    return Path(files.filepath(filename).decode())


def has(files: Any, name: str) -> bool:
    """Return whether this kernel has the file behind one typed attribute."""
    return file_of(files, name).exists()


def put(files: Any, name: str, value: object) -> None:
    """Set one typed attribute.

    Raises:
        CgroupError: the kernel refused the value; names the file and the value.
    """
    try:
        setattr(files, name, value)
    except OSError as error:
        raise CgroupError(
            f"the kernel refused {value!r}: {error.strerror}",
            where=str(file_of(files, name)),
            remedy=_REFUSALS.get(error.errno or 0),
        ) from error


def is_busy(error: CgroupError) -> bool:
    """Return whether the kernel refused a limit since it could not reclaim enough just then."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EBUSY


def check_applied(asked: int | None, got: int | None, file: Path) -> None:
    """Check that the kernel applied a limit, rounded down to whole pages.

    Raises:
        CgroupError: it didn't; names the file, what was asked for and what was read back.
    """
    if asked is None or (got is not None and asked - PAGE < got <= asked):
        return
    raise CgroupError(
        f"a limit of {asked} bytes was not applied: the kernel has {'max' if got is None else got}",
        where=str(file),
        remedy="choose another size, in whole pages: 64M",
    )


def check_cores(cores: tuple[int, ...] | None) -> None:
    """Check that this process may use the cores, where no cpuset controller checks it.

    Raises:
        CgroupError: it may not.
    """
    usable = os.sched_getaffinity(0)
    if unusable := sorted(set(cores or ()) - usable):
        raise CgroupError(
            f"this process can't use the cores {unusable}", remedy=f"choose from {sorted(usable)}"
        )


def missing_controller(name: str, what: str) -> CgroupError:
    """Return the error for a limit whose controller is not available."""
    return CgroupError(
        f"{what} needs the {name} controller, which is not available in edgebench's cgroup",
        remedy="see why with: edgebench doctor; or remove that limit",
    )


def memory_limit_above(version: int, memory: Path) -> int | None:
    """Find the lowest visible memory limit at or above the current cgroup; None for none."""
    if version == 1:
        files = controller_files(MemoryController, memory)
        ceiling: int = files.stat["hierarchical_memory_limit"]
        return None if ceiling >= UNLIMITED else ceiling
    lowest = _lowest(memory, "memory_max")
    return int(lowest[0]) if lowest else None


def memory_high_above(memory: Path) -> tuple[int, Path] | None:
    """Find the lowest ``memory.high`` at or above the current cgroup and its file (version 2)."""
    lowest = _lowest(memory, "memory_high")
    return (int(lowest[0]), lowest[1]) if lowest else None


def cpu_quota_above(version: int, cpu: Path) -> float | None:
    """Find the lowest CPU quota at or above the current cgroup, in cores; None for none."""
    if version == 2:
        lowest = _lowest(cpu, "cpu_max")
        return lowest[0] if lowest else None
    quotas = []
    for folder in _upwards(cpu, "cpu.cfs_quota_us"):
        files = controller_files(CpuController, folder)
        quota = files.cfs_quota_us
        if quota is not None and quota >= 0:
            quotas.append(quota / files.cfs_period_us)
    return min(quotas, default=None)


def _lowest(folder: Path, name: str) -> tuple[float, Path] | None:
    file = file_of(unified_files(folder), name).name
    values = [(getattr(unified_files(f), name), f / file) for f in _upwards(folder, file)]
    return min(((value, path) for value, path in values if value is not None), default=None)


def _upwards(folder: Path, name: str) -> list[Path]:
    return [path for path in (folder, *folder.parents) if (path / name).exists()]


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
    controller, names = (
        ("blkio", list(_V1_SPEEDS.values())) if version == 1 else ("io", [_V2_SPEED_FILE])
    )
    applied: list[DiskLimit] = []
    for limit in limits:
        if folder is None or not all((folder / name).exists() for name in names):
            raise CgroupError(
                f"the speed of storage can't be held: the {controller} controller is not available",
                where=str(folder) if folder else None,
                remedy=NO_CONTROLLER.format(controller=controller),
            )
        speeds = vars(limit.speed)
        if version == 1:
            texts = {name: str(speeds[key] or 0) for key, name in _V1_SPEEDS.items()}
        else:
            words = (f"{name}={speeds[key] or 'max'}" for key, name in _V2_SPEEDS.items())
            texts = {_V2_SPEED_FILE: " ".join(words)}
        for name, text in texts.items():
            _write_speed(folder / name, f"{limit.number} {text}")
        speed = _read_speed(version, folder, limit.number)
        if speed != limit.speed:
            raise CgroupError(
                f"the speed of disk {limit.name} is not held: asked for {limit.speed.label}, "
                f"and the kernel has {speed.label}",
                where=str(folder),
                remedy=AS_IS_REMEDY,
            )
        applied.append(DiskLimit(limit.number, limit.name, speed))
    return tuple(applied)


def _write_speed(file: Path, words: str) -> None:
    try:
        file.write_text(words)
    except OSError as error:
        raise CgroupError(
            f"the kernel refused to hold a disk to {words!r}: {error.strerror}",
            where=str(file),
            remedy=AS_IS_REMEDY,
        ) from error


def _read_speed(version: int, folder: Path, number: str) -> StorageSpeed:
    """Read the speed that a disk is held to; a disk that isn't held has no line."""

    def entry(name: str) -> str:
        lines = (folder / name).read_text(errors="replace").splitlines()
        entries = (line.partition(" ") for line in lines)
        return next((words for disk, _, words in entries if disk == number), "")

    if version == 1:
        words = {key: entry(name) for key, name in _V1_SPEEDS.items()}
    else:
        pairs = dict(word.split("=") for word in entry(_V2_SPEED_FILE).split())
        words = {key: pairs.get(name, "max") for key, name in _V2_SPEEDS.items()}
    held: dict[str, Any] = {
        key: int(word) for key, word in words.items() if word not in ("", "max")
    }
    return StorageSpeed(**held)


def lift_disk_limits(folder: Path) -> None:
    """Let requests pass that are held, so that killed processes which wait for them end at once."""
    texts = dict.fromkeys(_V1_SPEEDS.values(), "0")
    texts[_V2_SPEED_FILE] = " ".join(f"{name}=max" for name in _V2_SPEEDS.values())
    for name, text in texts.items():
        file = folder / name
        # The cgroup, or the file, may be gone.
        with contextlib.suppress(OSError):
            for line in file.read_text(errors="replace").splitlines():
                file.write_text(f"{line.partition(' ')[0]} {text}")
