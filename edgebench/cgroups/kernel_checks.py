"""What this machine's cgroups support, and whether its kernel enforces limits.

systemd has silently ignored limits, and a container may show files that nothing enforces. So a
program that allocates more than its limit must be killed, and one that allocates less must not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.errors import CgroupError
from edgebench.text import format_size

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
    cgroup = parent.create(f"{os.getpid()}-proof")
    try:
        limit = cgroup.set_limits(Limits(memory_bytes=_LIMIT, swap_bytes=0)).memory_bytes or 0
        if (code := allocate(cgroup, _BELOW)) != 0:
            raise _failed(cgroup, _BELOW, f"ended with {code}, and should have succeeded")
        code = allocate(cgroup, ABOVE_BYTES)
        if code != -signal.SIGKILL:
            ended = "did not end" if code is None else f"ended with {code}"
            raise _failed(cgroup, ABOVE_BYTES, f"{ended}, and should have been killed")
        return limit
    finally:
        cgroup.remove()


def allocate(cgroup: Cgroup, size_bytes: int) -> int | None:
    """Touch so much memory in the cgroup; return the exit status, None if it timed out."""
    words = [sys.executable, "-I", "-S", "-c", _ALLOCATOR, str(size_bytes)]
    process = subprocess.Popen(
        join_command(cgroup, words, None, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(_TIMEOUT_S)
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
