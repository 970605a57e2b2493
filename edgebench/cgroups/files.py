"""The kernel's configuration files as typed attributes, with cgroupspy's descriptors.

Version 1's controllers are cgroupspy's own classes; version 2's files, and version 1's pids,
are declared here with its interfaces. The hot path of sampling does not come through here.
"""

from __future__ import annotations

import errno
import inspect
import os
from pathlib import Path
from typing import Any

from cgroupspy.controllers import (
    Controller,
    CpuController,
    CpuSetController,
    MemoryController,
)
from cgroupspy.interfaces import BaseFileInterface, CommaDashSetFile, FlagFile, ListFile
from cgroupspy.nodes import Node

from edgebench.errors import CgroupError

PAGE = os.sysconf("SC_PAGE_SIZE")
#: The kernel's own default period, µs.
CPU_PERIOD_US = 100_000


class MaxFile(BaseFileInterface):  # type: ignore[misc]
    """A number, or ``max`` for no limit: None."""

    def sanitize_get(self, value: str) -> int | None:
        """None for ``max``."""
        return None if value == "max" else int(value)

    def sanitize_set(self, value: int | None) -> str:
        """``max`` for None."""
        return "max" if value is None else str(value)


class CpuMaxFile(BaseFileInterface):  # type: ignore[misc]
    """``quota period`` in µs as a number of cores; None for no limit."""

    def sanitize_get(self, value: str) -> float | None:
        """Cores."""
        quota, period = value.split()
        return None if quota == "max" else int(quota) / int(period)

    def sanitize_set(self, value: float | None) -> str:
        """Quota and period for so many cores."""
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


def memory_files(folder: Path) -> MemoryController:
    """Version 1's memory files of the cgroup at the folder."""
    return MemoryController(Node(str(folder)))


def cpu_files(folder: Path) -> CpuController:
    """Version 1's cpu files."""
    return CpuController(Node(str(folder)))


def cpuset_files(folder: Path) -> CpuSetController:
    """Version 1's cpuset files."""
    return CpuSetController(Node(str(folder)))


def pids_files(folder: Path) -> PidsController:
    """Version 1's pids files."""
    return PidsController(Node(str(folder)))


def unified_files(folder: Path) -> UnifiedController:
    """Version 2's files."""
    return UnifiedController(Node(str(folder)))


def file_of(files: Any, name: str) -> Path:
    """The path of the file behind one typed attribute."""
    filename = inspect.getattr_static(files, name).filename
    return Path(files.filepath(filename).decode())


def has(files: Any, name: str) -> bool:
    """Whether this kernel has the file behind one typed attribute."""
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
    """Whether the kernel refused a limit since it could not reclaim enough just then."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EBUSY


_REFUSALS = {
    13: "run it as root, or in a cgroup that you own; see how with: edgebench doctor",
    16: "the memory in use can't be reclaimed down to that limit: set a larger one",
    22: "the parent cgroup doesn't allow that value, or the cores don't exist: see nproc",
    34: "choose a value in the kernel's range",
}


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
    """The error for a limit whose controller is not available."""
    return CgroupError(
        f"{what} needs the {name} controller, which is not available in edgebench's cgroup",
        remedy="see why with: edgebench doctor; or remove that limit",
    )
