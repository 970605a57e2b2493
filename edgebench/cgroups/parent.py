"""The cgroup in which trials' cgroups are created, or the exact reason why none can be.

It is always the harness's own cgroup or below it, so limits set on the harness stay in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.files import unified_files
from edgebench.cgroups.hierarchy import (
    Hierarchy,
    cpu_quota_above,
    hierarchies,
    memory_high_above,
    memory_limit_above,
)
from edgebench.cgroups.interface import Cgroup, unsupported
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.removal import remove_all
from edgebench.cgroups.support import Finding, no_support, support_findings
from edgebench.errors import CgroupError

if TYPE_CHECKING:
    from edgebench.cgroups.delegation import DelegatedFolder

__all__ = ["Finding", "ParentCgroup", "check_support", "find_parent"]
NO_CGROUPS = """\
no cgroup file system is mounted. As root:
    mount -t cgroup2 cgroup2 /sys/fs/cgroup"""

NO_MEMORY = """\
the kernel runs without the memory controller (as Raspberry Pi OS boots by default). Add to the
kernel's command line (/boot/firmware/cmdline.txt, or GRUB_CMDLINE_LINUX in /etc/default/grub):
    cgroup_enable=memory swapaccount=1
and restart. See which controllers are on with: cat /proc/cgroups"""

NOT_VISIBLE = """\
the cgroup mount does not show the cgroup of this process, as in some containers. Start the
container with its own view of cgroups:
    docker run --cgroupns=private --privileged …"""

READ_ONLY = """\
cgroups are mounted read-only, as is usual in containers. Start the container with:
    docker run --privileged --cgroupns=private …
or run edgebench on the host."""

NOT_OURS = """\
this cgroup belongs to root. Run edgebench under sudo (the workload still runs as you):
    sudo "$(command -v edgebench)" …
or let root give you a cgroup, once for this shell:
    sudo mkdir {folder}/mine && sudo chown -R $(id -u) {folder}/mine &&
    echo $$ | sudo tee {folder}/mine/cgroup.procs"""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NAME_REMEDY = "use letters, digits, dots, dashes and underscores"


class ParentCgroup:
    """The cgroup in which edgebench creates others.

    Args:
        version: 1 or 2.
        bases: controller → the folder to create cgroups in; ``memory`` is always there.
        ownership: records each cgroup before it is created; None records nothing.
    """

    def __init__(
        self, version: int, bases: Mapping[str, Path], ownership: Ownership | None = None
    ) -> None:
        self.version = version
        self.bases = dict(bases)
        self.path = bases["memory"]
        self.ownership = ownership

    @property
    def ceiling_bytes(self) -> int | None:
        """The lowest visible memory limit of this cgroup and those above; None: no limit."""
        return memory_limit_above(self.version, self.path)

    def create(self, name: str, accounting: bool = True) -> Cgroup:
        """Create the cgroup ``edgebench-<name>``, unlimited and empty.

        Args:
            name: letters, digits, dots, dashes and underscores.
            accounting: use the CPU, I/O and pids controllers too, where available.

        Raises:
            CgroupError: it can't be created.
        """
        if not _NAME.fullmatch(name):
            raise CgroupError(f"{name!r} can't be a cgroup's name", remedy=_NAME_REMEDY)
        bases = self.bases if accounting else {"memory": self.path}
        folders = {controller: base / f"edgebench-{name}" for controller, base in bases.items()}
        made: list[Path] = []
        try:
            for folder in dict.fromkeys(folders.values()):
                self._make(folder)
                made.append(folder)
            return self._open(folders)
        except BaseException:
            remove_all(made)
            self._release(made)
            raise

    def _make(self, folder: Path) -> None:
        if folder.exists():
            raise CgroupError(
                "the cgroup already exists", where=str(folder), remedy=f"rmdir {folder}"
            )
        self._claim(folder)
        try:
            folder.mkdir()
        except OSError as error:
            self._release([folder])
            raise CgroupError(
                f"can't create a cgroup: {error.strerror}",
                where=str(folder),
                remedy="see why with: edgebench doctor",
            ) from error

    def _open(self, folders: Mapping[str, Path]) -> Cgroup:
        def removed() -> None:
            self._release(folders.values())

        if self.version == 1:
            from edgebench.cgroups.v1 import V1Cgroup

            return V1Cgroup(folders, removed)
        from edgebench.cgroups.v2 import V2Cgroup

        return V2Cgroup(folders["memory"], removed)

    def _claim(self, folder: Path) -> None:
        if self.ownership:
            self.ownership.claim("cgroup", str(folder))

    def _release(self, folders: Iterable[Path]) -> None:
        if self.ownership:
            for folder in dict.fromkeys(folders):
                self.ownership.release("cgroup", str(folder))

    def describe(self) -> dict[str, Any]:
        """Its properties, for the environment's record; tested with a temporary cgroup."""
        probe = self.create(f"{os.getpid()}-probe")
        try:
            hot = probe.hot_files()
            missing = probe.missing()
        finally:
            probe.remove()
        throttle = memory_high_above(self.path)
        cpu = self.bases.get("cpu")
        return {
            "version": self.version,
            "hybrid": len({hierarchy.version for hierarchy in hierarchies()}) > 1,
            "throttle_bytes": throttle[0] if throttle else None,
            "throttle_file": str(throttle[1]) if throttle else None,
            "cpu_quota": cpu_quota_above(self.version, cpu) if cpu else None,
            "cores": len(os.sched_getaffinity(0)),
            "path": str(self.path),
            "controllers": sorted(self.bases),
            "ceiling_bytes": self.ceiling_bytes,
            "peak": hot.peak is not None,
            "peak_resets": hot.peak_resets,
            "swap_accounting": hot.swap is not None,
            "pressure": hot.pressure is not None,
            "missing": missing,
        }


