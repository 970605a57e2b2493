"""How each kind of thing that a harness makes or changes is undone, also after a crash.

The paths may come from a state file that only its owner can write; still nothing is touched that
lacks edgebench's name or is of another kind.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgebench.cgroups.disk_limits import lift_disk_limits
from edgebench.cgroups.files import unified_files
from edgebench.cgroups.removal import remove_all
from edgebench.errors import MachineError
from edgebench.safe_files import remove_file, remove_folder, write
from edgebench.swap_areas import read_swap_areas

#: How state files name what several harnesses may change.
CONTROLLERS = "controllers"
#: The leaf cgroup of version 2 that harnesses are in while trials run.
LEAF = "edgebench-harness"
#: Between attempts at what may be busy for a moment: swap off, unmount, restore a cgroup.
_SWAP_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_MOUNT_PAUSES_S = (0.1, 0.5, 2.0)
_CGROUP_PAUSES_S = (0.001, 0.01, 0.1, 1.0)


def run_tool(words: Sequence[str], remedy: str, where: Path | None = None) -> str:
    """Run a tool of the system's; what it prints.

    Raises:
        MachineError: it is not on this machine, or it failed: with its own words and ``remedy``.
    """
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MachineError(
            f"{words[0]} is not on this machine",
            remedy=f"apt-get install util-linux mount e2fsprogs, or {remedy}",
        ) from error
    if done.returncode:
        what = f"{words[0]} failed: {done.stderr.strip()}"
        raise MachineError(what, where=str(where) if where else None, remedy=remedy)
    return done.stdout


def clear_cgroup(path: Path) -> str | None:
    """Kill the processes of edgebench's cgroup and remove it; None if it is gone."""
    if not _is_edgebenchs(path) or not (path / "cgroup.procs").exists():
        return None
    remove_all([path])
    return f"removed the cgroup {path}"


def lift_limits(path: Path) -> None:
    """Let a process of edgebench's cgroup, killed while it waits for a held disk, end at once."""
    if _is_edgebenchs(path):
        lift_disk_limits(path)


def clear_swap_file(path: Path) -> str | None:
    """Swap edgebench's file off and delete it; None if it is gone."""
    if not _is_edgebenchs(path) or not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        return None
    swap_off(path)
    remove_file(path)
    return f"removed the swap file {path}"


def clear_zram(path: Path) -> str | None:
    """Swap edgebench's zram device off and remove it; None if it is gone."""
    block = Path("/sys/block") / path.name
    if not path.name.startswith("zram") or not block.exists():
        return None
    swap_off(path)
    (block / "reset").write_text("1")
    remove = Path("/sys/class/zram-control/hot_remove")
    if remove.exists():
        remove.write_text(path.name.removeprefix("zram"))
    return f"removed the swap device {path}"


def swap_off(path: Path) -> None:
    """Swap one area off, if it is on.

    Raises:
        MachineError: the kernel refuses again and again, usually because too little memory is free
            for the pages.
    """
    if path not in (read_swap_areas() or {}):
        return
    # Memory that an ended trial held may still be on its way back to the kernel.
    for pause_s in (*_SWAP_PAUSES_S, None):
        try:
            run_tool(["swapoff", str(path)], f"free some memory, then: swapoff {path}", path)
        except MachineError:
            if pause_s is None:
                raise
            time.sleep(pause_s)
        else:
            return


def clear_ram_disk(folder: Path) -> str | None:
    """Unmount edgebench's disk in memory and free it; None if it is gone.

    Raises:
        MachineError: something still uses it.
    """
    if not folder.name.startswith("edgebench-ram-disk-") or folder.is_symlink():
        return None
    if not folder.is_dir():
        return None
    _unmount(folder / "disk")
    if (file := folder / "memory" / "disk").is_file():
        # A process that began meanwhile with mounts of its own may keep the device: without memory.
        write(file, b"")
    for loop in Path("/sys/block").glob("loop*/loop/backing_file"):
        if os.fsdecode(loop.read_bytes().strip()) == str(file):
            device = f"/dev/{loop.parent.parent.name}"
            run_tool(["losetup", "--detach", device], f"losetup --detach {device}")
    _unmount(folder / "memory", "--lazy")
    remove_folder(folder)
    return f"removed the disk in memory {folder}"


def _unmount(folder: Path, *how: str) -> None:
    for pause_s in (*_MOUNT_PAUSES_S, None):
        if not folder.is_mount():
            return
        try:
            run_tool(["umount", *how, str(folder)], f"end what uses it, then: umount {folder}")
        except MachineError:
            if pause_s is None:
                raise
            time.sleep(pause_s)


def clear_temp_folder(path: Path) -> str | None:
    """Delete edgebench's temporary folder; None if it is gone."""
    if not _is_edgebenchs(path) or path.is_symlink() or not path.is_dir():
        return None
    remove_folder(path)
    return f"removed the temporary folder {path}"


def _is_edgebenchs(path: Path) -> bool:
    return path.is_absolute() and path.name.startswith("edgebench-") and ".." not in path.parts


def restore_controllers(folder: Path, before: str) -> str | None:
    """Restore a cgroup of version 2 once no harness uses it; a sentence if that changed it.

    All that is in the leaf goes back: those moved may have started others meanwhile.
    """
    if not (folder / "cgroup.procs").exists() or _has_trials(folder):
        return None
    surplus = _surplus(folder, before)
    for pause_s in _CGROUP_PAUSES_S:
        try:
            _undo(folder, before)
        except OSError:
            # Busy for an instant after the last process has gone.
            time.sleep(pause_s)
        else:
            break
    return f"switched {', '.join(surplus)} off in {folder}" if surplus else None


def _undo(folder: Path, before: str) -> None:
    """Switch the controllers off, which lets processes in again, and move those in the leaf."""
    for name in _surplus(folder, before):
        unified_files(folder).subtree_control = f"-{name}"
    leaf = folder / LEAF
    if leaf.exists():
        for pid in own_pids(leaf):
            move_process(pid, folder)
        leaf.rmdir()


def _surplus(folder: Path, before: str) -> list[str]:
    """The controllers that are enabled for its children and were not before."""
    return sorted(set(unified_files(folder).subtree_control) - set(before.split(",")))


def _has_trials(folder: Path) -> bool:
    """Whether a harness has cgroups there; one of another user's has its claims elsewhere."""
    return any(path.name != LEAF for path in folder.glob("edgebench-*/"))


def own_pids(folder: Path) -> tuple[int, ...]:
    """The processes in the cgroup itself, not below it."""
    return tuple(int(line) for line in (folder / "cgroup.procs").read_bytes().split())


def move_process(pid: int, folder: Path) -> None:
    """Move a process into the cgroup, if that is allowed and it still lives."""
    # Enabling the controllers shows whether it matters.
    with contextlib.suppress(OSError):
        (folder / "cgroup.procs").write_text(str(pid))


#: Kind → how it is removed, in the order in which that must be done.
CLEARERS: dict[str, Callable[[Path], str | None]] = {
    "cgroup": clear_cgroup,
    "swap-file": clear_swap_file,
    "zram": clear_zram,
    # Once no swap is on it.
    "ram-disk": clear_ram_disk,
    "temp-folder": clear_temp_folder,
}
#: Kind → how its state, as it was before, is restored once no harness uses it any more.
RESTORERS: dict[str, Callable[[Path, str], str | None]] = {
    CONTROLLERS: restore_controllers,
}
