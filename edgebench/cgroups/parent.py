"""The cgroup in which trials' cgroups are created, what it supports, and whether limits hold there.

It is always the harness's own cgroup or below it, so limits set on the harness stay in force. Which
hierarchies are mounted, and where this process is in each, is read from ``/proc/self/mountinfo``
and ``/proc/self/cgroup`` (proc(5), cgroups(7)). A mount may show a part of its hierarchy only, as
containers have it; its root field says which.

systemd has silently ignored limits, and a container may show files that nothing enforces. So a
program that allocates more than its limit must be killed, and one that allocates less must not.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from edgebench.cgroups.files import (
    cpu_quota_above,
    memory_high_above,
    memory_limit_above,
    unified_files,
)
from edgebench.cgroups.interface import Cgroup, Limits, remove_all, unsupported
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.v1 import V1Cgroup
from edgebench.cgroups.v2 import V2Cgroup, enable_controllers, enter_scope, find_base
from edgebench.errors import CgroupError
from edgebench.text import format_size

#: Controllers edgebench uses where it can have them; memory it must have.
CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset", "blkio", "io", "pids")
#: A space or the like in a path of ``mountinfo``: ``\\040``.
_OCTAL = re.compile(r"\\([0-7]{3})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_COMMAND_LINE = Path("/proc/cmdline")

NO_CGROUPS = """\
no cgroup file system is mounted. As root:
    mount -t cgroup2 cgroup2 /sys/fs/cgroup"""

MEMORY_NOT_BUILT_IN = """\
this kernel runs without the memory controller. Use one that was built with CONFIG_MEMCG; on an
older Raspberry Pi OS add to /boot/firmware/cmdline.txt:
    cgroup_enable=memory swapaccount=1
and restart"""

MEMORY_DISABLED = """\
the kernel was started with cgroup_disable=memory (see: cat /proc/cmdline). Take it out of its
command line (GRUB_CMDLINE_LINUX in /etc/default/grub, or /boot/firmware/cmdline.txt). Raspberry Pi
OS has it from its firmware: there add to /boot/firmware/cmdline.txt:
    cgroup_enable=memory
and restart"""

NOT_VISIBLE = """\
the cgroup mount does not show the cgroup of this process, as in some containers. Start the
container with its own view of cgroups:
    docker run --cgroupns=private --privileged …"""

IN_CONTAINER = """\
this is usual in containers. Start the container with:
    docker run --privileged --cgroupns=private …
or run edgebench on the host."""

NOT_OURS = """\
this cgroup belongs to root. Run edgebench under sudo (the workload still runs as you):
    sudo "$(command -v edgebench)" …
or let root give you a cgroup, once for this shell:
    sudo mkdir {folder}/mine && sudo chown -R $(id -u) {folder}/mine &&
    echo $$ | sudo tee {folder}/mine/cgroup.procs"""


@dataclass(frozen=True)
class Mount:
    """One cgroup mount. ``root`` is the part of its hierarchy that it shows."""

    version: int
    point: Path
    root: PurePosixPath
    read_only: bool
    options: frozenset[str]

    def folder_of(self, path: PurePosixPath | None) -> Path | None:
        """Find the folder of a path of the hierarchy, if the mount shows it."""
        if path is None or ".." in path.parts or not path.is_relative_to(self.root):
            return None
        folder = self.point / path.relative_to(self.root)
        # Unlike Path.is_dir it raises nothing where a folder above is private.
        return folder if os.path.isdir(folder) else None  # noqa: PTH112


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
    """List all mounted hierarchies, version 1's first, in the order they were mounted."""
    mounts = parse_mounts((proc / "mountinfo").read_text(errors="surrogateescape"))
    paths = parse_own_paths((proc / "cgroup").read_text(errors="surrogateescape"))
    mounted: list[Hierarchy] = []
    for mount in mounts:
        if mount.version == 2:
            folder = mount.folder_of(paths.get(""))
            try:
                file = (folder or mount.point) / "cgroup.controllers"
                controllers = frozenset(file.read_text(errors="replace").split())
            except OSError:
                controllers = frozenset()
        else:
            controllers = mount.options & frozenset(CONTROLLERS)
            if not controllers:
                continue
            folder = mount.folder_of(paths.get(min(controllers)))
        mounted.append(Hierarchy(mount.version, controllers, mount.point, folder, mount.read_only))
    return sorted(mounted, key=lambda h: (h.version, h.folder is None))


