"""The kernel's configuration files as typed attributes, with cgroupspy's descriptors.

Version 1's controllers are cgroupspy's own classes; version 2's files, and version 1's pids,
are declared here with its interfaces. The hot path of sampling does not come through here.
"""

from __future__ import annotations

import inspect
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


_REFUSALS = {
    13: "run it as root, or in a cgroup that is yours (edgebench doctor says how)",
    16: "something is in the way there: for a limit, memory that can't be reclaimed",
    22: "the value is beyond what the cgroup above allows, or no such cores exist",
    34: "the value is out of the kernel's range",
}
