"""A scenario's sweep: its points planned, run as trials, recorded, and resumed when cut short."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from edgebench.cgroups.identity import give_to_caller
from edgebench.cgroups.proof import prove_limit
from edgebench.errors import CgroupError
from edgebench.machine.environment import capture, device_name
from edgebench.machine.noise import spread_warnings
from edgebench.measures.registry import own
from edgebench.plan.plan import PlannedTrial, Point, points
from edgebench.plan.planner import Planner, demand_of, limits_of, planner_of
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.scenario.scenario import Scenario
from edgebench.sweep.remembered import ReadWhenAsked, Remembered, remember
from edgebench.trial.announcing import withdraw
from edgebench.trial.recording import TrialRequest, harness_error, unavailable
from edgebench.trial.trial import TrialFiles, run_trial
from edgebench.workshop.preparing import cache_folder, prepare_networks
from edgebench.workshop.workshop import Workshop, open_workshop


@dataclass(frozen=True)
class SweepOptions:
    """Where results go, and whether an unfinished sweep of this scenario is taken up again."""

    results: Path = Path("results")
    device: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to.

    ``harness_share`` is the part of this start's trial time that was not the workload's: cgroup,
    sampler, GNU time's start, records, syncs. None where this start made no trial.
    """

    folder: Path
    trials: int
    outcomes: dict[str, int]
    resumed: int
    wall_s: float
    harness_s_per_trial: float | None
    harness_share: float | None
    warnings: list[str] = field(default_factory=list)


class Progress(Protocol):
    """What the sweep tells while it runs; the command line draws it."""

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """The trials begin: so many in all, so many finished by an earlier start."""

    def trial(self, request: TrialRequest) -> None:
        """A trial starts."""

    def finished(self, record: TrialRecord) -> None:
        """A trial is recorded."""

    def planned(self, total: int) -> None:
        """What was recorded led to further trials: so many in all now."""


