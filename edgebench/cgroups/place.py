"""Where a cgroup of ours may be made, or precisely why none may.

Always below the cgroup the harness itself is in, so that a limit it was given still holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from edgebench.cgroups import above
from edgebench.cgroups.delegation import Base, find_base, pass_down
from edgebench.cgroups.files import unified_files
from edgebench.cgroups.folders import remove_all
from edgebench.cgroups.hierarchy import Hierarchy, hierarchies
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.remedies import NO_CGROUPS, NO_MEMORY, NOT_OURS_V1, NOT_VISIBLE, READ_ONLY
from edgebench.cgroups.scope import enter_scope
from edgebench.cgroups.survey import Finding, findings, no_place
from edgebench.cgroups.v1 import V1Cgroup
from edgebench.cgroups.v2 import V2Cgroup
from edgebench.errors import CgroupError

__all__ = ["Finding", "Place", "find_place", "survey"]
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NAME_REMEDY = "use letters, digits, dots, dashes and underscores"


class Place:
    """A place for cgroups of ours.

    Args:
        version: 1 or 2.
        bases: controller → folder to make cgroups in; ``memory`` is always there.
        ownership: where each cgroup is written down before it is made; None for nowhere.
    """

    def __init__(
        self, version: int, bases: Mapping[str, Path], ownership: Ownership | None = None
    ) -> None:
        self.version = version
        self.bases = dict(bases)
        self.path = bases["memory"]
        self._ownership = ownership

    @property
    def ceiling_bytes(self) -> int | None:
        """The tightest memory limit at or above this place, as far as it shows; None for none."""
        return above.ceiling_bytes(self.version, self.path)

    def create(self, name: str, accounting: bool = True) -> Cgroup:
        """Make the cgroup ``edgebench-<name>``, unlimited and empty.

        Args:
            name: letters, digits, dots, dashes and underscores.
            accounting: also CPU, I/O and processes where that can be had; False is memory only.

        Raises:
            CgroupError: it can't be made.
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
            raise CgroupError("there is such a cgroup already", where=str(folder))
        self._claim(folder)
        try:
            folder.mkdir()
        except OSError as error:
            self._release([folder])
            raise CgroupError(
                f"a cgroup can't be made: {error.strerror}",
                where=str(folder),
                remedy="edgebench doctor says what stands against it",
            ) from error

    def _open(self, folders: Mapping[str, Path]) -> Cgroup:
        def removed() -> None:
            self._release(folders.values())

        if self.version == 1:
            return V1Cgroup(folders, removed)
        return V2Cgroup(folders["memory"], removed)

    def _claim(self, folder: Path) -> None:
        if self._ownership:
            self._ownership.claim("cgroup", str(folder))

    def _release(self, folders: Iterable[Path]) -> None:
        if self._ownership:
            for folder in dict.fromkeys(folders):
                self._ownership.release("cgroup", str(folder))

    def describe(self) -> dict[str, Any]:
        """What the environment's record holds of it; makes and removes one cgroup to see."""
        probe = self.create(f"{os.getpid()}-look")
        try:
            hot = probe.hot_files()
            missing = probe.missing().reasons
        finally:
            probe.remove()
        throttle = above.throttle(self.path)
        cpu = self.bases.get("cpu")
        return {
            "version": self.version,
            "hybrid": len({hierarchy.version for hierarchy in hierarchies()}) > 1,
            "throttle_bytes": throttle[0] if throttle else None,
            "throttle_file": str(throttle[1]) if throttle else None,
            "cpu_quota": above.cpu_quota(self.version, cpu) if cpu else None,
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


def find_place(ownership: Ownership | None = None) -> Place:
    """The place for cgroups of ours; on version 2 this may move us: into a scope, a leaf.

    Args:
        ownership: what is made is written down there; its end undoes the move.

    Raises:
        CgroupError: there is none; says exactly why, and what mends it.
    """
    found = hierarchies()
    memory = _memory_hierarchy(found)
    own = memory.folder
    if own is None:
        raise _no_place("the cgroup we are in is not visible here", memory.mount, NOT_VISIBLE)
    if memory.read_only:
        raise _no_place("the memory hierarchy is mounted read-only", memory.mount, READ_ONLY)
    if memory.version == 1:
        return Place(1, _v1_bases(found, own), ownership)
    try:
        base, undo = _v2_base(own, memory.mount)
    except CgroupError:
        if not enter_scope(own, memory.mount):
            raise
        base, undo = _v2_base(_memory_hierarchy(hierarchies()).folder or own, memory.mount)
    if ownership:
        ownership.at_end(undo)
    return Place(2, dict.fromkeys(base.controllers, base.folder), ownership)


def _v2_base(own: Path, mount: Path) -> tuple[Base, Callable[[], None]]:
    """Where cgroups can be made now, and what undoes what that took."""
    base = find_base(own, mount)
    return base, pass_down(base)


def survey() -> list[Finding]:
    """What can be had here and what can't, for ``doctor``; leaves nothing behind."""
    with Ownership() as ownership:
        try:
            return findings(find_place(ownership).describe())
        except CgroupError as error:
            return no_place(error)


def _memory_hierarchy(found: list[Hierarchy]) -> Hierarchy:
    """The hierarchy whose memory controller counts: version 1's where it is bound there."""
    if not found:
        raise _no_place("no cgroups are mounted", Path("/sys/fs/cgroup"), NO_CGROUPS)
    for hierarchy in found:
        if hierarchy.version == 1 and "memory" in hierarchy.controllers:
            return hierarchy
    unified = [hierarchy for hierarchy in found if hierarchy.version == 2]
    if not unified or not _memory_exists(unified[0]):
        raise _no_place("the kernel has no memory controller on", found[0].mount, NO_MEMORY)
    return unified[0]


def _memory_exists(unified: Hierarchy) -> bool:
    """In our cgroup or, for a cgroup it is not passed down to, anywhere above."""
    folders = [unified.mount, *([unified.folder] if unified.folder else [])]
    return any("memory" in unified_files(folder).controllers for folder in folders)


def _v1_bases(found: list[Hierarchy], memory: Path) -> dict[str, Path]:
    """Our own cgroup in memory's hierarchy and in each other one where we may make more."""
    if not os.access(memory, os.W_OK):
        remedy = NOT_OURS_V1.format(folder=memory)
        raise _no_place("no cgroup can be made below ours: it is not ours", memory, remedy)
    bases = {"memory": memory}
    for hierarchy in found:
        usable = hierarchy.version == 1 and hierarchy.folder and not hierarchy.read_only
        if usable and hierarchy.folder and os.access(hierarchy.folder, os.W_OK):
            bases |= dict.fromkeys(hierarchy.controllers - set(bases), hierarchy.folder)
    return bases


def _no_place(what: str, where: Path, remedy: str) -> CgroupError:
    return CgroupError(what, where=str(where), remedy=remedy)
