"""Tests whether reading ``memory.stat`` changes what this kernel kills, with a minimal program.

Since Linux 6.12, reclaim in a cgroup uses the list sizes of the last statistics update, which the
kernel makes every two seconds and at each read of ``memory.stat``. A cgroup whose pages have all
become active since then is killed although its swap is free (docs/explanation/observer-effect.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.limit_check import run_in
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError

_LIMIT = 64 << 20
#: Together above the limit; the first part below it, with room for the interpreter.
_SIZE, _MORE = 48 << 20, 40 << 20
#: The most swap that the program needs.
SWAP_BYTES = 64 << 20
_TIMEOUT_S = 30.0
_NOT_ALLOWED = 3
#: Its only loop: faster than the program can fill what is left of its limit.
_READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print(flush=True)
while os.getppid() == int(sys.argv[2]):
    os.pread(fd, 65536, 0)
"""


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