def parse_mounts(mountinfo: str) -> list[Mount]:
    """Find the cgroup mounts among the lines of ``mountinfo``."""
    mounts = []
    for line in filter(None, mountinfo.split("\n")):
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        about = [
            _OCTAL.sub(lambda match: chr(int(match[1], 8)), word) for word in before.split(" ")[3:6]
        ]
        if kind not in ("cgroup", "cgroup2") or len(about) < 3 or not rest:
            continue
        root, point, mount_options = about
        options = frozenset(rest[-1].split(","))
        read_only = "ro" in mount_options.split(",") or "ro" in options
        version = 2 if kind == "cgroup2" else 1
        mounts.append(Mount(version, Path(point), PurePosixPath(root), read_only, options))
    return mounts


def parse_own_paths(cgroup: str) -> dict[str, PurePosixPath]:
    """Read controller → path from ``/proc/self/cgroup``; version 2's path is under ``""``."""
    paths = {}
    for line in filter(None, cgroup.split("\n")):
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        for controller in controllers.split(","):
            paths[controller] = PurePosixPath(path)
    return paths


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

    def create(self, name: str) -> Cgroup:
        """Create the cgroup ``edgebench-<name>``, unlimited and empty.

        Args:
            name: letters, digits, dots, dashes and underscores.

        Raises:
            CgroupError: it can't be created.
        """
        if not _NAME.fullmatch(name):
            raise CgroupError(
                f"{name!r} can't be a cgroup's name",
                remedy="use letters, digits, dots, dashes and underscores",
            )
        folders = {key: base / f"edgebench-{name}" for key, base in self.bases.items()}
        created: list[Path] = []
        try:
            for folder in dict.fromkeys(folders.values()):
                self._make(folder)
                created.append(folder)
            if self.version == 1:
                return V1Cgroup(folders, lambda: self._release(folders.values()))
            return V2Cgroup(folders["memory"], lambda: self._release(folders.values()))
        except BaseException:
            remove_all(created)
            self._release(created)
            raise

    def _make(self, folder: Path) -> None:
        if folder.exists():
            raise CgroupError(
                "the cgroup already exists", where=str(folder), remedy=f"rmdir {folder}"
            )
        if self.ownership:
            self.ownership.claim("cgroup", str(folder))
        try:
            folder.mkdir()
        except OSError as error:
            self._release([folder])
            raise CgroupError(
                f"can't create a cgroup: {error.strerror}",
                where=str(folder),
                remedy="see why with: edgebench doctor",
            ) from error

    def _release(self, folders: Iterable[Path]) -> None:
        if self.ownership:
            for folder in dict.fromkeys(folders):
                self.ownership.release("cgroup", str(folder))

    def describe(self) -> dict[str, Any]:
        """List its properties for the environment's record, seen in a temporary cgroup."""
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
    """Find the cgroup to create others in; version 2 may move this process into a scope or leaf.

    Args:
        ownership: records what is created and changed, and undoes it when it ends.

    Raises:
        CgroupError: there is none; says why and what to type.
    """
    mounted = hierarchies()
    memory = _memory_hierarchy(mounted)
    folder = memory.folder
    if folder is None:
        raise _error("the current cgroup is not visible here", memory.mount, NOT_VISIBLE)
    if memory.read_only or os.statvfs(folder).f_flag & os.ST_RDONLY:
        what = "the cgroup hierarchy of memory is mounted read-only"
        raise _error(what, memory.mount, IN_CONTAINER)
    if os.geteuid() == 0 and not os.access(folder, os.W_OK):
        what = "can't create a cgroup: the current one belongs to a user outside this container"
        raise _error(what, folder, IN_CONTAINER)
    if memory.version == 1:
        if not os.access(folder, os.W_OK):
            what = "can't create a cgroup: the current one belongs to another user"
            raise _error(what, folder, NOT_OURS.format(folder=folder))
        bases = {"memory": folder}
        for other in mounted:
            usable = other.version == 1 and other.folder and not other.read_only
            if usable and other.folder and os.access(other.folder, os.W_OK):
                bases |= dict.fromkeys(other.controllers - set(bases), other.folder)
        return ParentCgroup(1, bases, ownership)
    try:
        base, controllers = find_base(folder, memory.mount)
        enable_controllers(base, controllers, ownership)
    except CgroupError:
        if not enter_scope(folder, memory.mount):
            raise
        folder = _memory_hierarchy(hierarchies()).folder or folder
        base, controllers = find_base(folder, memory.mount)
        enable_controllers(base, controllers, ownership)
    return ParentCgroup(2, dict.fromkeys(controllers, base), ownership)


