"""A sweep's results folder: the unfinished one of the same scenario, or a new one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from edgebench.errors import ResultsError
from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.results.in_turn import KEY, InTurn
from edgebench.results.layout import DAMAGED_REMEDY, RESOLVED
from edgebench.scenario.planner import Planner
from edgebench.scenario.points import PlannedTrial, Point, points_digest
from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class PlannedSweep:
    """What is known of a sweep before its first trial.

    ``given``: its points are not the scenario's. ``machines``: of a sweep that several machines
    share, what is known of each. ``beside``: of a sweep made in turn with another one, which
    version it is and what the other one means.
    """

    scenario: Scenario
    points: Sequence[Point]
    planner: Planner
    manifest: Mapping[str, Any]
    given: bool = False
    machines: Mapping[str, Any] = field(default_factory=dict)
    beside: str = ""

    @property
    def fingerprint(self) -> str:
        """What tells it from other sweeps: what the scenario means and what its networks are."""
        made = {**self.manifest.get("networks", {}), "code": self.manifest}
        contents = {name: one["content"] for name, one in made.items() if "content" in one}
        if self.given:
            contents["points"] = points_digest(self.points)
        if self.beside:
            contents[KEY] = self.beside
        return self.scenario.fingerprint(contents)

    def resolved(self, in_turn: InTurn | None = None) -> dict[str, Any]:
        """What its folder says of it."""
        said: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "scenario": self.scenario.model_dump(mode="json"),
            "points": [to_builtins(point) for point in self.points],
            "plan": [asdict(planned) for planned in self.planner.first()],
        }
        said |= {KEY: asdict(in_turn)} if in_turn else {}
        return said | ({"machines": dict(self.machines)} if self.machines else {})


def planned_trials(
    plan: object,
    folder: Path,
    points: Collection[str] | None = None,
    strategies: Collection[str] = (),
) -> list[PlannedTrial]:
    """The plan that a sweep's folder has, which anybody may have written.

    Args:
        plan: as ``resolved.json`` has it.
        folder: the sweep's.
        points: those that its trials may be of, by id; None: the plan is only read.
        strategies: those that may have trials of their own.

    Raises:
        ResultsError: damaged, or a trial is none of the scenario's.
    """
    try:
        found = msgspec.convert(plan, list[PlannedTrial])
    except msgspec.ValidationError:
        found = None
    own = (None, *strategies)
    if found is None or (
        points is not None
        and any(one.point_id not in points or one.strategy not in own for one in found)
    ):
        what = f"{RESOLVED} has no plan, or one that is not of this scenario"
        raise ResultsError(what, where=str(folder / RESOLVED), remedy=DAMAGED_REMEDY)
    return found


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
        return reopened(found)
    return create_sweep_folder(sweep, root, device, environment)


def reopened(path: Path) -> ResultsFolder:
    """The folder of an earlier start, to go on with.

    Raises:
        ResultsError: it can't be written, or another sweep is writing to it.
    """
    folder = ResultsFolder.open(path)
    folder.repair()
    return folder


def create_sweep_folder(
    sweep: PlannedSweep,
    root: Path,
    device: str,
    environment: Callable[[], dict[str, Any]],
    in_turn: InTurn | None = None,
) -> ResultsFolder:
    """A new folder; ``in_turn``: the sweep that it is made in turn with.

    Raises:
        ResultsError: it can't be written.
    """
    resolved, manifest = sweep.resolved(in_turn), dict(sweep.manifest)
    name, text = sweep.scenario.name, sweep.scenario.text
    return ResultsFolder.create(root, device, name, text, resolved, environment(), manifest)
