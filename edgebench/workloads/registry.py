"""The kinds of workload: how each is started, and what must be evicted before it.

A new kind (or framework) joins by one entry in :data:`KINDS`; nothing else changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.process import python_path
from edgebench.suggest import did_you_mean
from edgebench.workloads.events import Descriptors, WorkerSpec

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Launch:
    """How to start one workload: its words, its surroundings, the files to evict before it."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    evict: tuple[Path, ...] = ()


def _worker(settings: Settings, descriptors: Descriptors) -> Launch:
    spec: WorkerSpec = {
        "kind": settings["kind"],
        "settings": dict(settings),
        "descriptors": descriptors,
    }
    argv = (sys.executable, "-m", "edgebench.workloads.worker", json.dumps(spec))
    return Launch(argv, env={"PYTHONPATH": python_path()}, evict=_weight_files(settings))


def _weight_files(settings: Settings) -> tuple[Path, ...]:
    if settings.get("page_cache") != "cold":
        return ()
    folders = sorted(set(settings.get("weights", {}).values()))
    return tuple(file for folder in folders for file in sorted(Path(folder).glob("*.safetensors")))


def _command(settings: Settings, descriptors: Descriptors) -> Launch:
    cwd = settings.get("cwd")
    return Launch(
        tuple(settings["command"]),
        env=dict(settings.get("env") or {}),
        cwd=Path(cwd) if cwd else None,
    )


#: Kind → how it is started.
KINDS: dict[str, Callable[[Settings, Descriptors], Launch]] = {
    "inference": _worker,
    "import": _worker,
    "scan": _worker,
    "convolution": _worker,
    "training": _worker,
    "command": _command,
}


def launch(settings: Settings, descriptors: Descriptors) -> Launch:
    """How the workload of these settings is started.

    Raises:
        WorkloadError: no such kind.
    """
    kind = settings["kind"]
    if kind not in KINDS:
        guess = did_you_mean(kind, KINDS)
        raise WorkloadError(
            f"no workload kind {kind!r}",
            remedy=f"did you mean {guess!r}?" if guess else f"one of {', '.join(KINDS)}",
        )
    return KINDS[kind](settings, descriptors)
