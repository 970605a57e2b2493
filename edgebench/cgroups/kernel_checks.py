"""What this machine's cgroups support, and what its kernel does, before anything is measured.

Small programs under a limit show whether the kernel enforces memory limits: systemd has silently
ignored them, and a container may show files that nothing enforces. A program that allocates more
than its limit must be killed, and one that allocates less must not.

They also show whether reading ``memory.stat`` changes what it kills: since Linux 6.12, reclaim in a
cgroup uses the list sizes of the last statistics update, which the kernel makes every two seconds
and at each read of ``memory.stat``. A cgroup whose pages have all become active since then is
killed although its swap is free (docs/explanation/observer-effect.md).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.errors import CgroupError
from edgebench.units import format_size

NO_SWAP_ACCOUNTING = """\
swap use is not counted by cgroup. Add swapaccount=1 to the kernel's command line and restart"""
NO_RESET = "a layer's peak then comes from samples; Linux 6.12 or later has exact ones"
NO_PEAK = "peaks then come from samples; Linux 5.19 or later has exact ones"
NO_PSI = "to measure stalls, add psi=1 to the kernel's command line and restart"
THROTTLED = """\
memory.high is set there: above it the kernel throttles a trial instead of limiting it, so times
measured here would be wrong. As its owner:
    echo max > {file}"""
FEW_CPUS = """\
harness and sampler need CPU time too, so times are longer than on the bare machine; give this
container or slice more: docker run --cpus=2 --cpuset-cpus=0-1 …, or CPUQuota= in systemd"""
NO_CONTROLLER = """\
their limits and counters are not available; as another user than root, call edgebench with sudo"""
#: One for the workload, one for harness and sampler.
_ENOUGH_CPUS = 2
_LIMIT = 64 << 20
#: What the two programs allocate.
_BELOW, ABOVE_BYTES = 32 << 20, 96 << 20
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
class Finding:
    """One finding. ``ok`` None: sweeps run, but with fewer limits or counters."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def check_support() -> list[Finding]:
    """Find what this machine's cgroups support, for ``doctor``; leave nothing behind."""
    with Ownership() as ownership:
        try:
            return support_findings(find_parent(ownership).describe())
        except CgroupError as error:
            where = f" ({error.where})" if error.where else ""
            return [Finding("cgroup", False, f"{error.what}{where}", error.remedy)]


def support_findings(described: Mapping[str, Any]) -> list[Finding]:
    """Say what the description of a parent cgroup means for a sweep."""

    def finding(name: str, says: str, lacking: str | None = None, remedy: str = "") -> Finding:
        ok = None if lacking else True
        return Finding(name, ok, lacking or says, (remedy or None) if lacking else None)

    version, has = described["version"], described["controllers"]
    hybrid = " (hybrid: the other version is mounted too)" if described["hybrid"] else ""
    ceiling = throttle = no_controller = no_peak = no_pressure = None
    peak_remedy = pressure_remedy = ""
    if described["ceiling_bytes"] is not None:
        ceiling = f"{format_size(described['ceiling_bytes'])}: no trial can use more"
    if described["throttle_bytes"] is not None:
        throttle = f"memory.high of {format_size(described['throttle_bytes'])}"
    throttle_remedy = THROTTLED.format(file=described["throttle_file"])
    cores, quota = described["cores"], described["cpu_quota"]
    cpus = f"{cores} {'core' if cores == 1 else 'cores'}"
    cpus += "" if quota is None else f", no more than {quota:g} at a time"
    few_cpus = cpus if min(cores, quota or cores) < _ENOUGH_CPUS else None
    wanted = {"cpu", "cpuset", "pids"} | ({"cpuacct", "blkio"} if version == 1 else {"io"})
    if lacking := sorted(wanted - set(has)):
        no_controller = f"{', '.join(has)}; not {', '.join(lacking)}"
    no_swap = None if described["swap_accounting"] else "off"
    if not described["peak"]:
        no_peak, peak_remedy = "not kept by this kernel", NO_PEAK
    elif not described["peak_resets"]:
        no_peak, peak_remedy = "kept by the kernel, but can't be reset", NO_RESET
    if not described["pressure"] and version == 1:
        no_pressure = "cgroup version 1 has none"
    elif not described["pressure"]:
        no_pressure, pressure_remedy = "not measured", NO_PSI
    exact = "kept by the kernel, reset at each layer"
    return [
        finding("cgroup", f"version {version}, below {described['path']}{hybrid}"),
        finding("limit above", "none", ceiling, "keep the scenario's limits below it"),
        finding("throttle above", "none", throttle, throttle_remedy),
        finding("CPUs", cpus, few_cpus, FEW_CPUS),
        finding("controllers", ", ".join(has), no_controller, NO_CONTROLLER),
        finding("swap accounting", "on", no_swap, NO_SWAP_ACCOUNTING),
        finding("kernel's peak", exact, no_peak, peak_remedy),
        finding("pressure", "measured for each cgroup", no_pressure, pressure_remedy),
    ]


def check_limit(parent: ParentCgroup) -> int:
    """Run both programs under a small limit without swap; return that limit in bytes.

    It takes well below a second.

    Raises:
        CgroupError: the limit is not enforced, or a smaller one is.
    """
    cgroup = parent.create(f"{os.getpid()}-proof", accounting=False)
    try:
        limit = cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=0)).memory_bytes or 0
        if (code := run_in(cgroup, ["-c", _ALLOCATOR, str(_BELOW)], _TIMEOUT_S)) != 0:
            raise _failed(cgroup, _BELOW, f"ended with {code}, and should have succeeded")
        code = run_in(cgroup, ["-c", _ALLOCATOR, str(ABOVE_BYTES)], _TIMEOUT_S)
        if code != -signal.SIGKILL:
            ended = "did not end" if code is None else f"ended with {code}"
            raise _failed(cgroup, ABOVE_BYTES, f"{ended}, and should have been killed")
        return limit
    finally:
        cgroup.remove()


def run_in(cgroup: Cgroup, words: Sequence[str], timeout_s: float) -> int | None:
    """Run a small Python program in the cgroup; return its exit status, None if it timed out."""
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
    script = str(Path(__file__).with_name("probes.py"))
    killed = {False: 0, True: 0}
    for number in range(2 * tries):
        is_read = number % 2 == 1
        # A new cgroup each time: the state of an old one's statistics is not known.
        cgroup = parent.create(f"{os.getpid()}-stale-{number}", accounting=False)
        try:
            cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=SWAP_BYTES))
            with _reader(cgroup) if is_read else nullcontext():
                code = run_in(cgroup, [script, "pages", str(_SIZE), str(_MORE)], _TIMEOUT_S)
            if code is None:
                raise CgroupError("the test program did not end", where=str(cgroup.path))
            if code == _NOT_ALLOWED:
                raise CgroupError("process_vm_readv is not allowed here", where=str(cgroup.path))
            killed[is_read] += bool(cgroup.read().oom_kills)
        finally:
            cgroup.remove()
    return StatEffect(tries, killed[False], killed[True])


@contextmanager
def _reader(cgroup: Cgroup) -> Iterator[None]:
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