def find_parent(ownership: Ownership) -> ParentCgroup:
    """The cgroup to create others in; on version 2 this may move this process into a scope or leaf.

    Args:
        ownership: records what is created and changed, and undoes it when it ends.

    Raises:
        CgroupError: there is none; says why and what to type.
    """
    found = hierarchies()
    memory = _memory_hierarchy(found)
    own = memory.folder
    if own is None:
        raise _error("the current cgroup is not visible here", memory.mount, NOT_VISIBLE)
    if memory.read_only:
        raise _error("the cgroup hierarchy of memory is mounted read-only", memory.mount, READ_ONLY)
    if memory.version == 1:
        return ParentCgroup(1, _v1_bases(found, own), ownership)
    from edgebench.cgroups.delegation import enter_scope

    try:
        base = _v2_base(own, memory.mount, ownership)
    except CgroupError:
        if not enter_scope(own, memory.mount):
            raise
        own = _memory_hierarchy(hierarchies()).folder or own
        base = _v2_base(own, memory.mount, ownership)
    return ParentCgroup(2, dict.fromkeys(base.controllers, base.folder), ownership)


def _v2_base(own: Path, mount: Path, ownership: Ownership) -> DelegatedFolder:
    """Where cgroups can be created now; what that changed is claimed."""
    from edgebench.cgroups.delegation import enable_controllers, find_base

    base = find_base(own, mount)
    enable_controllers(base, ownership)
    return base


def refused_limit(version: int, names: Iterable[str]) -> CgroupError | None:
    """The error for a limit of these names that this version does not have; None: it has all."""
    if version == 1:
        from edgebench.cgroups.v1 import V1Cgroup

        settable = V1Cgroup.settable
    else:
        from edgebench.cgroups.v2 import V2Cgroup

        settable = V2Cgroup.settable
    lacking = sorted(set(names) - settable)
    return unsupported(version, lacking[0]) if lacking else None


def memory_version() -> int | None:
    """The version of cgroups that the memory controller is on here; None without one."""
    try:
        return _memory_hierarchy(hierarchies()).version
    except (CgroupError, OSError):
        return None


def check_support() -> list[Finding]:
    """What this machine's cgroups support, for ``doctor``; leaves nothing behind."""
    with Ownership() as ownership:
        try:
            return support_findings(find_parent(ownership).describe())
        except CgroupError as error:
            return no_support(error)


def _memory_hierarchy(found: list[Hierarchy]) -> Hierarchy:
    """The hierarchy that the memory controller is in."""
    if not found:
        raise _error("no cgroups are mounted", Path("/sys/fs/cgroup"), NO_CGROUPS)
    for hierarchy in found:
        if hierarchy.version == 1 and "memory" in hierarchy.controllers:
            return hierarchy
    unified = [hierarchy for hierarchy in found if hierarchy.version == 2]
    # Version 2 has it in the current cgroup or at the top of the hierarchy.
    folders = [folder for one in unified[:1] for folder in (one.mount, one.folder) if folder]
    if not any("memory" in unified_files(folder).controllers for folder in folders):
        raise _error("the kernel's memory controller is off", found[0].mount, NO_MEMORY)
    return unified[0]


def _v1_bases(found: list[Hierarchy], memory: Path) -> dict[str, Path]:
    """The current cgroup in memory's hierarchy, and in each other one where it is writable."""
    if not os.access(memory, os.W_OK):
        remedy = NOT_OURS.format(folder=memory)
        raise _error(
            "can't create a cgroup: the current one belongs to another user", memory, remedy
        )
    bases = {"memory": memory}
    for hierarchy in found:
        usable = hierarchy.version == 1 and hierarchy.folder and not hierarchy.read_only
        if usable and hierarchy.folder and os.access(hierarchy.folder, os.W_OK):
            bases |= dict.fromkeys(hierarchy.controllers - set(bases), hierarchy.folder)
    return bases


def _error(what: str, where: Path, remedy: str) -> CgroupError:
    return CgroupError(what, where=str(where), remedy=remedy)
