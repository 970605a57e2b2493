"""How each kind of thing a dead harness left is taken away, and how we know it is ours.

A path comes from a state file that only its owner can write; still nothing is touched that
doesn't carry edgebench's name and isn't what it should be.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from edgebench.cgroups.folders import remove_all
from edgebench.errors import MachineError

_PREFIX = "edgebench-"


def clear_cgroup(path: Path) -> str | None:
    """Kill what runs in a cgroup of ours and take it away; None if it is gone."""
    if not _ours(path) or not (path / "cgroup.procs").exists():
        return None
    remove_all([path])
    return f"removed the cgroup {path}"


def clear_swap_file(path: Path) -> str | None:
    """Swap a file of ours off and delete it; None if it is gone."""
    if not _ours(path) or not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        return None
    swap_off(path)
    path.unlink(missing_ok=True)
    return f"removed the swap file {path}"


def clear_zram(path: Path) -> str | None:
    """Swap a zram device of ours off and take it away; None if it is gone."""
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
    """Delete a temporary folder of ours; None if it is gone."""
    if not _ours(path) or path.is_symlink() or not path.is_dir():
        return None
    shutil.rmtree(path, ignore_errors=True)
    return f"removed the temporary folder {path}"


def swap_off(path: Path) -> None:
    """Swap one area off, if it is on.

    Raises:
        MachineError: the kernel refuses, mostly for want of memory to take the pages back.
    """
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    if str(path) not in (line.split()[0] for line in lines):
        return
    done = subprocess.run(["swapoff", str(path)], capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode:
        raise MachineError(
            f"swap that edgebench set up can't be taken away: {done.stderr.strip()}",
            where=str(path),
            remedy=f"free some memory, then: swapoff {path}",
        )


def _ours(path: Path) -> bool:
    return path.is_absolute() and path.name.startswith(_PREFIX) and ".." not in path.parts


#: Kind → how it is taken away, in the order in which that has to be done.
CLEARERS: dict[str, Callable[[Path], str | None]] = {
    "cgroup": clear_cgroup,
    "swap-file": clear_swap_file,
    "zram": clear_zram,
    "temp-folder": clear_temp_folder,
}
