"""Trials' work with networks in files, without a cgroup: what it noted, and its phases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine_models import run_settings

from edgebench.workloads.engines.engine import file_engine, run_inference
from edgebench.workloads.engines.file_preparation import manifest_of_files
from edgebench.workloads.events import SpanPlace
from edgebench.workloads.recorder import Recorder


class Notes(Recorder):
    def __init__(self, profile: Path | None = None) -> None:
        super().__init__()
        self.notes: dict[str, Any] = {}
        self.phases: list[tuple[str, int | None]] = []
        self.times: list[tuple[str, str, int, int]] = []
        self.nodes: list[tuple[SpanPlace, int]] = []
        self._profile = profile

    @property
    def profile_folder(self) -> Path | None:
        return self._profile

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        self.times.append((phase, operator, calls, own_ns))

    def timed(self, place: SpanPlace, start_ns: int, end_ns: int) -> None:
        self.nodes.append((place, end_ns - start_ns))

    def note(self, **data: Any) -> None:
        self.notes.update(data)

    def span(self, phase: str, **place: Any) -> Any:
        self.phases.append((phase, place.get("layer")))
        return super().span(phase, **place)


def prepared(file: Path, cache: Path, **other: Any) -> dict[str, Any]:
    engine = file_engine(file.name)
    settings = run_settings(file.name, engine.name if engine else "", Path(), **other)
    asked = {"path": str(file), "settings": settings, "loaders": ["copy", "mmap"]}
    request = {"files": {file.name: asked}, "cache": str(cache)}
    found: dict[str, Any] = manifest_of_files(request)["networks"][file.name]
    return found


def run(network: str, engine: str, folder: Path, **other: Any) -> Notes:
    notes = Notes(other.pop("profile", None))
    run_inference(run_settings(network, engine, folder, **other), notes)
    return notes
