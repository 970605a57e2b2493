"""Removes what a crashed harness left: cgroups, swap files, zram devices, temporary folders.

The paths come from a state file that only its owner can write; still nothing is touched that
lacks edgebench's name or is of another kind.
"""

from __future__ import annotations

import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.cgroups.delegation import CONTROLLERS, restore_controllers
from edgebench.cgroups.disk_limits import lift_disk_limits
from edgebench.cgroups.kernel_values import KIND, put_back
from edgebench.cgroups.ram_disk import clear_ram_disk
from edgebench.cgroups.removal import remove_all
from edgebench.errors import MachineError
from edgebench.safe_files import remove_file, remove_folder

#: Between attempts to switch swap off.
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_PREFIX = "edgebench-"


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


def clear_temp_folder(path: Path) -> str | None:
    """Delete edgebench's temporary folder; None if it is gone."""
    if not _is_edgebenchs(path) or path.is_symlink() or not path.is_dir():
        return None
    remove_folder(path)
    return f"removed the temporary folder {path}"


def swap_off(path: Path) -> None:
    """Swap one area off, if it is on.

    Raises:
        MachineError: the kernel refuses again and again, usually because too little memory is free
            for the pages.
    """
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    if str(path) not in (line.split()[0] for line in lines):
        return
    # Memory that an ended trial held may still be on its way back to the kernel.
    for pause_s in (*_PAUSES_S, 0.0):
        done = subprocess.run(["swapoff", str(path)], capture_output=True, text=True, check=False)  # noqa: S607
        if not done.returncode:
            break
        time.sleep(pause_s)
    else:
        raise MachineError(
            f"can't remove edgebench's swap: {done.stderr.strip()}",
            where=str(path),
            remedy=f"free some memory, then: swapoff {path}",
        )


def _is_edgebenchs(path: Path) -> bool:
    return path.is_absolute() and path.name.startswith(_PREFIX) and ".." not in path.parts


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
    KIND: put_back,
}