def run_sweep(
    scenario: Scenario,
    options: SweepOptions,
    progress: Progress,
    planner: Planner | None = None,
) -> SweepSummary:
    """Run all of a scenario's trials that are not finished yet, and record each at once.

    ``planner`` decides which trials those are, instead of the scenario's own plan.

    Raises:
        CgroupError: no cgroup can be made here, or its limits don't bite.
        MachineError: no GNU time, no swap, no disk space.
        WorkloadError: a network or a checkpoint that can't be had.
        ResultsError: the results folder can't be written, or another sweep is writing to it.
    """
    began = time.monotonic()
    sampler = scenario.sampler
    with open_workshop(
        interval_s=sampler.interval_s, stat_interval_s=sampler.stat_interval_s
    ) as workshop:
        for sentence in workshop.cleared:
            progress.stage(f"cleared what an earlier run left: {sentence}")
        sweep = _Sweep(scenario, options, progress, workshop, planner)
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
        progress: Progress,
        workshop: Workshop,
        planner: Planner | None,
    ) -> None:
        self._scenario = scenario
        self._progress = progress
        self._workshop = workshop
        self._points = {point.id: point for point in points(scenario)}
        self._planner = planner or planner_of(scenario, list(self._points.values()))
        self._check_limit()
        self._check_swap()
        self._cant = self._unavailable()
        self._manifest = self._prepare()
        self._folder = self._open(options)
        self._plan = [PlannedTrial(**planned) for planned in self._folder.plan()]
        self._seen = {r.trial: remember(r) for r in self._folder.records()}
        self._resumed = len(self._folder.finished_trials())
        self._made = 0
        self._trials_s = self._workload_s = 0.0

    def _check_limit(self) -> None:
        self._progress.stage("proving that a limit bites")
        prove_limit(self._workshop.apparatus.place)

    def _check_swap(self) -> None:
        """Set up each kind of swap once, so that what can't be had is said before the sweep."""
        kinds = {(p.limits.swap_kind, p.limits.swap_bytes) for p in self._points.values()}
        for kind, size in sorted(kinds, key=str):
            self._workshop.swap.use(kind, size)

    def _unavailable(self) -> dict[str, str]:
        """Each strategy asked for that can't be used here, and why; the sweep goes on without."""
        asked = {name: own()[name].unavailable() for name in self._scenario.memory.strategies}
        found = {name: reason for name, reason in asked.items() if reason}
        for name, reason in found.items():
            self._progress.stage(f"strategy {name} is left out: {reason}")
        return found

    def _prepare(self) -> dict[str, Any]:
        workload = [point.settings for point in self._points.values()]
        networks = sorted({name for settings in workload for name in settings.get("networks", ())})
        if not networks:
            return {}
        self._progress.stage(f"weights and layer tables of {', '.join(networks)}")
        first = next(settings for settings in workload if settings.get("networks"))
        return prepare_networks(
            networks,
            cache=cache_folder(self._workshop.apparatus.identity),
            seed=self._scenario.seed,
            checkpoints=first.get("checkpoint") or {},
            batch=1,
            image=first.get("image"),
            identity=self._workshop.apparatus.identity,
        )

    def _open(self, options: SweepOptions) -> ResultsFolder:
        device = options.device or device_name()
        fingerprint = self._scenario.fingerprint()
        found = None if options.fresh else find_unfinished(options.results, device, fingerprint)
        if found:
            folder = ResultsFolder.open(found)
            folder.repair()
            return folder
        new = [p for p in (options.results, options.results / device) if not p.exists()]
        folder = ResultsFolder.create(
            options.results,
            device,
            self._scenario.name,
            self._scenario.text,
            self._resolved(fingerprint),
            capture(self._workshop.apparatus.place),
            self._manifest,
        )
        # Also the folders above, or a later start without sudo could not write there.
        for path in (*new[:1], folder.path):
            give_to_caller(path)
        return folder

    def _resolved(self, fingerprint: str) -> dict[str, Any]:
        return {
            "fingerprint": fingerprint,
            "scenario": self._scenario.model_dump(mode="json"),
            "points": [asdict(point) for point in self._points.values()],
            "plan": [asdict(planned) for planned in self._planner.first()],
        }

    def run(self) -> None:
        """Every trial not finished yet, in the plan's order."""
        finished = self._folder.finished_trials()
        self._progress.begin(self._folder.path, len(self._plan), len(finished))
        left = [planned for planned in self._plan if planned.trial not in finished]
        if left and any(point.settings["kind"] != "command" for point in self._points.values()):
            self._warm()
        self._make(left)
        while further := self._planner.further(self._plan, self._recorded()):
            self._plan += further
            self._folder.replan([asdict(planned) for planned in self._plan])
            self._progress.planned(len(self._plan))
            self._make(further)
        # What the harness could not make, the next start makes.
        if self._folder.finished_trials() >= {planned.trial for planned in self._plan}:
            # Before the mark: nobody comes back to a complete sweep to take it down.
            withdraw(self._folder.live_path)
            self._folder.finish({"trials": len(self._plan), "outcomes": self._outcomes()})

    def _make(self, left: list[PlannedTrial]) -> None:
        """Make and record these trials."""
        for planned in left:
            began = time.monotonic()
            request = self._request(planned)
            self._progress.trial(request)
            record = self._trial(request)
            self._folder.append(record)
            self._seen[record.trial] = remember(record)
            self._progress.finished(record)
            self._workload_s += record.wall_s or 0.0
            self._trials_s += time.monotonic() - began
            self._made += 1

    def _warm(self) -> None:
        """Read the runtime's own files once, so that no trial is charged for them."""
        self._progress.stage("warming the runtime")
        request = TrialRequest("warm", "warm", 0, 0, {"kind": "import"}, LimitSetting())
        run_trial(self._workshop.apparatus, request, self._scratch_files())

    def _scratch_files(self) -> TrialFiles:
        folder = self._workshop.folder
        return TrialFiles(folder / "warm.npz", folder / "warm.gz", folder / "warm.log", folder)

    def _request(self, planned: PlannedTrial) -> TrialRequest:
        point = self._points[planned.point_id]
        return TrialRequest(
            trial=planned.trial,
            point=point.id,
            block=planned.block,
            repeat=planned.repeat,
            settings=point.settings,
            limits=self._limits(point),
            timeout_s=self._timeout_s(planned),
            weights=self._weights(point),
            strategy=planned.strategy,
            dump_every_bytes=self._scenario.memory.dump_every_bytes,
        )

    def _timeout_s(self, planned: PlannedTrial) -> float:
        own_s = self._scenario.memory.timeout_s if planned.strategy else None
        return own_s if own_s is not None else self._scenario.timeout_s

    def _weights(self, point: Point) -> dict[str, str]:
        made = self._manifest.get("networks", {})
        return {name: made[name]["folder"] for name in point.settings.get("networks", ())}

    def _limits(self, point: Point) -> LimitSetting:
        return limits_of(point, self._demand(point) if point.share is not None else 0)

    def _demand(self, point: Point) -> int:
        """Demand of the same settings, from their first unlimited trial that finished."""
        demand = demand_of(point, self._points, self._plan, self._seen)
        if demand is not None:
            return demand
        raise CgroupError(
            f"no unlimited trial of {point.settings.get('networks')} finished, "
            f"so {point.limits.label} of its demand is unknown",
            where=str(self._folder.path / "trials.jsonl"),
            remedy="give limits as sizes, or more time with timeout = …",
        )

    def _trial(self, request: TrialRequest) -> TrialRecord:
        self._workshop.swap.use(request.limits.swap_kind, request.limits.swap_bytes)
        files = TrialFiles(
            samples=self._folder.samples_path(request.trial),
            events=self._folder.events_path(request.trial),
            log=self._folder.log_path(request.trial),
            work=self._workshop.folder,
            reading=self._folder.reading_path(request.trial),
            live=self._folder.live_path,
        )
        if request.strategy in self._cant:
            return unavailable(request, self._cant[request.strategy])
        try:
            return run_trial(self._workshop.apparatus, request, files)
        except (CgroupError, OSError) as error:
            return harness_error(request, error)

    def close(self) -> None:
        """Let go of the results folder; all in it is the caller's, also under sudo."""
        withdraw(self._folder.live_path)
        self._folder.close()
        give_to_caller(self._folder.path)

    def _recorded(self) -> ReadWhenAsked:
        return ReadWhenAsked(self._folder.records)

    def _timed(self) -> list[Remembered]:
        return [seen for seen in self._seen.values() if seen.strategy is None]

    def _outcomes(self) -> dict[str, int]:
        return dict(Counter(record.outcome for record in self._timed()))

    def summary(self, wall_s: float) -> SweepSummary:
        """What the sweep came to, with what is noisy about it."""
        records = self._timed()
        harness_s = self._trials_s - self._workload_s
        return SweepSummary(
            folder=self._folder.path,
            trials=len(records),
            outcomes=self._outcomes(),
            resumed=self._resumed,
            wall_s=wall_s,
            harness_s_per_trial=harness_s / self._made if self._made else None,
            harness_share=harness_s / self._trials_s if self._made else None,
            warnings=[*self._noisy_points(records), *self._strategies_failed()],
        )

    def _strategies_failed(self) -> list[str]:
        """Each strategy that told nothing, once for each reason."""
        reasons = [(seen.strategy, seen.why) for seen in self._seen.values() if seen.strategy]
        return [f"strategy {name}: {why}" for name, why in dict.fromkeys(reasons) if why]

    def _noisy_points(self, records: list[Remembered]) -> list[str]:
        warnings = []
        for point in self._points.values():
            times = [r.wall_s for r in records if r.point == point.id and r.outcome == "ok"]
            known = [time_s for time_s in times if time_s is not None]
            warnings += [f"{point.id}: {words}" for words in spread_warnings(known)]
        return warnings