def refused_limit(version: int, names: Iterable[str]) -> CgroupError | None:
    """Return the error for a limit of these that this version does not have; None: it has all."""
    settable = (V1Cgroup if version == 1 else V2Cgroup).settable
    lacking = sorted(set(names) - settable)
    return unsupported(version, lacking[0]) if lacking else None


def memory_version() -> int | None:
    """Find the version of cgroups that the memory controller is on here; None without one."""
    try:
        return _memory_hierarchy(hierarchies()).version
    except (CgroupError, OSError):
        return None


def _memory_hierarchy(mounted: list[Hierarchy]) -> Hierarchy:
    if not mounted:
        raise _error("no cgroups are mounted", Path("/sys/fs/cgroup"), NO_CGROUPS)
    for hierarchy in mounted:
        if hierarchy.version == 1 and "memory" in hierarchy.controllers:
            return hierarchy
    unified = next((hierarchy for hierarchy in mounted if hierarchy.version == 2), None)
    if unified:
        # It is in the current cgroup or at the top of the hierarchy.
        folders = [folder for folder in (unified.mount, unified.folder) if folder]
        if any("memory" in unified_files(folder).controllers for folder in folders):
            return unified
    disabled = re.search(
        r"\bcgroup_disable=\S*\bmemory\b", _COMMAND_LINE.read_text(errors="replace")
    )
    remedy = MEMORY_DISABLED if disabled else MEMORY_NOT_BUILT_IN
    raise _error("the kernel's memory controller is off", mounted[0].mount, remedy)


def _error(what: str, where: Path, remedy: str) -> CgroupError:
    return CgroupError(what, where=str(where), remedy=remedy)


NO_SWAP_ACCOUNTING = """\
swap use is not counted by cgroup. Add swapaccount=1 to the kernel's command line and restart"""
NO_RESET = "a layer's peak then comes from samples; Linux 6.12 or later has exact ones"
NO_PEAK = "peaks then come from samples; Linux 5.19 or later has exact ones"
NO_PSI = "to measure stalls, add psi=1 to the kernel's command line and restart"
THROTTLED = """\
memory.high is set there: above it the kernel throttles a trial instead of limiting it, so times
measured here would be wrong. As its owner:
    echo max > {file}"""
FEW_CPUS = """\
harness and sampler need CPU time too, so times are longer than on the bare machine; give this
container or slice more: docker run --cpus=2 --cpuset-cpus=0-1 …, or CPUQuota= in systemd"""
NO_CONTROLLER = """\
their limits and counters are not available; as another user than root, call edgebench with sudo"""
#: One for the workload, one for harness and sampler.
_ENOUGH_CPUS = 2
_LIMIT = 64 << 20
#: What the two programs allocate.
_BELOW, ABOVE_BYTES = 32 << 20, 96 << 20
_TIMEOUT_S = 30.0
#: Private anonymous memory, one byte a page written, so no malloc decides how much is used.
_ALLOCATOR = """
import mmap, sys
size = int(sys.argv[1])
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for offset in range(0, size, mmap.PAGESIZE):
    area[offset] = 1
"""
_REMEDY = "measurements would be wrong here; see this cgroup's limits with: edgebench doctor"


@dataclass(frozen=True)
class Finding:
    """One finding. ``ok`` None: sweeps run, but with fewer limits or counters."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def check_support() -> list[Finding]:
    """Find what this machine's cgroups support, for ``doctor``; leave nothing behind."""
    with Ownership() as ownership:
        try:
            return support_findings(find_parent(ownership).describe())
        except CgroupError as error:
            where = f" ({error.where})" if error.where else ""
            return [Finding("cgroup", False, f"{error.what}{where}", error.remedy)]


