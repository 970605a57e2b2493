"""What a place for cgroups offers, said for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgebench.errors import CgroupError
from edgebench.units import format_size

NO_SWAP_ACCOUNTING = """\
swap use is not counted by cgroup. Add swapaccount=1 to the kernel's command line and restart"""
NO_RESET = "a layer's peak comes from samples then; Linux 6.12 or later tells it exactly"
NO_PEAK = "peaks come from samples then; Linux 5.19 or later keeps one"
NO_PSI = "add psi=1 to the kernel's command line and restart, to see stalls"
THROTTLED = """\
somebody set memory.high there: above it the kernel slows a trial down instead of limiting it,
and no time measured here would mean anything. As its owner:
    echo max > {file}"""
FEW_CPUS = """\
harness and sampler take their share of it, so times are longer than on the bare machine; give
this container or slice more: docker run --cpus=2 --cpuset-cpus=0-1 …, or CPUQuota= in systemd"""
NO_CONTROLLER = """\
their limits and counters can't be had; run as root, or see what there is: cat /proc/cgroups"""
#: One for the workload, one for what watches it.
_ENOUGH_CPUS = 2


@dataclass(frozen=True)
class Finding:
    """One thing seen. ``ok`` None: sweeps run, but know less."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def no_place(error: CgroupError) -> list[Finding]:
    """The one finding where no cgroup can be made."""
    where = f" ({error.where})" if error.where else ""
    return [Finding("cgroup", False, f"{error.what}{where}", error.remedy)]


def findings(place: Mapping[str, Any]) -> list[Finding]:
    """What a place's description means for a sweep."""
    version, path = place["version"], place["path"]
    hybrid = " (hybrid: the other version is mounted too)" if place["hybrid"] else ""
    return [
        Finding("cgroup", True, f"version {version}, below {path}{hybrid}"),
        _ceiling(place["ceiling_bytes"]),
        _throttle(place["throttle_bytes"], place["throttle_file"]),
        _cpus(place["cores"], place["cpu_quota"]),
        _controllers(place),
        _swap(place["swap_accounting"]),
        _peak(place["peak"], place["peak_resets"]),
        _pressure(version, place["pressure"]),
    ]


def _ceiling(ceiling_bytes: int | None) -> Finding:
    if ceiling_bytes is None:
        return Finding("limit above", True, "none")
    says = f"{format_size(ceiling_bytes)}: no trial can have more"
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


def _controllers(place: Mapping[str, Any]) -> Finding:
    wanted = {"cpu", "cpuset", "pids"} | ({"cpuacct", "blkio"} if place["version"] == 1 else {"io"})
    lacking = sorted(wanted - set(place["controllers"]))
    if not lacking:
        return Finding("controllers", True, ", ".join(place["controllers"]))
    says = f"{', '.join(place['controllers'])}; not {', '.join(lacking)}"
    return Finding("controllers", None, says, NO_CONTROLLER)


def _swap(accounted: bool) -> Finding:
    if accounted:
        return Finding("swap accounting", True, "on")
    return Finding("swap accounting", None, "off", NO_SWAP_ACCOUNTING)


def _peak(there: bool, resets: bool) -> Finding:
    if resets:
        return Finding("kernel's peak", True, "kept, and reset at each layer")
    if there:
        return Finding("kernel's peak", None, "kept, but can't be reset", NO_RESET)
    return Finding("kernel's peak", None, "not kept by this kernel", NO_PEAK)


def _pressure(version: int, there: bool) -> Finding:
    if there:
        return Finding("pressure", True, "told for each cgroup")
    if version == 1:
        return Finding("pressure", None, "cgroup version 1 has none of its own")
    return Finding("pressure", None, "not told", NO_PSI)
