"""What the cgroups of this machine support, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
their limits and counters are not available; run as root, or see which exist: cat /proc/cgroups"""
#: One for the workload, one for harness and sampler.
_ENOUGH_CPUS = 2


@dataclass(frozen=True)
class Finding:
    """One finding. ``ok`` None: sweeps run, but with fewer limits or counters."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def no_support(error: CgroupError) -> list[Finding]:
    """The only finding where no cgroup can be created."""
    where = f" ({error.where})" if error.where else ""
    return [Finding("cgroup", False, f"{error.what}{where}", error.remedy)]


def support_findings(described: Mapping[str, Any]) -> list[Finding]:
    """What the description of a parent cgroup means for a sweep."""
    version, path = described["version"], described["path"]
    hybrid = " (hybrid: the other version is mounted too)" if described["hybrid"] else ""
    return [
        Finding("cgroup", True, f"version {version}, below {path}{hybrid}"),
        _ceiling(described["ceiling_bytes"]),
        _throttle(described["throttle_bytes"], described["throttle_file"]),
        _cpus(described["cores"], described["cpu_quota"]),
        _controllers(described),
        _swap(described["swap_accounting"]),
        _peak(described["peak"], described["peak_resets"]),
        _pressure(version, described["pressure"]),
    ]


def _ceiling(ceiling_bytes: int | None) -> Finding:
    if ceiling_bytes is None:
        return Finding("limit above", True, "none")
    says = f"{format_size(ceiling_bytes)}: no trial can use more"
    return Finding("limit above", None, says, "keep the scenario's limits below it")


def _throttle(high_bytes: int | None, file: str | None) -> Finding:
    if high_bytes is None:
        return Finding("throttle above", True, "none")
    remedy = THROTTLED.format(file=file)
    return Finding("throttle above", None, f"memory.high of {format_size(high_bytes)}", remedy)


def _cpus(cores: int, quota: float | None) -> Finding:
    says = f"{cores} {'core' if cores == 1 else 'cores'}"
    if quota is not None:
        says += f", no more than {quota:g} at a time"
    few = cores < _ENOUGH_CPUS or (quota is not None and quota < _ENOUGH_CPUS)
    return Finding("CPUs", None if few else True, says, FEW_CPUS if few else None)


def _controllers(described: Mapping[str, Any]) -> Finding:
    wanted = {"cpu", "cpuset", "pids"} | (
        {"cpuacct", "blkio"} if described["version"] == 1 else {"io"}
    )
    lacking = sorted(wanted - set(described["controllers"]))
    if not lacking:
        return Finding("controllers", True, ", ".join(described["controllers"]))
    says = f"{', '.join(described['controllers'])}; not {', '.join(lacking)}"
    return Finding("controllers", None, says, NO_CONTROLLER)


def _swap(accounted: bool) -> Finding:
    if accounted:
        return Finding("swap accounting", True, "on")
    return Finding("swap accounting", None, "off", NO_SWAP_ACCOUNTING)


def _peak(there: bool, resets: bool) -> Finding:
    if resets:
        return Finding("kernel's peak", True, "kept by the kernel, reset at each layer")
    if there:
        return Finding("kernel's peak", None, "kept by the kernel, but can't be reset", NO_RESET)
    return Finding("kernel's peak", None, "not kept by this kernel", NO_PEAK)


def _pressure(version: int, there: bool) -> Finding:
    if there:
        return Finding("pressure", True, "measured for each cgroup")
    if version == 1:
        return Finding("pressure", None, "cgroup version 1 has none")
    return Finding("pressure", None, "not measured", NO_PSI)
