"""A scenario's sweep: its points planned, run as trials, recorded, and resumed when cut short."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from edgebench.errors import CgroupError, MachineError, ResultsError
from edgebench.measures.machine.environment import device_name
from edgebench.records import FINAL_OUTCOMES, Doubt, TrialRecord
from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.results.in_turn import KEY, InTurn
from edgebench.results.layout import DAMAGED_REMEDY, RESOLVED
from edgebench.results.live_file import remove_live_trial
from edgebench.results.workload_key import workload_label
from edgebench.run.recorded_trials import RecordedTrials, StoredRecords
from edgebench.run.scenario_trials import ScenarioTrials, needs_demand
from edgebench.run.trial import TrialFiles
from edgebench.run.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial_record import TrialRequest
from edgebench.scenario.planner import Planner, planner_of
from edgebench.scenario.points import PlannedTrial, Point, demand_of, points, points_digest
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


@dataclass(frozen=True)
class SweepOptions:
    """Where results go, and whether an unfinished sweep of this scenario is resumed."""

    results: Path = Path("results")
    device: str | None = None
    fresh: bool = False

    @property
    def device_folder(self) -> str:
        """The device's name in the results folder."""
        return self.device or device_name()


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to.

    ``harness_share`` is the part of this start's trial time that was not the workload's: cgroup,
    sampler, GNU time's start, records, syncs. None where this start made no trial.
    ``doubts`` are of points whose repeats differ much, of trials whose limits did not hold, and of
    strategies without a reading.
    """

    folder: Path
    trials: int
    outcomes: dict[str, int]
    resumed: int
    wall_s: float
    harness_s_per_trial: float | None
    harness_share: float | None
    doubts: list[Doubt] = field(default_factory=list)


def run_sweep(
    scenario: Scenario,
    options: SweepOptions,
    progress: Progress,
    planner: Planner | None = None,
    made: Sequence[Point] = (),
) -> SweepSummary:
    """Run all of a scenario's trials that are not finished yet, and record each at once.

    ``planner`` decides which trials those are, instead of the scenario's own plan; ``made`` are the
    points that it chooses from, if they are not the scenario's.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time, no swap, no disk space.
        WorkloadError: a network or a checkpoint is missing.
        ResultsError: the results folder can't be written, or another sweep is writing to it.
    """
    began = time.monotonic()
    with open_trial_loop(progress, **scenario.sampler.model_dump()) as loop:
        unopened = UnopenedSweep(scenario, loop, planner, made)
        folder = open_sweep_folder(
            unopened.planned(),
            options.results,
            options.device_folder,
            unopened.trials.environment,
            fresh=options.fresh,
        )
        sweep = SweepUnderWay(unopened, folder)
        try:
            sweep.run()
        finally:
            sweep.close()
    return sweep.summary(time.monotonic() - began)


class UnopenedSweep:
    """A sweep's points and plan, with what its trials need made ready; it has no folder yet.

    ``version``: ``old`` or ``new``, of a sweep that is made in turn with another one.
    """

    def __init__(
        self,
        scenario: Scenario,
        loop: TrialLoop,
        planner: Planner | None = None,
        made: Sequence[Point] = (),
        version: str | None = None,
    ) -> None:
        self.scenario, self.loop, self.version = scenario, loop, version
        self.points = {point.id: point for point in made or points(scenario)}
        self._given = bool(made)
        self.is_search = planner is not None
        self.planner = planner or planner_of(scenario, list(self.points.values()))
        self.trials = ScenarioTrials(scenario, self.points, loop)

    def planned(self, beside: str = "") -> PlannedSweep:
        """What its folder is for; ``beside``: what the sweep means that it is made in turn with."""
        every, manifest = list(self.points.values()), self.trials.manifest
        about = self.scenario, every, self.planner, manifest, self._given
        return PlannedSweep(*about, beside=f"{self.version} beside {beside}" if beside else "")


class SweepUnderWay:
    """One sweep under way: the folder, what is planned, what demand was measured."""

    def __init__(self, unopened: UnopenedSweep, folder: ResultsFolder) -> None:
        self._loop, self._made = unopened.loop, unopened.trials
        self._progress, self._session = self._loop.progress, self._loop.session
        self._points, self._planner = unopened.points, unopened.planner
        self._is_search = unopened.is_search
        self._version = unopened.version
        #: What shares are of, if not of this sweep's own demand; None for a point of its own.
        self.demand_beside: Callable[[Point], int | None] = lambda point: None
        self._folder = folder
        strategies = unopened.scenario.strategies
        self.plan = planned_trials(folder.plan(), folder.path, self._points, strategies)
        #: Trial → records of the further limits that its walk visited, until they are kept.
        self._further: dict[str, list[TrialRecord]] = {}
        self._trials = RecordedTrials()
        for record in folder.records():
            self._trials.add(record)
            self._session.setup.files.add(record.files.paths if record.files else ())
        #: Trials that an earlier start made; the limits that a walk visited are none.
        self.resumed = folder.finished_trials() & {planned.trial for planned in self.plan}

    @property
    def path(self) -> Path:
        """The folder."""
        return self._folder.path

    def point(self, name: str) -> Point:
        """One of its points, by id."""
        return self._points[name]

    def run(self) -> None:
        """Every trial not finished yet, in the plan's order."""
        self._progress.begin(self.path, len(self.plan), len(self.resumed))
        left = [planned for planned in self.plan if planned.trial not in self.resumed]
        if left:
            self.warm()
        self.make(left)
        while further := self._planner.further(self.plan, StoredRecords(self._folder.records)):
            self.plan += further
            self._folder.replan([asdict(planned) for planned in self.plan])
            self._progress.planned(len(self.plan))
            self.make(further)
        if self.is_whole():
            self.finish()

    def is_whole(self) -> bool:
        """Whether every trial is made; what the harness could not make, the next start makes."""
        return self._folder.finished_trials() >= {planned.trial for planned in self.plan}

    def finish(self) -> None:
        """Mark the sweep complete."""
        # Before the mark: nobody comes back to a complete sweep to take it down.
        self.end_live()
        self._folder.finish({"trials": len(self.plan), "outcomes": self._trials.outcomes()})

    def warm(self) -> None:
        """Import the runtimes once."""
        self._made.warm()

    def make(self, left: list[PlannedTrial]) -> None:
        """Make these trials and keep their records."""
        self._loop.run(map(self._request, left), self._trial, self._keep)

    def _keep(self, record: TrialRecord) -> None:
        further = self._further.pop(record.trial, [])
        self._folder.append(record, *further)
        for one in (record, *further):
            self._trials.add(one)
        if self._is_search and record.outcome == "harness-error":
            # Else the next trial would be the same one, for ever.
            raise MachineError(
                f"trial {record.trial} could not be made: {record.reason}",
                where=str(self.path),
                remedy="correct that, and type the same again: finished trials are kept",
            )

    def _request(self, planned: PlannedTrial) -> TrialRequest:
        point = self._points[planned.point_id]
        demand = self.demand(point) if needs_demand(planned, self._points) else 0
        records = self._folder.records() if planned.walk else ()
        return replace(self._made.request(planned, demand, records), version=self._version)

    def demand(self, point: Point) -> int:
        """Demand of the same settings, from their first unlimited trial that finished."""
        beside = self.demand_beside(point)
        demand = beside or demand_of(point, self._points, self.plan, self._trials)
        if demand is not None:
            return demand
        if all(one.outcome in FINAL_OUTCOMES for one in self._folder.records()):
            # No later start of this sweep could tell it: that one begins anew.
            self.finish()
        raise unknown_demand(point, self.path)

    def _trial(self, request: TrialRequest) -> TrialRecord:
        files = TrialFiles(
            samples=self._folder.samples_path(request.trial),
            events=self._folder.events_path(request.trial),
            log=self._folder.log_path(request.trial),
            work=self._session.folder,
            reading=self._folder.reading_path(request.trial),
            live=self._folder.live_path,
        )
        record, *further = self._made.make(request, files)
        self._further[request.trial] = further
        return record

    def end_live(self) -> None:
        """Show no trial as under way."""
        remove_live_trial(self._folder.live_path)

    def close(self) -> None:
        """Release the results folder."""
        self.end_live()
        self._folder.close()

    def summary(self, wall_s: float) -> SweepSummary:
        """What the sweep came to, with what is noisy about it."""
        harness_s = self._loop.trials_s - self._loop.workload_s
        made = self._loop.trials
        return SweepSummary(
            folder=self.path,
            trials=len(self._trials.timed()),
            outcomes=self._trials.outcomes(),
            resumed=len(self.resumed),
            wall_s=wall_s,
            harness_s_per_trial=harness_s / made if made else None,
            harness_share=harness_s / self._loop.trials_s if made else None,
            doubts=self._trials.doubts(self._points.values()),
        )


def unknown_demand(point: Point, folder: Path) -> CgroupError:
    """The error where no unlimited trial of a workload shows what shares are of."""
    return CgroupError(
        f"no unlimited trial of {workload_label(point.settings)} finished, "
        f"so {point.limits.label} of its demand is unknown",
        where=str(folder / "trials.jsonl"),
        remedy="correct what made it fail, give limits as sizes, or more time with timeout = …",
    )
