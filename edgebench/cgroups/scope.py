"""Moves this process into a scope delegated by systemd, as ``systemd-run --scope`` does.

On a machine that systemd manages, not even root may divide a login session's cgroup. A delegated
scope may be divided, and systemd removes it once its last process has ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
_PATIENCE_S = 10.0
#: Limits that must not be left behind; the text of each that means none.
_LIMITS = {"memory.max": "max", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max"}


def systemd_runs() -> bool:
    """Whether systemd manages this machine: sd_booted(3)."""
    return Path("/run/systemd/system").is_dir()


def enter_scope(own: Path, mount: Path) -> bool:
    """Move this process into a scope of its own; False where that can't or may not be.

    Args:
        own: the cgroup we are in.
        mount: the hierarchy's mount.
    """
    busctl = shutil.which("busctl")
    if busctl is None or not systemd_runs() or not may_leave(own, mount):
        return False
    before = Path("/proc/self/cgroup").read_text()
    return _ask(busctl, _slice(own, mount)) and _moved(before)


def may_leave(own: Path, mount: Path) -> bool:
    """Whether no limit is escaped: none below our slice, and the scope will be in that slice.

    A user's own manager makes scopes below the user's slice only.
    """
    if os.geteuid() != 0 and f"user-{os.geteuid()}.slice" not in own.parts:
        return False
    left = []
    for folder in (own, *own.parents):
        if folder == mount or folder.name.endswith(".slice"):
            break
        left.append(folder)
    return not any(_limited(folder) for folder in left)


def _limited(folder: Path) -> bool:
    for name, unlimited in _LIMITS.items():
        file = folder / name
        if file.exists() and not file.read_text().startswith(unlimited):
            return True
    return False


def _slice(own: Path, mount: Path) -> str | None:
    """The slice we are in; a user's manager chooses by itself."""
    if os.geteuid() != 0:
        return None
    above = own.relative_to(mount).parts
    return next((name for name in reversed(above) if name.endswith(".slice")), None)


def _ask(busctl: str, slice_name: str | None) -> bool:
    properties = [["Delegate", "b", "true"], ["PIDs", "au", "1", str(os.getpid())]]
    if slice_name:
        properties.append(["Slice", "s", slice_name])
    words = [word for entry in properties for word in entry]
    bus = "--system" if os.geteuid() == 0 else "--user"
    name = f"edgebench-{os.getpid()}.scope"
    call = [busctl, bus, "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))"]
    try:
        done = subprocess.run(
            [*call, name, "fail", str(len(properties)), *words, "0"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _moved(before: str) -> bool:
    """Wait until systemd has moved us: its answer comes earlier."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if Path("/proc/self/cgroup").read_text() != before:
            return True
        time.sleep(0.005)
    return False
