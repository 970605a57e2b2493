"""Where a trial's swap, weights and runtime lie, whose disks its storage speed is of."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cgroups.swap import SwapState
from edgebench.measures.machine.disks import swap_devices
from edgebench.measures.machine.system_files import SystemFiles


@dataclass(frozen=True)
class StoragePlaces:
    """Files and folders that a trial reads. Those of ``needed`` must be on a disk."""

    needed: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any], weights: Mapping[str, str]) -> StoragePlaces:
        """What a workload reads: weights and checkpoints; the runtime, or a command's own files."""
        if settings["kind"] == "scan":
            scanned = (area["file"] for area in settings["areas"])
            return cls(tuple(Path(file) for file in scanned if file))
        if settings["kind"] != "command":
            return cls(tuple(Path(folder) for folder in weights.values()), (Path(sys.prefix),))
        program, *words = settings["command"]
        found = shutil.which(program)
        files = [Path(word) for word in words if _is_file(word)]
        return cls((), (*([Path(found)] if found else []), Path.cwd(), *files))


def weights_of(settings: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Network → the folder of its weights, of a workload's networks."""
    made = manifest.get("networks", {})
    return {name: made[name]["folder"] for name in settings.get("networks", ())}


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):
        # Too long for a path, or with a NUL in it.
        return False


def swap_areas(machine: SystemFiles, state: SwapState) -> list[Path]:
    """The files and devices that swap of this kind lies on; zram lies on none."""
    if state.kind == "file" and state.device:
        return [state.device]
    if state.kind != "system":
        return []
    return [Path(one["name"]) for one in swap_devices(machine) if one["kind"] != "zram"]
