"""A scenario's sweep: its points planned, run as trials, recorded, and resumed when cut short."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from edgebench.errors import CgroupError, MachineError, UnsafePathError
from edgebench.extras import need
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.registry import with_own_trial
from edgebench.records import TrialRecord
from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.results.live_file import remove_live_trial
from edgebench.run.network_manifest import network_manifest
from edgebench.run.recorded_trials import RecordedTrials, StoredRecords
from edgebench.run.storage import weights_of
from edgebench.run.trial import TrialFiles, run_trials
from edgebench.run.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial_record import TrialRequest, harness_error_record, unavailable_record
from edgebench.run.walked_limits import WalkedLimits, workload_points
from edgebench.scenario.planner import Planner, planner_of
from edgebench.scenario.points import (
    PlannedTrial,
    Point,
    demand_of,
    libraries,
    limits_of,
    points,
    points_digest,
    runtime_of,
)
from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class SweepOptions:
    """Where results go, and whether an unfinished sweep of this scenario is resumed."""

    results: Path = Path("results")
    device: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to.

    ``harness_share`` is the part of this start's trial time that was not the workload's: cgroup,
    sampler, GNU time's start, records, syncs. None where this start made no trial.
    ``noise``: workload, limit and warning of each point whose repeats differ much.
    """

    folder: Path
    trials: int
    outcomes: dict[str, int]
    resumed: int
    wall_s: float
    harness_s_per_trial: float | None
    harness_share: float | None
    warnings: list[str] = field(default_factory=list)
    noise: list[tuple[str, str, str]] = field(default_factory=list)


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
        sweep = _Sweep(scenario, options, loop, planner, made)
        try:
            sweep.run()
        finally:
            sweep.close()
    return sweep.summary(time.monotonic() - began)