def support_findings(described: Mapping[str, Any]) -> list[Finding]:
    """Say what the description of a parent cgroup means for a sweep."""

    def finding(name: str, says: str, lacking: str | None = None, remedy: str = "") -> Finding:
        ok = None if lacking else True
        return Finding(name, ok, lacking or says, (remedy or None) if lacking else None)

    version, has = described["version"], described["controllers"]
    hybrid = " (hybrid: the other version is mounted too)" if described["hybrid"] else ""
    ceiling = throttle = no_controller = no_peak = no_pressure = None
    if described["ceiling_bytes"] is not None:
        ceiling = f"{format_size(described['ceiling_bytes'])}: no trial can use more"
    if described["throttle_bytes"] is not None:
        throttle = f"memory.high of {format_size(described['throttle_bytes'])}"
    throttle_remedy = THROTTLED.format(file=described["throttle_file"])
    cores, quota = described["cores"], described["cpu_quota"]
    cpus = f"{cores} {'core' if cores == 1 else 'cores'}"
    cpus += "" if quota is None else f", no more than {quota:g} at a time"
    few_cpus = cpus if min(cores, quota or cores) < _ENOUGH_CPUS else None
    wanted = {"cpu", "cpuset", "pids"} | ({"cpuacct", "blkio"} if version == 1 else {"io"})
    if lacking := sorted(wanted - set(has)):
        no_controller = f"{', '.join(has)}; not {', '.join(lacking)}"
    no_swap = None if described["swap_accounting"] else "off"
    if not described["peak"]:
        no_peak = "not kept by this kernel"
    elif not described["peak_resets"]:
        no_peak = "kept by the kernel, but can't be reset"
    peak_remedy = NO_RESET if described["peak"] else NO_PEAK
    if not described["pressure"]:
        no_pressure = "cgroup version 1 has none" if version == 1 else "not measured"
    pressure_remedy = "" if version == 1 else NO_PSI
    exact = "kept by the kernel, reset at each layer"
    return [
        finding("cgroup", f"version {version}, below {described['path']}{hybrid}"),
        finding("limit above", "none", ceiling, "keep the scenario's limits below it"),
        finding("throttle above", "none", throttle, throttle_remedy),
        finding("CPUs", cpus, few_cpus, FEW_CPUS),
        finding("controllers", ", ".join(has), no_controller, NO_CONTROLLER),
        finding("swap accounting", "on", no_swap, NO_SWAP_ACCOUNTING),
        finding("kernel's peak", exact, no_peak, peak_remedy),
        finding("pressure", "measured for each cgroup", no_pressure, pressure_remedy),
    ]


def check_limit(parent: ParentCgroup) -> int:
    """Run both programs under a small limit without swap; return that limit in bytes.

    It takes well below a second.

    Raises:
        CgroupError: the limit is not enforced, or a smaller one is.
    """
    cgroup = parent.create(f"{os.getpid()}-proof")
    try:
        limit = cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=0)).memory_bytes or 0
        if (code := allocate(cgroup, _BELOW)) != 0:
            raise _failed(cgroup, _BELOW, f"ended with {code}, and should have succeeded")
        code = allocate(cgroup, ABOVE_BYTES)
        if code != -signal.SIGKILL:
            ended = "did not end" if code is None else f"ended with {code}"
            raise _failed(cgroup, ABOVE_BYTES, f"{ended}, and should have been killed")
        return limit
    finally:
        cgroup.remove()


def allocate(cgroup: Cgroup, size_bytes: int) -> int | None:
    """Touch so much memory in the cgroup; return the exit status, None if it timed out."""
    words = [sys.executable, "-I", "-S", "-c", _ALLOCATOR, str(size_bytes)]
    process = subprocess.Popen(
        join_command(cgroup, words, None, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        cgroup.kill()
        process.kill()
        process.wait()


def _failed(cgroup: Cgroup, size_bytes: int, how: str) -> CgroupError:
    sizes = f"{format_size(size_bytes)} under a limit of {format_size(_LIMIT)}"
    return CgroupError(
        f"memory limits are not enforced here: allocating {sizes} {how}",
        where=str(cgroup.path),
        remedy=_REMEDY,
    )
