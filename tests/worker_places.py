"""What each worker of xdist has of its own: a cgroup, and root's folder of state files.

So tests with ``own_cgroup`` can run beside each other. A harness that one worker starts removes
what dead harnesses left: it must not find those that a test of another worker has just killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from edgebench.cgroups.leftovers import Ownership, clear_leftovers, state_folder
from edgebench.cgroups.parent import find_parent
from edgebench.errors import EdgebenchError

_undo = contextlib.ExitStack()
#: A folder for each worker, named by the process that made it.
_STATES = Path("/run/edgebench-tests")
_CLONE_NEWNS, _MS_BIND, _MS_PRIVATE = 0x20000, 0x1000, 1 << 18 | 0x4000


def make_cgroup(worker: str) -> list[str]:
    try:
        parent = find_parent(_undo.enter_context(Ownership()))
        made = parent.create(f"{os.getpid()}-{worker}")
    except EdgebenchError:
        # Tests that need one are skipped, and say why.
        return []
    _undo.callback(made.remove)
    return [str(file) for file in made.join_files()]


def join(files: Iterable[str]) -> None:
    for file in files:
        Path(file).write_text("0")


def make_state(worker: str) -> str | None:
    """A folder for the worker's state files; None for an ordinary user, whose tests share one."""
    if os.geteuid() != 0:
        return None
    _STATES.mkdir(mode=0o700, exist_ok=True)
    for old in _STATES.iterdir():
        if not Path("/proc", old.name.partition("-")[0]).exists():
            _remove_state(old)
    folder = _STATES / f"{os.getpid()}-{worker}"
    folder.mkdir(mode=0o700)
    _undo.callback(_remove_state, folder)
    return str(folder)


def _remove_state(folder: Path) -> None:
    clear_leftovers(folder)
    shutil.rmtree(folder, ignore_errors=True)


def use_state(folder: str | None) -> None:
    """Let this process and all that it starts find the folder where root's state files are.

    Where a process can't have mounts of its own, all workers share one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if folder is None or libc.unshare(_CLONE_NEWNS):
        return
    here = os.fsencode(state_folder())
    assert libc.mount(None, b"/", None, _MS_PRIVATE, None) == 0
    assert libc.mount(os.fsencode(folder), here, None, _MS_BIND, None) == 0


@functools.cache
def groups_file() -> Path:
    """Where the workers write down which tests belong together (``groups.py``)."""
    return Path(_undo.enter_context(tempfile.TemporaryDirectory()), "groups.json")


def remove_places() -> None:
    _undo.close()
