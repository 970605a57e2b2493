"""Training run in this process, and what it told; the settings of an inference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.scenario.scenario import scenario_of
from edgebench.workloads.events import SpanPlace
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder, Started
from edgebench.workloads.training.loop import run_training
from tests.own_path import python_path


@dataclass
class Told(Recorder):
    notes: list[dict[str, Any]] = field(default_factory=list)
    spans: list[tuple[str, int | None, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def note(self, **data: Any) -> None:
        self.notes.append(data)

    def start(self, place: SpanPlace, *ending: Started) -> Started:
        self.spans.append((place.phase, place.round, place.layer))
        return super().start(place, *ending)

    @property
    def losses(self) -> list[float]:
        return [note["loss"] for note in self.notes if "loss" in note]

    def said(self, key: str) -> Any:
        return next(note[key] for note in reversed(self.notes) if key in note)


def settings(**workload: Any) -> dict[str, Any]:
    tables: Mapping[str, Any] = {
        "schema": 1,
        "name": "made",
        "workload": {"kind": "training", "threads": 1, **workload},
    }
    (made,) = scenario_of(tables).workload_settings()
    return made


def inference(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "networks": ["lenet"],
        "weights": {"lenet": str(folder)},
        "schedule": "linear",
        "loader": "copy",
        "batch": 1,
        "image": None,
        "rounds": 2,
        "warm": 1,
        "threads": 1,
        "workers": 2,
        "seed": 5,
        "page_cache": "cold",
        **changes,
    }


def trained(**workload: Any) -> Told:
    told = Told()
    run_training(settings(**workload), told)
    return told


def worker(
    kind: str,
    settings: dict[str, Any],
    program: tuple[str, str] = ("-m", "edgebench.workloads.worker"),
    env: Mapping[str, str] | None = None,
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """A worker in a process of its own, and its events."""
    read, write = os.pipe()
    descriptors = {**NO_DESCRIPTORS, "events": write}
    spec = {"kind": kind, "settings": settings, "descriptors": descriptors}
    with os.fdopen(read) as events:
        try:
            done = subprocess.run(
                [sys.executable, *program, json.dumps(spec)],
                env={"PYTHONPATH": python_path(), **(env or {})},
                pass_fds=[write],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        finally:
            os.close(write)
        return done, [json.loads(line) for line in events]
