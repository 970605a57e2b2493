"""Prove, before anything is measured, that a memory limit really bites here.

systemd has silently ignored limits, a container may show files that nothing enforces. A known
allocator that needs more than its limit must be killed, and one that needs less must not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.place import Place
from edgebench.errors import CgroupError
from edgebench.records.records import Outcome
from edgebench.units import format_size

_LIMIT = 64 << 20
_BELOW, _ABOVE = 32 << 20, 96 << 20
_PATIENCE_S = 30.0
#: Private anonymous memory, one byte a page touched: no malloc decides what is really used.
_ALLOCATOR = """
import mmap, sys
size = int(sys.argv[1])
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for offset in range(0, size, mmap.PAGESIZE):
    area[offset] = 1
"""
_REMEDY = "nothing measured here would mean anything: see edgebench doctor for this cgroup's limits"


@dataclass(frozen=True)
class LimitProof:
    """What was seen of the allocator that needs more than its limit."""

    limit_bytes: int
    touched_bytes: int
    outcome: Outcome
    peak_bytes: int | None


def prove_limit(place: Place) -> LimitProof:
    """Run both allocators under a small limit without swap. Takes well below a second.

    Raises:
        CgroupError: the limit doesn't bite, or bites what is below it.
    """
    cgroup = place.create(f"{os.getpid()}-proof", accounting=False)
    try:
        limit = cgroup.apply(Limits(memory_bytes=_LIMIT, swap_bytes=0)).memory_bytes or 0
        _require_ok(cgroup)
        _require_kill(cgroup)
        return LimitProof(limit, _ABOVE, "oom-killed", cgroup.read().peak_bytes)
    finally:
        cgroup.remove()


def _require_ok(cgroup: Cgroup) -> None:
    returncode = _touch(cgroup, _BELOW)
    if returncode != 0:
        raise _disproved(cgroup, _BELOW, f"ended with {returncode}, and it should have fitted")


def _require_kill(cgroup: Cgroup) -> None:
    returncode = _touch(cgroup, _ABOVE)
    if returncode is None:
        raise _disproved(cgroup, _ABOVE, "hangs, and it should have been killed")
    if returncode == 0:
        raise _disproved(cgroup, _ABOVE, "went through, and it should have been killed")
    if returncode != -signal.SIGKILL:
        raise _disproved(cgroup, _ABOVE, f"ended with {returncode}, not by the kernel's kill")


def _touch(cgroup: Cgroup, size_bytes: int) -> int | None:
    """How an allocator of that size ended; None if it didn't."""
    allocator = [sys.executable, "-I", "-S", "-c", _ALLOCATOR, str(size_bytes)]
    process = subprocess.Popen(
        join_command(cgroup, allocator, None, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        cgroup.kill()
        process.kill()
        process.wait()


def _disproved(cgroup: Cgroup, size_bytes: int, how: str) -> CgroupError:
    sizes = f"{format_size(size_bytes)} under a limit of {format_size(_LIMIT)}"
    return CgroupError(
        f"memory limits don't hold here: touching {sizes} {how}",
        where=str(cgroup.path),
        remedy=_REMEDY,
    )