class _Sweep:
    """One sweep under way: the folder, what is planned, what demand was measured."""

    def __init__(
        self,
        scenario: Scenario,
        options: SweepOptions,
        loop: TrialLoop,
        planner: Planner | None,
        made: Sequence[Point],
    ) -> None:
        self._scenario = scenario
        self._loop = loop
        self._progress = loop.progress
        self._session = loop.session
        self._points = {point.id: point for point in made or points(scenario)}
        self._given = bool(made)
        self._planner = planner or planner_of(scenario, list(self._points.values()))
        need(*{name for one in self._points.values() for name in libraries(one.settings)})
        # Each kind of swap once, so that a missing one is reported before the sweep.
        kinds = {(p.limits.swap_kind, p.limits.swap_bytes) for p in self._points.values()}
        for kind, size in sorted(kinds, key=str):
            self._session.swap.use(kind, size)
        self._cant = self._unavailable()
        self._manifest = network_manifest(
            scenario, self._points.values(), loop.session.setup.identity, loop.progress
        )
        self._session.prove_storage(self._points.values(), self._manifest, self._progress.stage)
        self._folder = self._open(options)
        self._plan = [PlannedTrial(**planned) for planned in self._folder.plan()]
        #: Trial → records of the further limits that its walk visited, until they are kept.
        self._further: dict[str, list[TrialRecord]] = {}
        self._trials = RecordedTrials()
        for record in self._folder.records():
            self._trials.add(record)
        self._resumed = len(self._folder.finished_trials())

    def _unavailable(self) -> dict[str, str]:
        """Each strategy of the scenario that can't be used here, and why; it is left out."""
        asked = {name: with_own_trial()[name].unavailable() for name in self._scenario.strategies}
        found = {name: reason for name, reason in asked.items() if reason}
        for name, reason in found.items():
            self._progress.stage(f"strategy {name} is left out: {reason}")
        return found

    def _open(self, options: SweepOptions) -> ResultsFolder:
        device = options.device or device_name()
        made = {**self._manifest.get("networks", {}), "code": self._manifest}
        contents = {name: one["content"] for name, one in made.items() if "content" in one}
        if self._given:
            contents["points"] = points_digest(self._points.values())
        fingerprint = self._scenario.fingerprint(contents)
        found = None if options.fresh else find_unfinished(options.results, device, fingerprint)
        if found:
            folder = ResultsFolder.open(found)
            folder.repair()
            return folder
        resolved = {
            "fingerprint": fingerprint,
            "scenario": self._scenario.model_dump(mode="json"),
            "points": [asdict(point) for point in self._points.values()],
            "plan": [asdict(planned) for planned in self._planner.first()],
        }
        kept = self._manifest.get("networks", {}).values()
        weights = next((Path(one["folder"]) for one in kept if one.get("folder")), None)
        return ResultsFolder.create(
            options.results,
            device,
            self._scenario.name,
            self._scenario.text,
            resolved,
            capture(self._session.setup.parent, weights=weights),
            self._manifest,
        )

    def run(self) -> None:
        """Every trial not finished yet, in the plan's order."""
        finished = self._folder.finished_trials()
        self._progress.begin(self._folder.path, len(self._plan), len(finished))
        left = [planned for planned in self._plan if planned.trial not in finished]
        if left and any(point.settings["kind"] != "command" for point in self._points.values()):
            for engine in sorted({runtime_of(p.settings) for p in self._points.values()}):
                self._loop.warm(engine)
        self._make(left)
        while further := self._planner.further(self._plan, StoredRecords(self._folder.records)):
            self._plan += further
            self._folder.replan([asdict(planned) for planned in self._plan])
            self._progress.planned(len(self._plan))
            self._make(further)
        # What the harness could not make, the next start makes.
        if self._folder.finished_trials() >= {planned.trial for planned in self._plan}:
            # Before the mark: nobody comes back to a complete sweep to take it down.
            remove_live_trial(self._folder.live_path)
            self._folder.finish({"trials": len(self._plan), "outcomes": self._trials.outcomes()})

    def _make(self, left: list[PlannedTrial]) -> None:
        self._loop.run(map(self._request, left), self._trial, self._keep)

    def _keep(self, record: TrialRecord) -> None:
        further = self._further.pop(record.trial, [])
        self._folder.append(record, *further)
        for one in (record, *further):
            self._trials.add(one)

    def _request(self, planned: PlannedTrial) -> TrialRequest:
        point = self._points[planned.point_id]
        own_s = self._scenario.memory.timeout_s if planned.strategy else planned.timeout_s
        return TrialRequest(
            trial=planned.trial,
            point=point.id,
            block=planned.block,
            repeat=planned.repeat,
            settings=point.settings,
            limits=limits_of(point, self._demand(point) if point.share is not None else 0),
            timeout_s=self._scenario.timeout_s if own_s is None else own_s,
            weights=weights_of(point.settings, self._manifest),
            code=self._manifest.get("code", {}),
            strategy=planned.strategy,
            dump_every_bytes=self._scenario.memory.dump_every_bytes,
            walk=self._walked_limits(point, planned.repeat) if planned.walk else None,
        )

    def _walked_limits(self, unlimited: Point, repeat: int) -> WalkedLimits:
        own = workload_points(unlimited, list(self._points.values()))
        demand = self._demand(unlimited) if any(p.share is not None for p in own) else 0
        target = self._scenario.limits.cliff_target
        limits = WalkedLimits(own, demand, target, moved=self._progress.moved)
        return limits.after(self._folder.records(), again=repeat >= self._scenario.repeats)

    def _demand(self, point: Point) -> int:
        """Demand of the same settings, from their first unlimited trial that finished."""
        demand = demand_of(point, self._points, self._plan, self._trials)
        if demand is not None:
            return demand
        raise CgroupError(
            f"no unlimited trial of {point.settings.get('networks')} finished, "
            f"so {point.limits.label} of its demand is unknown",
            where=str(self._folder.path / "trials.jsonl"),
            remedy="give limits as sizes, or more time with timeout = …",
        )

    def _trial(self, request: TrialRequest) -> TrialRecord:
        self._session.swap.use(request.limits.swap_kind, request.limits.swap_bytes)
        files = TrialFiles(
            samples=self._folder.samples_path(request.trial),
            events=self._folder.events_path(request.trial),
            log=self._folder.log_path(request.trial),
            work=self._session.folder,
            reading=self._folder.reading_path(request.trial),
            live=self._folder.live_path,
        )
        if request.strategy in self._cant:
            return unavailable_record(request, self._cant[request.strategy])
        try:
            record, *further = run_trials(self._session.setup, request, files)
        except (MachineError, UnsafePathError, OSError) as error:
            return harness_error_record(request, error)
        self._further[request.trial] = further
        return record

    def close(self) -> None:
        """Release the results folder."""
        remove_live_trial(self._folder.live_path)
        self._folder.close()

    def summary(self, wall_s: float) -> SweepSummary:
        """What the sweep came to, with what is noisy about it."""
        harness_s = self._loop.trials_s - self._loop.workload_s
        made = self._loop.trials
        return SweepSummary(
            folder=self._folder.path,
            trials=len(self._trials.timed()),
            outcomes=self._trials.outcomes(),
            resumed=self._resumed,
            wall_s=wall_s,
            harness_s_per_trial=harness_s / made if made else None,
            harness_share=harness_s / self._loop.trials_s if made else None,
            warnings=self._trials.warnings(),
            noise=self._trials.noise(self._points.values()),
        )
