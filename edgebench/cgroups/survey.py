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
    return [
        Finding("cgroup", True, f"version {version}, below {path}"),
        _ceiling(place["ceiling_bytes"]),
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


def _controllers(place: Mapping[str, Any]) -> Finding:
    wanted = {"cpu", "cpuset", "pids"} | ({"cpuacct", "blkio"} if place["version"] == 1 else {"io"})
    lacking = sorted(wanted - set(place["controllers"]))
    if not lacking:
        return Finding("controllers", True, ", ".join(place["controllers"]))
    says = f"{', '.join(place['controllers'])}; not {', '.join(lacking)}"
    return Finding("controllers", None, says, "their limits and counters can't be had; run as root")


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
