"""A sweep's results folder: the unfinished one of the same scenario, or a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.scenario.planner import Planner
from edgebench.scenario.points import Point, points_digest
from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class PlannedSweep:
    """What is known of a sweep before its first trial.

    ``given``: its points are not the scenario's. ``machines``: of a sweep that several machines
    share, what is known of each.
    """

    scenario: Scenario
    points: Sequence[Point]
    planner: Planner
    manifest: Mapping[str, Any]
    given: bool = False
    machines: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """What tells it from other sweeps: what the scenario means and what its networks are."""
        made = {**self.manifest.get("networks", {}), "code": self.manifest}
        contents = {name: one["content"] for name, one in made.items() if "content" in one}
        if self.given:
            contents["points"] = points_digest(self.points)
        return self.scenario.fingerprint(contents)

    def resolved(self) -> dict[str, Any]:
        """What its folder says of it."""
        said: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "scenario": self.scenario.model_dump(mode="json"),
            "points": [asdict(point) for point in self.points],
            "plan": [asdict(planned) for planned in self.planner.first()],
        }
        return said | ({"machines": dict(self.machines)} if self.machines else {})


def open_sweep_folder(
    sweep: PlannedSweep,
    root: Path,
    device: str,
    environment: Callable[[], dict[str, Any]],
    *,
    fresh: bool = False,
) -> ResultsFolder:
    """The folder of the newest unfinished sweep of the same meaning; a new one if there is none.

    Args:
        sweep: what the folder is for.
        root: holds the folders of all devices.
        device: the name of its device in results.
        environment: tells where the trials run, for a new folder.
        fresh: make a new one even if there is an unfinished one.

    Raises:
        ResultsError: it can't be written, or another sweep is writing to it.
    """
    found = None if fresh else find_unfinished(root, device, sweep.fingerprint)
    if found:
        folder = ResultsFolder.open(found)
        folder.repair()
        return folder
    name, text = sweep.scenario.name, sweep.scenario.text
    manifest = dict(sweep.manifest)
    return ResultsFolder.create(root, device, name, text, sweep.resolved(), environment(), manifest)
