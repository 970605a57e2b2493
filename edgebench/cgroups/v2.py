"""Version 2: one cgroup, its limits, counters and files; and where limited cgroups can be made.

A cgroup that has processes can't have limited child cgroups (the kernel's no-internal-processes
rule), and where systemd manages the machine, not even root may divide a cgroup that it has not
delegated (Linux: admin-guide/cgroup-v2.rst; systemd: CGROUP_DELEGATION). So they are made in a
delegated cgroup, or in a scope asked of systemd.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.cgroups.files import (
    PAGE,
    check_cores,
    file_of,
    has,
    missing_controller,
    put,
    unified_files,
)
from edgebench.cgroups.interface import (
    MEMORY_SIZES,
    Cgroup,
    Counters,
    CounterSource,
    HotFiles,
    Limits,
    Sources,
)
from edgebench.cgroups.leftovers import LEAF, Ownership, move_process, own_pids
from edgebench.errors import CgroupError

_STAT = "memory.stat"

#: Kernel documentation: admin-guide/cgroup-v2.rst.
SOURCES: Sources = {
    "usage_bytes": CounterSource("memory", "memory.current"),
    "peak_bytes": CounterSource("memory", "memory.peak"),
    "swap_bytes": CounterSource("memory", "memory.swap.current"),
    "swap_peak_bytes": CounterSource("memory", "memory.swap.peak"),
    "anon_bytes": CounterSource("memory", _STAT, "anon"),
    "file_bytes": CounterSource("memory", _STAT, "file"),
    "mapped_file_bytes": CounterSource("memory", _STAT, "file_mapped"),
    "shmem_bytes": CounterSource("memory", _STAT, "shmem"),
    "kernel_bytes": CounterSource("memory", _STAT, "kernel"),
    "page_tables_bytes": CounterSource("memory", _STAT, "pagetables"),
    "slab_bytes": CounterSource("memory", _STAT, "slab"),
    "minor_faults": CounterSource("memory", _STAT, "pgfault", minus="pgmajfault"),
    "major_faults": CounterSource("memory", _STAT, "pgmajfault"),
    "swapped_in_bytes": CounterSource("memory", _STAT, "pswpin", PAGE),
    "swapped_out_bytes": CounterSource("memory", _STAT, "pswpout", PAGE),
    "refault_anon": CounterSource("memory", _STAT, "workingset_refault_anon"),
    "refault_file": CounterSource("memory", _STAT, "workingset_refault_file"),
    "cpu_ns": CounterSource("memory", "cpu.stat", "usage_usec", 1000),
    "user_ns": CounterSource("memory", "cpu.stat", "user_usec", 1000),
    "system_ns": CounterSource("memory", "cpu.stat", "system_usec", 1000),
    "throttled_ns": CounterSource("memory", "cpu.stat", "throttled_usec", 1000),
    "io_read_bytes": CounterSource("memory", "io.stat", "rbytes", per_device=True),
    "io_write_bytes": CounterSource("memory", "io.stat", "wbytes", per_device=True),
    "pressure_some_us": CounterSource("memory", "memory.pressure", "some.total"),
    "pressure_full_us": CounterSource("memory", "memory.pressure", "full.total"),
    "oom_kills": CounterSource("memory", "memory.events", "oom_kill"),
    "limit_hits": CounterSource("memory", "memory.events", "max"),
}


@dataclass(frozen=True)
class LimitFile:
    """The typed attribute behind a limit, whose controller has it, and the limit in words."""

    attribute: str
    controller: str
    words: str


_MEMORY = "memory_bytes"
#: Each limit of :class:`Limits` that is one file.
LIMITS = {
    _MEMORY: LimitFile("memory_max", "memory", "a memory limit"),
    "memory_high_bytes": LimitFile("memory_high", "memory", "memory.high"),
    "swap_bytes": LimitFile("swap_max", "swap", "a limit of swap"),
    "cpu_quota": LimitFile("cpu_max", "cpu", "a CPU quota"),
    "pids": LimitFile("pids_max", "pids", "a limit of processes"),
}
_LOCAL_KILLS = CounterSource("memory", "memory.events.local", "oom_kill")


def reclaim(file: Path, size_bytes: int) -> bool:
    """Have the kernel reclaim this much of a cgroup; return False if it did less.

    A file that we may not write to counts as no file.
    """
    try:
        file.write_text(str(size_bytes))
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


class V2Cgroup(Cgroup):
    """A cgroup on version 2: one folder with all controllers' files."""

    version = 2
    settable = frozenset((*LIMITS, "cores", "disks"))
    sources = SOURCES

    def __init__(self, path: Path, removed: Callable[[], None]) -> None:
        super().__init__({"memory": path}, removed)
        self._files = unified_files(path)
        if has(self._files, "oom_group"):
            # Else the kernel kills one process of the workload and leaves the others hanging.
            put(self._files, "oom_group", True)

    @property
    def size_files(self) -> dict[str, Path]:
        """The files of memory's limits."""
        return {name: file_of(self._files, LIMITS[name].attribute) for name in MEMORY_SIZES}

    def _write_limits(self, limits: Limits) -> None:
        for name, limit in LIMITS.items():
            value = getattr(limits, name)
            if has(self._files, limit.attribute) or name == _MEMORY:
                put(self._files, limit.attribute, value)
            elif value:
                raise missing_controller(limit.controller, limit.words)
        if has(self._files, "cpus"):
            put(self._files, "cpus", limits.cores or ())
        else:
            check_cores(limits.cores)

    def _write_memory(self, limits: Limits, *, waits: bool) -> None:
        # A limit below what is used kills if the kernel can't reclaim at once. So without `waits`
        # the memory is reclaimed first, where this kernel can (Linux 5.19); if that isn't enough,
        # nothing is written, and the error is the same as on version 1.
        size, file = limits.memory_bytes, self.path / "memory.reclaim"
        if not waits and size is not None and file.exists():
            over = self._used() - size
            if over > 0 and not reclaim(file, over) and self._used() > size:
                cause = OSError(errno.EBUSY, "busy")
                raise CgroupError("the kernel could not reclaim enough", where=str(file)) from cause
        put(self._files, LIMITS[_MEMORY].attribute, size)

    def _used(self) -> int:
        return int((self.path / "memory.current").read_text(errors="replace"))

    def read_limits(self, asked: Limits) -> Limits:
        """Read the limits but those of disks, as the kernel has them now."""
        files = self._files
        applied: dict[str, Any] = {
            name: getattr(files, limit.attribute)
            for name, limit in LIMITS.items()
            if has(files, limit.attribute)
        }
        cores = asked.cores
        if cores is not None and has(files, "effective_cpus"):
            cores = tuple(sorted(files.effective_cpus))
        return Limits(cores=cores, **applied)

    def read(self) -> Counters:
        """Read all counters that the kernel has, now."""
        counters = super().read()
        # Mounted with memory_localevents, a cgroup's events exclude those of its child cgroups.
        below = self.sum_of_tree(_LOCAL_KILLS)
        known = [kills for kills in (counters.oom_kills, below) if kills is not None]
        return replace(counters, oom_kills=max(known, default=None))

    def hot_files(self) -> HotFiles:
        """Find the files to keep open for sampling."""
        try:
            # Since Linux 6.12 a write resets the mark, for this descriptor alone.
            with (self.path / "memory.peak").open("r+b", buffering=0) as mark:
                mark.write(b"reset")
            resets = True
        except OSError:
            resets = False
        pressure: Path | None = self.path / "memory.pressure"
        try:
            # With psi=0 the file exists, and can't be read.
            (self.path / "memory.pressure").read_bytes()
        except OSError:
            pressure = None
        return HotFiles(
            sources=SOURCES,
            usage=self.path / "memory.current",
            peak=self.file("memory", "memory.peak"),
            peak_resets=resets,
            swap=self.file("memory", "memory.swap.current"),
            stat=self.file("memory", _STAT),
            cpu=self.file("memory", "cpu.stat"),
            cpu_unit_ns=1000,
            pressure=pressure,
            io=self.file("memory", "io.stat"),
            # Statistics of all controllers of a cgroup are flushed together (before Linux 6.16).
            flushing=("stat", "cpu", "io"),
        )


