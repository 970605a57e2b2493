"""Which cgroup hierarchies are mounted, where this process is in each, and its limits there.

Read from ``/proc/self/mountinfo`` and ``/proc/self/cgroup`` (proc(5), cgroups(7)). A mount
may show a part of its hierarchy only, as containers have it; its root field says which.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgebench.cgroups.files import cpu_files, file_of, memory_files, unified_files
from edgebench.cgroups.v1 import UNLIMITED

#: Controllers edgebench uses where it can have them; memory it must have.
CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset", "blkio", "io", "pids")
#: A space or the like in a path of ``mountinfo``: ``\\040``.
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One cgroup mount. ``root`` is the part of its hierarchy that it shows."""

    version: int
    point: Path
    root: PurePosixPath
    read_only: bool
    options: frozenset[str]


@dataclass(frozen=True)
class Hierarchy:
    """One hierarchy as this process sees it.

    ``folder`` is this process's own cgroup in it; None where no mount shows it.
    """

    version: int
    controllers: frozenset[str]
    mount: Path
    folder: Path | None
    read_only: bool


def hierarchies(proc: Path = Path("/proc/self")) -> list[Hierarchy]:
    """All mounted hierarchies, version 1's first, in the order they were mounted."""
    mounts = parse_mounts((proc / "mountinfo").read_text(errors="surrogateescape"))
    paths = parse_own_paths((proc / "cgroup").read_text(errors="surrogateescape"))
    found = [_hierarchy(mount, paths) for mount in mounts]
    return sorted((h for h in found if h), key=lambda h: (h.version, h.folder is None))


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The cgroup mounts among the lines of ``mountinfo``."""
    mounts = []
    for line in filter(None, mountinfo.split("\n")):
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        about = [
            _OCTAL.sub(lambda match: chr(int(match[1], 8)), word) for word in before.split(" ")[3:6]
        ]
        if kind not in ("cgroup", "cgroup2") or len(about) < 3 or not rest:
            continue
        root, point, own_options = about
        options = frozenset(rest[-1].split(","))
        mounts.append(
            Mount(
                version=2 if kind == "cgroup2" else 1,
                point=Path(point),
                root=PurePosixPath(root),
                read_only="ro" in own_options.split(",") or "ro" in options,
                options=options,
            )
        )
    return mounts


def parse_own_paths(cgroup: str) -> dict[str, PurePosixPath]:
    """Controller → path, from ``/proc/self/cgroup``; version 2's path is under ``""``."""
    paths = {}
    for line in filter(None, cgroup.split("\n")):
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        for controller in controllers.split(","):
            paths[controller] = PurePosixPath(path)
    return paths


def _hierarchy(mount: Mount, paths: dict[str, PurePosixPath]) -> Hierarchy | None:
    if mount.version == 2:
        folder = _visible(mount, paths.get(""))
        controllers = _unified_controllers(folder or mount.point)
    else:
        controllers = mount.options & frozenset(CONTROLLERS)
        if not controllers:
            return None
        folder = _visible(mount, paths.get(min(controllers)))
    return Hierarchy(mount.version, controllers, mount.point, folder, mount.read_only)


def _visible(mount: Mount, path: PurePosixPath | None) -> Path | None:
    """The folder of a path of the hierarchy below this mount, if the mount shows it."""
    if path is None or ".." in path.parts or not path.is_relative_to(mount.root):
        return None
    folder = mount.point / path.relative_to(mount.root)
    # Unlike Path.is_dir it raises nothing where a folder above is private.
    return folder if os.path.isdir(folder) else None  # noqa: PTH112


def _unified_controllers(folder: Path) -> frozenset[str]:
    try:
        text = (folder / "cgroup.controllers").read_text(errors="replace")
        return frozenset(text.split())
    except OSError:
        return frozenset()


def memory_limit_above(version: int, memory: Path) -> int | None:
    """The lowest memory limit at or above the current cgroup, as far as it shows; None for none."""
    if version == 1:
        ceiling: int = memory_files(memory).stat["hierarchical_memory_limit"]
        return None if ceiling >= UNLIMITED else ceiling
    lowest = _lowest(memory, "memory_max")
    return int(lowest[0]) if lowest else None


def memory_high_above(memory: Path) -> tuple[int, Path] | None:
    """The lowest ``memory.high`` at or above the current cgroup and its file (version 2)."""
    lowest = _lowest(memory, "memory_high")
    return (int(lowest[0]), lowest[1]) if lowest else None


def cpu_quota_above(version: int, cpu: Path) -> float | None:
    """The lowest CPU quota at or above the current cgroup, in cores; None for none."""
    if version == 2:
        lowest = _lowest(cpu, "cpu_max")
        return lowest[0] if lowest else None
    every = map(cpu_files, _upwards(cpu, "cpu.cfs_quota_us"))
    quotas = [(files.cfs_quota_us, files.cfs_period_us) for files in every]
    return min((q / period for q, period in quotas if q is not None and q >= 0), default=None)


def _lowest(folder: Path, name: str) -> tuple[float, Path] | None:
    """The lowest value of one typed attribute of version 2 at or above a cgroup, and its file."""
    file = file_of(unified_files(folder), name).name
    found = [(getattr(unified_files(one), name), one / file) for one in _upwards(folder, file)]
    return min(((value, path) for value, path in found if value is not None), default=None)


def _upwards(folder: Path, name: str) -> list[Path]:
    """The folder and those above it that have such a file."""
    return [path for path in (folder, *folder.parents) if (path / name).exists()]
