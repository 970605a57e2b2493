"""Version 2: find the cgroup in which limited cgroups can be created, and enable its controllers.

A cgroup that has processes can't enable controllers for its children (the kernel's
no-internal-processes rule). The root of the hierarchy is exempt; elsewhere the harness moves
itself, its session and the processes that called it into a leaf cgroup, and back when it ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from edgebench.cgroups.files import unified_files
from edgebench.cgroups.scope import systemd_runs
from edgebench.errors import CgroupError

#: The leaf cgroup that the harness is in while trials run.
LEAF = "edgebench-harness"
#: Controllers that are enabled where they are available; memory must be.
_WANTED = ("memory", "cpu", "cpuset", "io", "pids")
_DELEGATED_XATTRS = ("user.delegate", "trusted.delegate")

NOT_OURS = """\
this cgroup belongs to root. Run edgebench in a scope that systemd delegates to you:
    systemd-run --user --scope -p Delegate=yes -- edgebench run …
or under sudo (the workload still runs as you):
    sudo "$(command -v edgebench)" run …"""

NOT_DELEGATED = """\
systemd manages this cgroup and has not delegated it. Run edgebench in a scope of its own:
    systemd-run --scope -p Delegate=yes -- edgebench run …"""

NO_MEMORY_CONTROLLER = """\
the memory controller is not enabled for this cgroup. With systemd, ask for a delegated scope:
    systemd-run --user --scope -p Delegate=yes -- edgebench run …
else as root, in each cgroup from the top down to this one:
    echo +memory > cgroup.subtree_control"""

OTHER_PROCESSES = """\
version 2 allows no processes in a cgroup that has limited child cgroups, and this one has processes
other than edgebench's and its shell's. Move them into a child cgroup first, as root:
    mkdir -p {folder}/others
    for pid in {pids}; do echo $pid > {folder}/others/cgroup.procs; done"""


@dataclass(frozen=True)
class DelegatedFolder:
    """A cgroup in which limited cgroups can be created."""

    folder: Path
    controllers: frozenset[str]


def find_base(own: Path, mount: Path) -> DelegatedFolder:
    """Where a process in the cgroup ``own`` can create cgroups; changes nothing.

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
            remedy=NOT_OURS,
        )
    if "memory" not in controllers:
        raise CgroupError(
            "the memory controller is not enabled for the current cgroup",
            where=str(folder / "cgroup.controllers"),
            remedy=NO_MEMORY_CONTROLLER,
        )
    if not is_root_cgroup(folder) and not _delegated(folder, mount):
        raise CgroupError(
            "the current cgroup is managed by systemd and not delegated",
            where=str(folder),
            remedy=NOT_DELEGATED,
        )
    return DelegatedFolder(folder, controllers & frozenset(_WANTED))


def is_root_cgroup(folder: Path) -> bool:
    """Whether it is the root of the hierarchy: the only cgroup without a type."""
    return not (folder / "cgroup.type").exists()


def _delegated(folder: Path, mount: Path) -> bool:
    """Whether systemd delegated it. A user who isn't root can write to delegated ones only."""
    if os.geteuid() != 0 or not systemd_runs():
        return True
    above = [folder, *(path for path in folder.parents if path.is_relative_to(mount))]
    return any(_marked(path) for path in above)


def _marked(folder: Path) -> bool:
    for name in _DELEGATED_XATTRS:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def enable_controllers(base: DelegatedFolder) -> Callable[[], None]:
    """Enable the controllers for new child cgroups; returns a function that undoes it.

    Raises:
        CgroupError: the cgroup has processes that can't be moved.
    """
    already = frozenset(unified_files(base.folder).subtree_control)
    if not is_root_cgroup(base.folder):
        _move_to_leaf(base.folder)
    undo = partial(_undo, base, already)
    try:
        _enable(base, already)
    except CgroupError:
        undo()
        raise
    return undo


def _enable(base: DelegatedFolder, already: frozenset[str]) -> None:
    """One by one: if one can't be enabled, memory still is."""
    files = unified_files(base.folder)
    for name in sorted(base.controllers - already):
        try:
            files.subtree_control = f"+{name}"
        except OSError as error:
            if name == "memory":
                raise _refused(base.folder, error) from error


def _refused(folder: Path, error: OSError) -> CgroupError:
    pids = [pid for pid in _pids(folder) if pid]
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


def _move_to_leaf(folder: Path) -> None:
    """Move all that is run with this process from the cgroup into its leaf."""
    inside = _pids(folder)
    there = [pid for pid in _own_and_parents() if pid in inside]
    there += [pid for pid in inside if pid not in there and _in_our_session(pid)]
    if there:
        (folder / LEAF).mkdir(exist_ok=True)
    for pid in there:
        _move(pid, folder / LEAF)


def _move(pid: int, folder: Path) -> None:
    # Not allowed, or gone: enabling the controllers shows whether it matters.
    with contextlib.suppress(OSError):
        (folder / "cgroup.procs").write_text(str(pid))


def _undo(base: DelegatedFolder, already: frozenset[str]) -> None:
    """Restore the cgroup, unless another harness uses it.

    All that is in the leaf goes back: those moved may have started others meanwhile.
    """
    if any(path.name != LEAF for path in base.folder.glob("edgebench-*/")):
        return
    files = unified_files(base.folder)
    with contextlib.suppress(OSError):
        for name in sorted(frozenset(files.subtree_control) - already):
            files.subtree_control = f"-{name}"
        for pid in _pids(base.folder / LEAF):
            _move(pid, base.folder)
        (base.folder / LEAF).rmdir()


def _pids(folder: Path) -> tuple[int, ...]:
    return tuple(int(line) for line in (folder / "cgroup.procs").read_text().split())


def _in_our_session(pid: int) -> bool:
    """Whether it was started from the same terminal: ``tee`` in ``edgebench run … | tee log``."""
    try:
        return pid > 0 and os.getsid(pid) == os.getsid(0)
    except OSError:
        return False


def _own_and_parents() -> list[int]:
    """The process itself, its parent, and so on up to the first."""
    return [os.getpid(), *(process.pid for process in psutil.Process().parents())]