#: Controllers that are enabled where they are available; memory must be.
_WANTED = ("memory", "cpu", "cpuset", "io", "pids")
_DELEGATED_XATTRS = ("user.delegate", "trusted.delegate")

NOT_OURS_V2 = """\
this cgroup belongs to root. Run edgebench in a scope that systemd delegates to you:
    systemd-run --user --scope -p Delegate=yes -- edgebench …
or under sudo (the workload still runs as you):
    sudo "$(command -v edgebench)" …"""

NOT_DELEGATED = """\
systemd manages this cgroup and has not delegated it. Run edgebench in a scope of its own:
    systemd-run --scope -p Delegate=yes -- edgebench …"""

NO_MEMORY_CONTROLLER = """\
the memory controller is not enabled for this cgroup. With systemd, ask for a delegated scope:
    systemd-run --user --scope -p Delegate=yes -- edgebench …
else as root, in each cgroup from the top down to this one:
    echo +memory > cgroup.subtree_control"""

OTHER_PROCESSES = """\
version 2 allows no processes in a cgroup that has limited child cgroups, and this one has processes
other than edgebench's and its shell's. Move them into a child cgroup first, as root:
    mkdir -p {folder}/others
    for pid in {pids}; do echo $pid > {folder}/others/cgroup.procs; done"""

