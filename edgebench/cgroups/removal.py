"""Finds and kills the processes of a cgroup, and removes it; the same on both versions."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgebench.cgroups.disk_limits import lift_disk_limits
from edgebench.errors import CgroupError
from edgebench.safe_folders import walk

#: How long killed processes may take to go; one in uninterruptible I/O takes its time.
_PATIENCE_S = 20.0
_PAUSE_S = 0.001
_STUCK_REMEDY = "see what it waits for: cat /proc/{pid}/stack; then rmdir {folder}"


def tree(folder: Path) -> list[Path]:
    """The folder and all cgroups below it, the deepest first. Empty if it is gone."""
    return [path for path, _ in walk(folder)][::-1]


def pids_in(folder: Path) -> tuple[int, ...]:
    """Processes in the cgroup and below it; 0 stands for one of another pid namespace."""
    pids: set[int] = set()
    for cgroup in tree(folder):
        with contextlib.suppress(FileNotFoundError, OSError):
            pids.update(int(line) for line in (cgroup / "cgroup.procs").read_bytes().split())
    return tuple(sorted(pids))


def kill_all(folders: Iterable[Path]) -> None:
    """Kill all processes in the cgroups and below, and wait until they are gone.

    Raises:
        CgroupError: a process doesn't end (it hangs in the kernel).
    """
    deadline = time.monotonic() + _PATIENCE_S
    folders = list(folders)
    for folder in folders:
        for cgroup in tree(folder):
            lift_disk_limits(cgroup)
    with _no_more_in(folders):
        _kill_until(folders, deadline)


@contextlib.contextmanager
def _no_more_in(folders: Iterable[Path]) -> Iterator[None]:
    """Forbid forks in the cgroups meanwhile: a fork bomb forks faster than it is killed."""
    files = [folder / "pids.max" for folder in folders if not (folder / "cgroup.kill").exists()]
    before: dict[Path, str] = {}
    for file in files:
        with contextlib.suppress(OSError):
            before[file] = file.read_text(errors="replace")
            file.write_text("0")
    try:
        yield
    finally:
        for file, limit in before.items():
            with contextlib.suppress(OSError):
                file.write_text(limit)


def _kill_until(folders: Iterable[Path], deadline: float) -> None:
    for folder in folders:
        while pids := pids_in(folder):
            _kill(folder, pids)
            if time.monotonic() > deadline:
                raise CgroupError(
                    f"process {pids[0]} was killed and does not end",
                    where=str(folder),
                    remedy=_STUCK_REMEDY.format(pid=pids[0], folder=folder),
                )
            time.sleep(_PAUSE_S)


def _kill(folder: Path, pids: tuple[int, ...]) -> None:
    kill_file = folder / "cgroup.kill"
    if kill_file.exists():
        kill_file.write_text("1")
        return
    for pid in pids:
        # 0 would be our own process group.
        if pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove_all(folders: Iterable[Path]) -> None:
    """Kill all processes in the cgroups, then remove them and those below. Safe to call twice.

    Raises:
        CgroupError: one can't be removed.
    """
    folders = list(folders)
    kill_all(folders)
    for folder in folders:
        for cgroup in tree(folder):
            _rmdir(cgroup)


def _rmdir(cgroup: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            # EBUSY for an instant after the last process went.
            if time.monotonic() > deadline:
                raise CgroupError(
                    f"can't remove a cgroup: {error.strerror}",
                    where=str(cgroup),
                    remedy=f"rmdir {cgroup}",
                ) from error
            time.sleep(_PAUSE_S)
        else:
            return
