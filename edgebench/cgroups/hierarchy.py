"""Which cgroup hierarchies are mounted, and where in each of them this process is.

Told by ``/proc/self/mountinfo`` and ``/proc/self/cgroup`` (proc(5), cgroups(7)). A mount
may show a part of its hierarchy only, as containers have it; its root field says which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: Controllers edgebench uses where it can have them; memory it must have.
CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset", "blkio", "io", "pids")


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
    mounts = parse_mounts((proc / "mountinfo").read_text())
    paths = parse_own_paths((proc / "cgroup").read_text())
    found = [_hierarchy(mount, paths) for mount in mounts]
    return sorted((h for h in found if h), key=lambda h: (h.version, h.folder is None))


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The cgroup mounts among the lines of ``mountinfo``."""
    mounts = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        about = [_unescape(word) for word in before.split(" ")[3:6]]
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
    for line in cgroup.splitlines():
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
    return folder if folder.is_dir() else None


def _unified_controllers(folder: Path) -> frozenset[str]:
    try:
        return frozenset((folder / "cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()


def _unescape(word: str) -> str:
    """Undo ``mountinfo``'s octal escapes: ``\\040`` is a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)
