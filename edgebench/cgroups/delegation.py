"""Version 2: find or make a base below which limited cgroups may be.

A cgroup with processes in it can't pass controllers down (the kernel's no-internal-processes
rule). The hierarchy's real root is exempt; elsewhere the harness moves itself, and the
processes that called it, into a leaf beside the trials' cgroups, and back at its end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgebench.cgroups.files import unified_files
from edgebench.cgroups.remedies import (
    NO_MEMORY_BELOW,
    NOT_DELEGATED,
    NOT_OURS_V2,
    OTHERS_INSIDE,
)
from edgebench.cgroups.scope import systemd_runs
from edgebench.errors import CgroupError

#: The leaf that the harness waits in while trials run beside it.
LEAF = "edgebench-harness"
#: What is passed down where it is there to pass; memory must be.
_WANTED = ("memory", "cpu", "cpuset", "io", "pids")
_DELEGATED_XATTRS = ("user.delegate", "trusted.delegate")


@dataclass(frozen=True)
class Base:
    """A cgroup that limited cgroups may be made in."""

    folder: Path
    controllers: frozenset[str]


def find_base(own: Path, mount: Path) -> Base:
    """The base for a process in the cgroup ``own``; looks only, changes nothing.

    Raises:
        CgroupError: none; says which of the kernel's or systemd's rules stands against it.
    """
    # An earlier or a parallel harness of the same shell has moved us there.
    folder = own.parent if own.name == LEAF else own
    controllers = frozenset(unified_files(folder).controllers)
    if not all(os.access(path, os.W_OK) for path in _must_write(folder)):
        raise CgroupError(
            "no cgroup can be made below ours: it is not ours",
            where=str(folder),
            remedy=NOT_OURS_V2,
        )
    if "memory" not in controllers:
        raise CgroupError(
            "the memory controller is not passed down to our cgroup",
            where=str(folder / "cgroup.controllers"),
            remedy=NO_MEMORY_BELOW,
        )
    if not is_root(folder) and not _delegated(folder, mount):
        raise CgroupError(
            "our cgroup is systemd's and not delegated to us",
            where=str(folder),
            remedy=NOT_DELEGATED,
        )
    return Base(folder, controllers & frozenset(_WANTED))


def is_root(folder: Path) -> bool:
    """Whether it is the hierarchy's real root: the only cgroup without a type."""
    return not (folder / "cgroup.type").exists()


def _must_write(folder: Path) -> tuple[Path, ...]:
    return folder, folder / "cgroup.procs", folder / "cgroup.subtree_control"


def _delegated(folder: Path, mount: Path) -> bool:
    """Whether systemd leaves it alone. A user can write only where something was delegated."""
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


def pass_down(base: Base) -> Callable[[], None]:
    """Pass the controllers down to what is made in the base; returns what undoes it.

    Raises:
        CgroupError: processes that are not ours to move are in the way.
    """
    already = frozenset(unified_files(base.folder).subtree_control)
    moved = [] if is_root(base.folder) else _step_aside(base.folder)
    undo = partial(_switch_back, base, already, moved)
    try:
        _switch_on(base, already)
    except CgroupError:
        undo()
        raise
    return undo


def _switch_on(base: Base, already: frozenset[str]) -> None:
    """One by one: a controller that can't be passed down must not take memory with it."""
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
        what = f"{len(pids)} processes that are not edgebench's are in our cgroup: {pids[:5]}"
        return CgroupError(what, where=str(folder), remedy=OTHERS_INSIDE.format(folder=folder))
    return CgroupError(
        f"memory can't be passed down: {error.strerror}",
        where=str(folder / "cgroup.subtree_control"),
        remedy=NO_MEMORY_BELOW,
    )


def _step_aside(folder: Path) -> list[int]:
    """Move this process and those that called it from the base into the leaf."""
    ours = [pid for pid in _ancestry() if pid in _pids(folder)]
    if ours:
        (folder / LEAF).mkdir(exist_ok=True)
    return [pid for pid in ours if _move(pid, folder / LEAF)]


def _move(pid: int, folder: Path) -> bool:
    try:
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError:
        # Not ours to move, or gone: switching the controllers on tells whether it matters.
        return False
    return True


def _switch_back(base: Base, already: frozenset[str], moved: list[int]) -> None:
    """As it was, unless another harness is at work beside us."""
    if any(path.name != LEAF for path in base.folder.glob("edgebench-*/")):
        return
    files = unified_files(base.folder)
    with contextlib.suppress(OSError):
        for name in sorted(frozenset(files.subtree_control) - already):
            files.subtree_control = f"-{name}"
        for pid in moved:
            _move(pid, base.folder)
        (base.folder / LEAF).rmdir()


def _pids(folder: Path) -> tuple[int, ...]:
    return tuple(int(line) for line in (folder / "cgroup.procs").read_text().split())


def _ancestry() -> list[int]:
    """Our own process, its parent, and so on up to the first."""
    chain = [os.getpid()]
    while chain[-1] > 1:
        try:
            stat = Path(f"/proc/{chain[-1]}/stat").read_text()
        except OSError:
            break
        # The name in parentheses may hold anything; the parent is the second word after it.
        chain.append(int(stat.rpartition(")")[2].split()[1]))
    return [pid for pid in chain if pid > 0]
