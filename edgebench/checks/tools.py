"""Checks of what a sweep can't do without, or only in part: cgroup, GNU time, swap, disk, torch."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgebench.checks.base import Advice, Check
from edgebench.machine.machine import Machine, UnreadableError, swap_devices
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.cgroups.place import Finding, Place

#: Below these a sweep can't keep its results; or its weights and a swap file of 2 GiB.
_DISK_FAIL_BYTES, _DISK_WARN_BYTES = 512 << 20, 4 << 30

SWAP_REMEDY = (
    'run as root for a swap file of its own, or write swap = "system" (or "none") in the scenario'
)
DISK_REMEDY = "free some space, or name a larger disk: edgebench run --results FOLDER SCENARIO"
TORCH_REMEDY = "scripts/setup, or: pip install 'edgebench[all]' (kind = \"command\" works without)"


class Surveyed(Check):
    """One finding of the survey of places for cgroups."""

    def __init__(self, finding: Finding) -> None:
        self.name = finding.name
        self._finding = finding

    def show(self) -> str:
        """The survey's own words."""
        return self._finding.says

    def advise(self) -> Advice | None:
        """A finding that is not ok fails; one that can't be told is passed on as a warning."""
        remedy = self._finding.remedy
        if self._finding.ok is False:
            return Advice("fail", remedy or "see docs/verbs/doctor.md")
        return Advice("warn", remedy) if self._finding.ok is None and remedy else None


class LimitBites(Check):
    """A known allocator under a small limit must be killed, or limits here mean nothing."""

    name = "limit bites"

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def available(self) -> str | None:
        """Not without a place for a cgroup."""
        return None if self._place else "can't be proved without a cgroup"

    def show(self) -> str:
        """What the proof saw."""
        from edgebench.cgroups.proof import prove_limit

        assert self._place is not None
        proof = prove_limit(self._place)
        limit, touched = format_size(proof.limit_bytes), format_size(proof.touched_bytes)
        return f"{touched} touched under a limit of {limit}: {proof.outcome}"


class GnuTime(Check):
    """GNU time, under which each trial runs."""

    name = "GNU time"

    def show(self) -> str:
        """Where it is."""
        from edgebench.measures.gnu_time import find_gnu_time

        return str(find_gnu_time())


class Torch(Check):
    """PyTorch, for workloads of kind ``inference``."""

    name = "torch"

    @cached_property
    def _version(self) -> str | None:
        try:
            return importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return None

    def show(self) -> str:
        """Its version, without importing it."""
        return self._version or "not installed"

    def advise(self) -> Advice | None:
        """Without it only commands can be measured."""
        return None if self._version else Advice("warn", TORCH_REMEDY)


class Swap(Check):
    """Whether a trial can have swap; without, a limit below demand is a kill."""

    name = "swap"

    @cached_property
    def _can_make(self) -> bool:
        sbin = os.pathsep.join([os.environ.get("PATH", os.defpath), "/sbin", "/usr/sbin"])
        return os.geteuid() == 0 and shutil.which("mkswap", path=sbin) is not None

    @cached_property
    def _devices(self) -> list[str]:
        try:
            devices = swap_devices(Machine())
        except UnreadableError:
            return []
        return [f"{swap['kind']} of {format_size(swap['size_bytes'])}" for swap in devices]

    def show(self) -> str:
        """What the machine has, and whether edgebench may add its own."""
        own = "can be made" if self._can_make else "can't be made (needs root and mkswap)"
        return f"machine's own: {', '.join(self._devices) or 'none'}; a temporary swap file {own}"

    def advise(self) -> Advice | None:
        """Swap is a setting, not a must."""
        return None if self._can_make else Advice("warn", SWAP_REMEDY)


class Disk(Check):
    """Room for results, weights and a swap file."""

    name = "disk space"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path.cwd()

    @cached_property
    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._folder).free

    def show(self) -> str:
        """What is free here."""
        return f"{format_size(self._free_bytes)} free in {self._folder}"

    def advise(self) -> Advice | None:
        """The less there is, the graver."""
        if self._free_bytes >= _DISK_WARN_BYTES:
            return None
        status: Literal["warn", "fail"] = "fail" if self._free_bytes < _DISK_FAIL_BYTES else "warn"
        return Advice(status, DISK_REMEDY)
