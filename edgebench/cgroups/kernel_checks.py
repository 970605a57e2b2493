"""Small programs under a limit that show, before anything is measured, what this kernel does.

Whether it enforces memory limits: systemd has silently ignored them, and a container may show files
that nothing enforces. A program that allocates more than its limit must be killed, and one that
allocates less must not.

Whether reading ``memory.stat`` changes what it kills: since Linux 6.12, reclaim in a cgroup uses
the list sizes of the last statistics update, which the kernel makes every two seconds and at each
read of ``memory.stat``. A cgroup whose pages have all become active since then is killed although
its swap is free (docs/explanation/observer-effect.md).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError
from edgebench.records import Outcome
from edgebench.units import format_size

_LIMIT = 64 << 20
_BELOW, _ABOVE = 32 << 20, 96 << 20
_TIMEOUT_S = 30.0
#: Together above the limit; the first part below it, with room for the interpreter.
_SIZE, _MORE = 48 << 20, 40 << 20
#: The most swap that the program needs.
SWAP_BYTES = 64 << 20
_NOT_ALLOWED = 3
#: Its only loop: faster than the program can fill what is left of its limit.
_READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print(flush=True)
while os.getppid() == int(sys.argv[2]):
    os.pread(fd, 65536, 0)
"""

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


@dataclass(frozen=True)
class StatEffect:
    """How many of ``tries`` programs the kernel killed without a reader, and as many with one."""

    tries: int
    killed_unread: int
    killed_read: int

    @property
    def reading_saves(self) -> bool:
        """Whether reading ``memory.stat`` prevents kills on this machine."""
        return self.killed_unread > self.killed_read


def measure_stat_effect(parent: ParentCgroup, tries: int = 4) -> StatEffect:
    """Run the program alternately without and with a reader of ``memory.stat``; takes some seconds.

    The machine needs :data:`SWAP_BYTES` of free swap.

    Raises:
        CgroupError: no cgroup, no ``memory.stat``, or the kernel doesn't let the program mark its
            pages.
    """
    killed = {False: 0, True: 0}
    for number in range(2 * tries):
        read = number % 2 == 1
        killed[read] += _is_killed(parent, f"{os.getpid()}-stale-{number}", read)
    return StatEffect(tries, killed[False], killed[True])


def _is_killed(parent: ParentCgroup, name: str, read: bool) -> bool:
    # A new cgroup each time: the state of an old one's statistics is not known.
    cgroup = parent.create(name, accounting=False)
    try:
        cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=SWAP_BYTES))
        with ExitStack() as stack:
            if read:
                stack.enter_context(_reader(cgroup))
            return _run(cgroup)
    finally:
        cgroup.remove()


def _run(cgroup: Cgroup) -> bool:
    script = str(Path(__file__).with_name("active_pages.py"))
    code = run_in(cgroup, [script, str(_SIZE), str(_MORE)], _TIMEOUT_S)
    if code is None:
        raise CgroupError("the test program did not end", where=str(cgroup.path))
    if code == _NOT_ALLOWED:
        raise CgroupError("process_vm_readv is not allowed here", where=str(cgroup.path))
    return bool(cgroup.read().oom_kills)


@contextmanager
def _reader(cgroup: Cgroup) -> Iterator[None]:
    """A process outside the cgroup that reads its ``memory.stat`` in a loop."""
    stat = cgroup.hot_files().stat
    if stat is None:
        raise CgroupError("this kernel has no memory.stat", where=str(cgroup.path))
    words = [sys.executable, "-I", "-S", "-c", _READER, str(stat), str(os.getpid())]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
