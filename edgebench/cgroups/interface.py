"""One cgroup as the rest of edgebench uses it, the same on cgroup versions 1 and 2.

``v1.py`` and ``v2.py`` implement :meth:`Cgroup.set_limits` and what else differs. A value that the
kernel doesn't offer is ``None``, never a guessed 0. Whether a file exists is checked in the file
system, never inferred from a version number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from edgebench.cgroups.counters import Counters, Sources, read_counters
from edgebench.cgroups.disk_limits import DiskLimit, set_disk_limits
from edgebench.cgroups.files import check_applied
from edgebench.cgroups.removal import kill_all, pids_in, remove_all
from edgebench.errors import CgroupError

#: The limits that hold memory, of those below.
MEMORY_SIZES = ("memory_bytes", "memory_high_bytes")


@dataclass(frozen=True)
class Limits:
    """What a cgroup may use at most. ``None`` is unlimited.

    ``swap_bytes`` is swap alone, in addition to ``memory_bytes`` (v1's memsw is derived from it);
    ``cpu_quota`` is in cores, as 1.5. ``disks`` are those held to a speed. From
    ``memory_high_bytes`` on the kernel throttles and reclaims (version 2).
    """

    memory_bytes: int | None = None
    swap_bytes: int | None = None
    cores: tuple[int, ...] | None = None
    cpu_quota: float | None = None
    pids: int | None = None
    disks: tuple[DiskLimit, ...] = ()
    memory_high_bytes: int | None = None

    @property
    def lowest_bytes(self) -> int | None:
        """Where memory is held at the latest: at its limit, or where it is throttled before."""
        sizes = (getattr(self, name) for name in MEMORY_SIZES)
        return min((size for size in sizes if size is not None), default=None)


@dataclass(frozen=True)
class HotFiles:
    """Files that the sampler and the worker keep open; ``None`` where the kernel has no such file.

    ``swap`` holds memory + swap together when ``swap_is_memsw`` (v1), else swap alone (v2).
    ``kernel`` holds the kernel's memory alone where ``stat`` has no line for it (v1).
    ``cpu_unit_ns`` is how many nanoseconds one unit in ``cpu`` is (v1: a bare number of ns;
    v2: ``usage_usec`` of ``cpu.stat``). ``peak_resets``: a write to ``peak`` resets it.
    ``flushing`` names the fields whose files make the kernel flush the statistics by which it
    reclaims: reading them can prevent a kill.
    """

    usage: Path
    peak: Path | None = None
    peak_resets: bool = False
    swap: Path | None = None
    swap_is_memsw: bool = False
    swap_peak: Path | None = None
    stat: Path | None = None
    kernel: Path | None = None
    cpu: Path | None = None
    cpu_unit_ns: int = 1
    pressure: Path | None = None
    io: Path | None = None
    flushing: tuple[str, ...] = ()

    def without_flushing(self) -> HotFiles:
        """The files that can be read without such an effect."""
        nothing: dict[str, Any] = dict.fromkeys(self.flushing)
        return replace(self, **nothing, flushing=())


class Cgroup(ABC):
    """One cgroup made by edgebench, by :meth:`edgebench.cgroups.parent.ParentCgroup.create`.

    Args:
        folders: controller → the cgroup's folder; ``memory`` is always there.
        removed: called once the folders are gone.
    """

    version: int
    #: The limits of :class:`Limits` that this version has.
    settable: frozenset[str]
    #: Key of :class:`Counters` → where it is found, and why the others never are.
    sources: Sources
    unavailable: Mapping[str, str] = {}

    def __init__(self, folders: Mapping[str, Path], removed: Callable[[], None]) -> None:
        #: The folder whose memory files count.
        self.path = folders["memory"]
        self._folders = dict(folders)
        self._removed = removed

    def set_limits(self, limits: Limits) -> Limits:
        """Set the limits and read them back as the kernel rounded them.

        ``cores`` without a cpuset controller are enforced by the affinity that the join helper
        sets.

        Raises:
            CgroupError: the kernel refused one or ignored it; names the file and the value.
        """
        asked = {field.name for field in fields(limits) if getattr(limits, field.name) is not None}
        if lacking := sorted(asked - self.settable):
            raise unsupported(self.version, lacking[0])
        self._write_limits(limits)
        applied = replace(self.read_limits(limits), disks=self.hold_disks(limits.disks))
        for name, file in self.size_files.items():
            check_applied(getattr(limits, name), getattr(applied, name), file)
        return applied

    def move_memory_limit(
        self, memory_bytes: int | None, swap_bytes: int | None, *, waits: bool = True
    ) -> int | None:
        """Change the memory limit while processes live in it; as the kernel rounded it.

        The kernel reclaims at once. ``swap_bytes`` is the limit of swap that :meth:`set_limits` was
        given; it stays. ``waits``: whether version 1 tries for a second to reclaim enough.

        Raises:
            CgroupError: the kernel refused it, as what is in use can't be reclaimed down to it: on
                version 1, and on version 2 without ``waits`` (else that kills instead).
        """
        asked = Limits(memory_bytes, swap_bytes)
        self._write_memory(asked, waits=waits)
        applied = self.read_limits(asked).memory_bytes
        check_applied(memory_bytes, applied, self.size_files["memory_bytes"])
        return applied

    @property
    @abstractmethod
    def size_files(self) -> dict[str, Path]:
        """Each limit of memory, by its name in :class:`Limits`, and its file."""

    @abstractmethod
    def _write_limits(self, limits: Limits) -> None:
        """Write all limits but those of disks."""

    @abstractmethod
    def _write_memory(self, limits: Limits, *, waits: bool) -> None:
        """Write the memory limit of a cgroup that has processes."""

    @abstractmethod
    def read_limits(self, asked: Limits) -> Limits:
        """The limits but those of disks, as the kernel has them now.

        ``cores`` are those of ``asked`` where no cpuset controller has them.

        Raises:
            CgroupError, OSError: the cgroup is gone.
        """

    @abstractmethod
    def hot_files(self) -> HotFiles:
        """The files to keep open for sampling."""

    def read(self) -> Counters:
        """All counters that the kernel has, now."""
        return read_counters(self._folders, self.sources, self.unavailable)[0]

    def missing(self) -> dict[str, str]:
        """Key of each counter that this kernel lacks → why."""
        return read_counters(self._folders, self.sources, self.unavailable)[1]

    def file(self, controller: str, name: str) -> Path | None:
        """A controller's file of this cgroup; None if the kernel has no such file."""
        folder = self._folders.get(controller)
        return folder / name if folder and (folder / name).exists() else None

    def join_files(self) -> tuple[Path, ...]:
        """The ``cgroup.procs`` files into which a process writes its pid to join.

        Memory's is last: memory is charged from then on.
        """
        others = dict.fromkeys(f for f in self._folders.values() if f != self.path)
        return tuple(folder / "cgroup.procs" for folder in (*others, self.path))

    def pids(self) -> tuple[int, ...]:
        """The processes in it now."""
        return pids_in(self.path)

    def hold_disks(self, limits: tuple[DiskLimit, ...]) -> tuple[DiskLimit, ...]:
        """Hold its disks to a speed until its processes are killed; as the kernel has it.

        Raises:
            CgroupError: the kernel can't, or refused or ignored a speed.
        """
        controller = "blkio" if self.version == 1 else "memory"
        return set_disk_limits(self.version, self._folders.get(controller), limits)

    def kill(self) -> None:
        """Kill all processes in it and wait until they are gone. Safe to call twice."""
        kill_all(self._folders.values())

    def remove(self) -> None:
        """Kill all processes in it, then remove the cgroup. Safe to call twice."""
        remove_all(self._folders.values())
        self._removed()


def unsupported(version: int, name: str) -> CgroupError:
    """The error for a limit that this version of cgroups does not have."""
    other = 3 - version
    return CgroupError(
        f"{name.removesuffix('_bytes')} needs cgroup version {other}: the memory controller is on "
        f"version {version} here, which has no such limit",
        remedy=f"leave it out, or boot with version {other}",
    )
