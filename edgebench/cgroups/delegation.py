"""Where version 2 lets limited cgroups be made: a delegated cgroup, or a scope asked of systemd.

A cgroup that has processes can't have limited child cgroups (the kernel's no-internal-processes
rule), and where systemd manages the machine, not even root may divide a cgroup that it has not
delegated (Linux: admin-guide/cgroup-v2.rst; systemd: CGROUP_DELEGATION).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgebench.cgroups.files import unified_files
from edgebench.cgroups.leftovers import LEAF, Ownership, move_process, own_pids
from edgebench.errors import CgroupError

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
_LIMITS = {"memory.max": "max", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max"}


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
        for name, unlimited in _LIMITS.items():
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
