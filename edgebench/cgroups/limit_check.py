"""Checks, before anything is measured, that the kernel enforces memory limits here.

systemd has silently ignored limits, and a container may show files that nothing enforces. A program
that allocates more than its limit must be killed, and one that allocates less must not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError
from edgebench.records import Outcome
from edgebench.units import format_size

_LIMIT = 64 << 20
_BELOW, _ABOVE = 32 << 20, 96 << 20
_TIMEOUT_S = 30.0
#: Private anonymous memory, one byte a page written, so no malloc decides how much is used.
_ALLOCATOR = """
import mmap, sys
size = int(sys.argv[1])
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for offset in range(0, size, mmap.PAGESIZE):
    area[offset] = 1
"""
_REMEDY = "measurements would be wrong here; see this cgroup's limits with: edgebench doctor"


@dataclass(frozen=True)
class LimitCheck:
    """What happened to the program that allocates more than its limit."""

    limit_bytes: int
    touched_bytes: int
    outcome: Outcome
    peak_bytes: int | None


def check_limit(parent: ParentCgroup) -> LimitCheck:
    """Run both programs under a small limit without swap. Takes well below a second.

    Raises:
        CgroupError: the limit is not enforced, or a smaller one is.
    """
    cgroup = parent.create(f"{os.getpid()}-proof", accounting=False)
    try:
        limit = cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=0)).memory_bytes or 0
        if (code := _allocate(cgroup, _BELOW)) != 0:
            raise _failed(cgroup, _BELOW, f"ended with {code}, and should have succeeded")
        code = _allocate(cgroup, _ABOVE)
        if code != -signal.SIGKILL:
            ended = "did not end" if code is None else f"ended with {code}"
            raise _failed(cgroup, _ABOVE, f"{ended}, and should have been killed")
        return LimitCheck(limit, _ABOVE, "oom-killed", cgroup.read().peak_bytes)
    finally:
        cgroup.remove()


def _allocate(cgroup: Cgroup, size_bytes: int) -> int | None:
    return run_in(cgroup, ["-c", _ALLOCATOR, str(size_bytes)], _TIMEOUT_S)


def run_in(cgroup: Cgroup, words: Sequence[str], timeout_s: float) -> int | None:
    """Run a small Python program in the cgroup; its exit status, None if it timed out."""
    process = subprocess.Popen(
        join_command(cgroup, [sys.executable, "-I", "-S", *words], None, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        cgroup.kill()
        process.kill()
        process.wait()


def _failed(cgroup: Cgroup, size_bytes: int, how: str) -> CgroupError:
    sizes = f"{format_size(size_bytes)} under a limit of {format_size(_LIMIT)}"
    return CgroupError(
        f"memory limits are not enforced here: allocating {sizes} {how}",
        where=str(cgroup.path),
        remedy=_REMEDY,
    )