_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
_SCOPE_PATIENCE_S = 10.0
#: Limits that must not be left behind; the text of each that means none.
_UNLIMITED = {"memory.max": "max", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max"}


def find_base(own: Path, mount: Path) -> tuple[Path, frozenset[str]]:
    """Find where a process in the cgroup ``own`` can create cgroups; change nothing.

    Returns:
        The cgroup's folder, and the controllers that its child cgroups can have.

    Raises:
        CgroupError: nowhere; says which rule of the kernel's or systemd's forbids it.
    """
    # Another harness started from the same shell has moved us there.
    folder = own.parent if own.name == LEAF else own
    controllers = frozenset(unified_files(folder).controllers)
    must_write = (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control")
    if not all(os.access(path, os.W_OK) for path in must_write):
        raise CgroupError(
            "can't create a cgroup: the current one belongs to another user",
            where=str(folder),
            remedy=NOT_OURS_V2,
        )
    if "memory" not in controllers:
        raise CgroupError(
            "the memory controller is not enabled for the current cgroup",
            where=str(folder / "cgroup.controllers"),
            remedy=NO_MEMORY_CONTROLLER,
        )
    # A user who isn't root can write to delegated cgroups only.
    if os.geteuid() == 0 and systemd_runs() and not is_root_cgroup(folder):
        above = [folder, *(path for path in folder.parents if path.is_relative_to(mount))]
        marks: list[bytes] = []
        for path, name in itertools.product(above, _DELEGATED_XATTRS):
            with contextlib.suppress(OSError):
                marks.append(os.getxattr(path, name))
        if b"1" not in marks:
            raise CgroupError(
                "the current cgroup is managed by systemd and not delegated",
                where=str(folder),
                remedy=NOT_DELEGATED,
            )
    return folder, controllers & frozenset(_WANTED)


def is_root_cgroup(folder: Path) -> bool:
    """Return whether it is the root of the hierarchy: the only cgroup without a type."""
    return not (folder / "cgroup.type").exists()


def enable_controllers(folder: Path, controllers: Iterable[str], ownership: Ownership) -> None:
    """Enable the controllers for new child cgroups; the last harness there restores the cgroup.

    Only the root of the hierarchy can do so while it has processes. Elsewhere the harness moves
    itself, its session and the processes that called it into a leaf cgroup. The last harness there
    moves them back.

    Raises:
        CgroupError: the cgroup has processes that can't be moved.
    """
    files = unified_files(folder)
    try:
        with ownership.share(folder, lambda: ",".join(sorted(files.subtree_control))):
            # Processes that are moved may start others meanwhile: then all of it again.
            for left in (3, 2, 1, 0):
                if not is_root_cgroup(folder):
                    _move_to_leaf(folder, ownership.harness_pids())
                try:
                    _enable(folder, controllers)
                    return
                except OSError as error:
                    if not left:
                        raise _refused(folder, error) from error
    except CgroupError:
        ownership.restore(folder)
        raise


def _enable(folder: Path, controllers: Iterable[str]) -> None:
    """Enable them one by one: only memory must be.

    Raises:
        OSError: memory can't be enabled.
    """
    files = unified_files(folder)
    for name in sorted(set(controllers) - set(files.subtree_control)):
        try:
            files.subtree_control = f"+{name}"
        except OSError:
            if name == "memory":
                raise


def _refused(folder: Path, error: OSError) -> CgroupError:
    pids = [pid for pid in own_pids(folder) if pid]
    if pids:
        who = "1 other process is" if len(pids) == 1 else f"{len(pids)} other processes are"
        what = f"{who} in the current cgroup: {pids[:5]}"
        numbers = " ".join(map(str, pids))
        remedy = OTHER_PROCESSES.format(folder=folder, pids=numbers)
        return CgroupError(what, where=str(folder), remedy=remedy)
    return CgroupError(
        f"can't enable the memory controller: {error.strerror}",
        where=str(folder / "cgroup.subtree_control"),
        remedy=NO_MEMORY_CONTROLLER,
    )


def _move_to_leaf(folder: Path, harnesses: Sequence[int]) -> None:
    # Lazy: only version 2 needs it.
    import psutil

    inside = own_pids(folder)
    moving: dict[int, None] = {}
    for pid in harnesses:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            family = [pid, *(parent.pid for parent in process.parents())]
            moving |= dict.fromkeys(member for member in family if member in inside)
    # `tee` in `edgebench … | tee log` was started in the harness's session.
    sessions = set(map(_session, harnesses)) - {None}
    moving |= dict.fromkeys(pid for pid in inside if pid > 0 and _session(pid) in sessions)
    if moving:
        (folder / LEAF).mkdir(exist_ok=True)
    for pid in moving:
        move_process(pid, folder / LEAF)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def systemd_runs() -> bool:
    """Return whether systemd manages this machine: sd_booted(3)."""
    return Path("/run/systemd/system").is_dir()


def enter_scope(own: Path, mount: Path) -> bool:
    """Move this process into a scope that systemd delegates; return False where that can't be.

    Where systemd manages the machine, not even root may divide a login session's cgroup.

    Args:
        own: the cgroup we are in.
        mount: the hierarchy's mount.
    """
    busctl = shutil.which("busctl")
    if busctl is None or not systemd_runs() or not may_leave(own, mount):
        return False
    before = Path("/proc/self/cgroup").read_text(errors="surrogateescape")
    return _ask(busctl, own.relative_to(mount)) and _moved(before)


def may_leave(own: Path, mount: Path) -> bool:
    """Return whether no limit is escaped: none below our slice, and the scope will be in it.

    A user's own manager makes scopes below the user's slice only.
    """
    if os.geteuid() != 0 and f"user-{os.geteuid()}.slice" not in own.parts:
        return False
    for folder in (own, *own.parents):
        if folder == mount or folder.name.endswith(".slice"):
            break
        for name, unlimited in _UNLIMITED.items():
            file = folder / name
            if file.exists() and not file.read_text(errors="replace").startswith(unlimited):
                return False
    return True


def _ask(busctl: str, own: Path) -> bool:
    # A user's manager chooses the slice by itself.
    slices = [name for name in own.parts if name.endswith(".slice")] if os.geteuid() == 0 else []
    properties = [["Delegate", "b", "true"], ["PIDs", "au", "1", str(os.getpid())]]
    if slices:
        properties.append(["Slice", "s", slices[-1]])
    words = [word for entry in properties for word in entry]
    bus = "--system" if os.geteuid() == 0 else "--user"
    name = f"edgebench-{os.getpid()}.scope"
    call = [busctl, bus, "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))"]
    try:
        done = subprocess.run(
            [*call, name, "fail", str(len(properties)), *words, "0"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SCOPE_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _moved(before: str) -> bool:
    """Wait until systemd has moved us: its answer comes earlier."""
    deadline = time.monotonic() + _SCOPE_PATIENCE_S
    while time.monotonic() < deadline:
        if Path("/proc/self/cgroup").read_text(errors="surrogateescape") != before:
            return True
        time.sleep(0.005)
    return False
