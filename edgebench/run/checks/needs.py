"""Checks of what sweeps are made with: GNU time, torch, swap, disk space."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

from edgebench.extras import install
from edgebench.measures.machine.disks import swap_devices
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_size

#: Below these a sweep can't keep its results; or its weights and a swap file of 2 GiB.
_DISK_WARN_BYTES = 4 << 30

SWAP_REMEDY = (
    'run as root for a swap file of its own, or write swap = "system" (or "none") in the scenario'
)
DISK_REMEDY = "free some space, or name a larger disk: edgebench run --results FOLDER SCENARIO"


@registered_check("GNU time")
def gnu_time_check(_: CheckTarget) -> Observation:
    """GNU time, under which each trial runs."""
    from edgebench.measures.strategies.gnu_time import find_gnu_time

    return Observation(str(find_gnu_time()))


@registered_check("torch")
def torch_check(_: CheckTarget) -> Observation:
    """PyTorch's version, without importing it; without it only commands can be measured."""
    try:
        return Observation(importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        remedy = f'{install("torch")} (kind = "command" works without)'
        return Observation("not installed", remedy)


@registered_check("swap")
def swap_check(target: CheckTarget) -> Observation:
    """Whether a trial can have swap; without it, a limit below demand is a kill."""
    sbin = os.pathsep.join([os.environ.get("PATH", os.defpath), "/sbin", "/usr/sbin"])
    can_make = os.geteuid() == 0 and shutil.which("mkswap", path=sbin) is not None
    file = "can be made" if can_make else "can't be made (needs root and mkswap)"
    return Observation(
        f"machine's own: {_own_swap(target.machine) or 'none'}; a temporary swap file {file}",
        None if can_make else SWAP_REMEDY,
    )


def _own_swap(machine: SystemFiles) -> str:
    try:
        devices = swap_devices(machine)
    except UnreadableError:
        return ""
    return ", ".join(f"{swap['kind']} of {format_size(swap['size_bytes'])}" for swap in devices)


@registered_check("disk space")
def disk_space_check(_: CheckTarget) -> Observation:
    """Room for results, weights and a swap file below the working folder."""
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    return Observation(
        f"{format_size(free)} free in {folder}",
        DISK_REMEDY if free < _DISK_WARN_BYTES else None,
    )
