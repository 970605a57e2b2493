"""A scenario's sweep: its points planned, run as trials, recorded, and resumed when cut short."""

from __future__ import annotations

import contextlib
import itertools
import stat
import time
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import to_builtins

from edgebench.boards import parse_storage
from edgebench.cgroups.parent import refused_limit
from edgebench.errors import CgroupError, MachineError, ResultsError, UnsafePathError
from edgebench.installation import need
from edgebench.layers.names import CUDA, TORCH
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import why_no_cuda
from edgebench.measures.strategies import with_own_trial
from edgebench.processes import cache_folder, find_program
from edgebench.records import FINAL_OUTCOMES, Outcome, TrialRecord
from edgebench.results.folder import ResultsFolder, find_sweep
from edgebench.results.layout import DAMAGED_REMEDY, ENVIRONMENT, RESOLVED, read_json
from edgebench.results.live_file import remove_live_trial
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.workload_key import workload_label
from edgebench.run.trial.command import Progress, TrialLoop, open_trial_loop
from edgebench.run.trial.record import TrialRequest, unmade_record
from edgebench.run.trial.session import weights_of
from edgebench.run.trial.trial import TrialFiles, run_trials
from edgebench.run.walk.walk import WalkedLimits, workload_points
from edgebench.safe_files import real_path, walk
from edgebench.scenario.points import (
    PlannedTrial,
    Planner,
    Point,
    asked_sizes,
    demand_of,
    libraries,
    limits_of,
    planner_of,
    points,
    points_digest,
    runtime_of,
)
from edgebench.scenario.scenario import Scenario
from edgebench.workloads.preparation import (
    code_of_trainings,
    prepare_files,
    prepare_networks,
)


class ScenarioTrials:
    """The trials of a scenario's points in one session.

    ``manifest``: the networks' weights and layer tables on this machine. ``unavailable``: strategy
    → why it can't be used here; it is left out.

    Raises:
        MachineError: a library, swap or a storage speed that a point asks for is not to be had.
        WorkloadError: a network or a checkpoint is missing.
    """

    def __init__(self, scenario: Scenario, points: Mapping[str, Point], loop: TrialLoop) -> None:
        self._scenario, self._points, self._loop = scenario, points, loop
        session = loop.session
        need(*{name for point in points.values() for name in libraries(point.settings)})
        need_accelerators(points.values())
        if refused := refused_limit(session.setup.parent.version, asked_sizes(points.values())):
            raise refused
        # Each kind of swap once, so that a missing one is reported before the sweep.
        kinds = {
            (p.limits.swap_kind, p.limits.swap_bytes)
            for p in points.values()
            if not parse_storage(p.limits.storage).ram
        }
        for kind, size in sorted(kinds, key=str):
            session.swap.use(kind, size)
        reasons = {name: with_own_trial()[name].unavailable() for name in scenario.strategies}
        self.unavailable = {name: reason for name, reason in reasons.items() if reason}
        for name, reason in self.unavailable.items():
            loop.progress.stage(f"strategy {name} is left out: {reason}")
        self.manifest = self._network_manifest()
        session.reserve_ram_disk(points.values(), self.manifest)
        session.prove_storage(points.values(), self.manifest, loop.progress.stage)

    def _network_manifest(self) -> dict[str, Any]:
        """Return networks' folders and layer tables, and the versions that made them, if any.

        Of trainings the user's own code: ``code``, file → digest, and ``content``, a hash of it.
        """
        scenario, identity = self._scenario, self._loop.session.setup.identity
        stage = self._loop.progress.stage
        every = [point.settings for point in self._points.values()]
        if trainings := [s for s in every if s["kind"] == "training" and "references" in s]:
            stage("your own code")
            return code_of_trainings(trainings, identity=identity)
        running = [settings for settings in every if settings.get("networks")]
        networks = sorted({name for settings in running for name in settings["networks"]})
        if not networks:
            return {}
        stage(f"weights and layer tables of {', '.join(networks)}")
        files, cache, first = scenario.network_files(), cache_folder(identity), running[0]
        made: dict[str, Any] = {"networks": {}, "versions": {}}
        if known := [name for name in networks if name not in files]:
            made = prepare_networks(
                known,
                cache=cache,
                seed=scenario.seed,
                checkpoints=first.get("checkpoint") or {},
                image=first.get("image"),
                references=ChainMap(*(settings.get("references", {}) for settings in running)),
                described=first.get("input"),
                prompt=first.get("prompt"),
                identity=identity,
            )
        if files:
            also = prepare_files(files, running, cache=cache, identity=identity)
            made = {key: {**made[key], **also[key]} for key in made}
        return made

    def environment(self) -> dict[str, Any]:
        """Where the trials run, as it is now."""
        networks = self.manifest.get("networks", {}).values()
        weights = next((Path(n["folder"]) for n in networks if n.get("folder")), None)
        return capture(self._loop.session.setup.parent.describe, weights=weights)

    def warm(self) -> None:
        """Import the runtimes once; what is a command has none.

        What made the networks ready has imported torch already.
        """
        if any(point.settings["kind"] != "command" for point in self._points.values()):
            runtimes = {runtime_of(p.settings) for p in self._points.values()}
            for engine in sorted(runtimes - {TORCH} & self.manifest.get("versions", {}).keys()):
                self._loop.warm(engine)

    def request(
        self, planned: PlannedTrial, demand_bytes: int, records: Sequence[TrialRecord] = ()
    ) -> TrialRequest:
        """Return a planned trial, ready to be made.

        Args:
            planned: the trial.
            demand_bytes: what shares are of; 0 where the trial has none.
            records: what a walk goes by: at least the sweep's of its workload, so far.
        """
        point = self._points[planned.point_id]
        own_s = self._scenario.memory.timeout_s if planned.strategy else planned.timeout_s
        walked = None
        if planned.walk:
            series = workload_points(point, list(self._points.values()))
            points = series[:1] if planned.unlimited else series
            target, moved = self._scenario.limits.knee_target, self._loop.progress.moved
            walked = WalkedLimits(points, demand_bytes, target, moved=moved)
            if not planned.unlimited:
                again = planned.repeat >= self._scenario.repeats
                walked = walked.after(records, again=again)
        return TrialRequest(
            trial=planned.trial,
            point=point.id,
            block=planned.block,
            repeat=planned.repeat,
            settings=point.settings,
            limits=limits_of(point, demand_bytes),
            timeout_s=self._scenario.timeout_s if own_s is None else own_s,
            weights=self._loop.session.setup.storage.weights(
                weights_of(point.settings, self.manifest), point.limits.storage
            ),
            code=self.manifest.get("code", {}),
            strategy=planned.strategy,
            dump_every_bytes=self._scenario.memory.dump_every_bytes,
            walk=walked,
        )

    def make(self, request: TrialRequest, files: TrialFiles) -> list[TrialRecord]:
        """Make a trial: its record, and those of further limits that its walk visited."""
        session = self._loop.session
        limits = request.limits
        session.setup.storage.use(limits.swap_kind, limits.swap_bytes, limits.storage)
        if request.strategy in self.unavailable:
            return [unmade_record(request, "failed", self.unavailable[request.strategy])]
        try:
            return run_trials(session.setup, request, files)
        except (MachineError, UnsafePathError, OSError) as error:
            return [unmade_record(request, "harness-error", str(error))]


def need_accelerators(points: Iterable[Point]) -> None:
    """Check that what computes is there, before work that would be lost without it.

    Raises:
        MachineError: this torch has no CUDA, or there is no GPU.
    """
    if any(p.settings.get("accelerator") == CUDA for p in points) and (why := why_no_cuda()):
        raise MachineError(why[0], remedy=why[1])


def needs_demand(planned: PlannedTrial, points: Mapping[str, Point]) -> bool:
    """Whether a trial's limit, or one that its walk visits, is a share of the demand."""
    point = points[planned.point_id]
    visited = workload_points(point, list(points.values())) if planned.walk else (point,)
    return any(point.needs_demand for point in visited)


class RecordedTrial(NamedTuple):
    """What is kept of one trial."""

    point: str
    outcome: Outcome
    demand_bytes: int | None
    strategy: str | None


class RecordedTrials(dict[str, RecordedTrial]):
    """Trial → what is kept of it: little, since there may be very many."""

    def add(self, record: TrialRecord) -> None:
        """Keep what is needed of a record that is on the disk."""
        if record.walk and record.walk.step and record.outcome == "ok":
            # One trial is one line of the summary, however many limits it visited.
            return
        self[record.trial] = RecordedTrial(
            record.point, record.outcome, record.demand_bytes, record.strategy
        )

    def outcomes(self) -> dict[str, int]:
        """Outcome → how many timed trials ended so; a strategy's own are none."""
        return dict(Counter(trial.outcome for trial in self.values() if trial.strategy is None))


#: After a day the machine is another one. In a folder with more files than this, only so many are
#: looked at.
_DAY_S, _MOST_FILES = 24 * 3600.0, 5_000


def _is_changed(settings: Mapping[str, Any], results: Path, began_s: float) -> bool:
    """Whether a file of a program is newer; a network's content is in the sweep's meaning."""
    if settings["kind"] != "command":
        return False
    folder = Path(settings.get("cwd") or Path.cwd())
    named = [*map(str, settings["command"]), *settings.get("files", ())]
    named += [path for path in (find_program(named[0]), settings.get("stdin")) if path]
    # Files of the program's folder, as its modules, but for results.
    below = (
        top / name
        for top, names in walk(folder)
        if not real_path(top).is_relative_to(results)
        for name in names
    )
    named_paths = (folder / name for name in named)
    for path in itertools.chain(named_paths, itertools.islice(below, _MOST_FILES)):
        # No file, no right to see it, or a name that is too long.
        with contextlib.suppress(OSError, ValueError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and status.st_mtime > began_s:
                return True
    return False


@dataclass(frozen=True)
class PlannedSweep:
    """What is known of a sweep before its first trial.

    ``given``: its points are not the scenario's.
    """

    scenario: Scenario
    points: Sequence[Point]
    planner: Planner
    manifest: Mapping[str, Any]
    given: bool = False

    @property
    def fingerprint(self) -> str:
        """What tells it from other sweeps: what the scenario means and what its networks are."""
        parts = {**self.manifest.get("networks", {}), "code": self.manifest}
        contents = {name: part["content"] for name, part in parts.items() if "content" in part}
        if self.given:
            contents["points"] = points_digest(self.points)
        return self.scenario.fingerprint(contents)


def planned_trials(
    plan: object,
    folder: Path,
    points: Collection[str] | None = None,
    strategies: Collection[str] = (),
) -> list[PlannedTrial]:
    """Return the plan that a sweep's folder has, which anybody may have written.

    Args:
        plan: as ``resolved.json`` has it.
        folder: the sweep's.
        points: those that its trials may be of, by id; None: the plan is only read.
        strategies: those that may have trials of their own.

    Raises:
        ResultsError: damaged, or a trial is none of the scenario's.
    """
    try:
        planned = msgspec.convert(plan, list[PlannedTrial])
    except msgspec.ValidationError:
        planned = None
    known = (None, *strategies)
    if planned is None or (
        points is not None
        and any(trial.point_id not in points or trial.strategy not in known for trial in planned)
    ):
        what = f"{RESOLVED} has no plan, or one that is not of this scenario"
        raise ResultsError(what, where=str(folder / RESOLVED), remedy=DAMAGED_REMEDY)
    return planned


def open_sweep_folder(
    sweep: PlannedSweep,
    root: Path,
    device: str,
    environment: Callable[[], dict[str, Any]],
    *,
    fresh: bool = False,
) -> ResultsFolder:
    """Return the folder of the newest unfinished sweep of the same meaning, else a new one.

    Args:
        sweep: what the folder is for.
        root: holds the folders of all devices.
        device: the name of its device in results.
        environment: tells where the trials run, for a new folder.
        fresh: make a new one even if there is an unfinished one.

    Raises:
        ResultsError: it can't be written, or another sweep is writing to it.
    """
    unfinished = None if fresh else find_sweep(root, device, sweep.fingerprint)
    if unfinished:
        folder = ResultsFolder.open(unfinished)
        folder.repair()
        return folder
    scenario, manifest = sweep.scenario, dict(sweep.manifest)
    resolved = {
        "fingerprint": sweep.fingerprint,
        "scenario": scenario.model_dump(mode="json"),
        "points": [to_builtins(point) for point in sweep.points],
        "plan": [asdict(planned) for planned in sweep.planner.first()],
    }
    about = scenario.name, scenario.text, resolved, environment(), manifest
    return ResultsFolder.create(root, device, *about)


@dataclass(frozen=True)
class SweepOptions:
    """Where results go, and which earlier sweep of this scenario is taken instead of a new one.

    An unfinished one is resumed, unless ``fresh``; with ``again`` a finished one is shown.
    """

    results: Path = Path("results")
    device: str | None = None
    fresh: bool = False
    again: bool = False


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to: of its timed trials how many ended how, and how many were resumed."""

    folder: Path
    trials: int
    outcomes: dict[str, int]
    resumed: int
    wall_s: float


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
        every = list(made or points(scenario))
        trials = ScenarioTrials(scenario, {point.id: point for point in every}, loop)
        chosen = planner or planner_of(scenario, every)
        planned = PlannedSweep(scenario, every, chosen, trials.manifest, bool(made))
        is_again = options.again and not options.fresh
        if is_again and (shown := _finished(planned, options, progress)):
            return shown
        device = options.device or device_name()
        folder = open_sweep_folder(
            planned, options.results, device, trials.environment, fresh=options.fresh
        )
        sweep = SweepUnderWay(planned, trials, loop, folder, is_search=planner is not None)
        try:
            sweep.run()
        finally:
            remove_live_trial(folder.live_path)
            folder.close()
    outcomes, wall_s = sweep.recorded.outcomes(), time.monotonic() - began
    return SweepSummary(folder.path, sum(outcomes.values()), outcomes, len(sweep.resumed), wall_s)


def _finished(
    sweep: PlannedSweep, options: SweepOptions, progress: Progress
) -> SweepSummary | None:
    """Return what the newest finished sweep of that meaning came to.

    None: there is none, it is a day old, what it ran has changed since, or the planner wants
    further trials of it. An unfinished sweep that is newer comes first: it is continued instead.
    """
    root, device = options.results, options.device or device_name()
    folder = find_sweep(root, device, sweep.fingerprint, finished=True)
    unfinished = find_sweep(root, device, sweep.fingerprint)
    if folder is None or (unfinished and unfinished.name > folder.name):
        return None
    try:
        began_s = (folder / ENVIRONMENT).stat().st_mtime
        is_old = time.time() - began_s > _DAY_S
        if is_old or _is_changed(sweep.points[0].settings, real_path(root), began_s):
            return None
        records = read_sweep(folder).records
    except (OSError, ResultsError):
        return None
    planned = planned_trials(read_json(folder / RESOLVED).get("plan"), folder)
    if sweep.planner.further(planned, {record.trial: record for record in records}):
        return None
    progress.begin(folder, len(planned), len(planned))
    kept = RecordedTrials()
    for record in records:
        kept.add(record)
    outcomes = kept.outcomes()
    return SweepSummary(folder, sum(outcomes.values()), outcomes, len(planned), 0.0)


class SweepUnderWay:
    """One sweep under way: the folder, what is planned, what demand was measured."""

    def __init__(
        self,
        sweep: PlannedSweep,
        trials: ScenarioTrials,
        loop: TrialLoop,
        folder: ResultsFolder,
        is_search: bool,
    ) -> None:
        self._scenario_trials, self._loop, self._folder = trials, loop, folder
        self._progress, self._session = loop.progress, loop.session
        self._points, self._planner = {point.id: point for point in sweep.points}, sweep.planner
        self._is_search = is_search
        strategies = sweep.scenario.strategies
        self.plan = planned_trials(folder.plan(), folder.path, self._points, strategies)
        self.recorded = RecordedTrials()
        for record in folder.records():
            self.recorded.add(record)
            self._session.setup.files.add(record.files.paths if record.files else ())
        #: Trials that an earlier start made; the limits that a walk visited are none.
        self.resumed = folder.finished_trials() & {planned.trial for planned in self.plan}

    def run(self) -> None:
        """Make every trial that is not finished yet, in the plan's order."""
        self._progress.begin(self._folder.path, len(self.plan), len(self.resumed))
        left = [planned for planned in self.plan if planned.trial not in self.resumed]
        if left:
            self._scenario_trials.warm()
        self._loop.run(map(self._request, left), self._make)
        while further := self._planner.further(
            self.plan, {record.trial: record for record in self._folder.records()}
        ):
            self.plan += further
            self._folder.replan([asdict(planned) for planned in self.plan])
            self._progress.planned(len(self.plan))
            self._loop.run(map(self._request, further), self._make)
        # What the harness could not make, the next start makes.
        if self._folder.finished_trials() >= {planned.trial for planned in self.plan}:
            self._finish()

    def _finish(self) -> None:
        """Mark the sweep complete."""
        # Before the mark: nobody comes back to a complete sweep to take it down.
        remove_live_trial(self._folder.live_path)
        self._folder.finish({"trials": len(self.plan), "outcomes": self.recorded.outcomes()})

    def _request(self, planned: PlannedTrial) -> TrialRequest:
        point = self._points[planned.point_id]
        demand = 0
        if needs_demand(planned, self._points):
            # Of the same settings, from their first unlimited trial that finished.
            known = demand_of(point, self._points, self.plan, self.recorded)
            if known is None:
                if all(record.outcome in FINAL_OUTCOMES for record in self._folder.records()):
                    # No later start of this sweep could tell it: that one begins anew.
                    self._finish()
                raise unknown_demand(point, self._folder.path)
            demand = known
        records = self._folder.records() if planned.walk else ()
        return self._scenario_trials.request(planned, demand, records)

    def _make(self, request: TrialRequest) -> TrialRecord:
        """Make a trial and keep its records; return the first."""
        files = TrialFiles(
            samples=self._folder.samples_path(request.trial),
            events=self._folder.events_path(request.trial),
            log=self._folder.log_path(request.trial),
            work=self._session.folder,
            reading=self._folder.reading_path(request.trial),
            live=self._folder.live_path,
        )
        records = self._scenario_trials.make(request, files)
        self._folder.append(*records)
        for record in records:
            self.recorded.add(record)
        if self._is_search and records[0].outcome == "harness-error":
            # Else the next trial would be the same one, for ever.
            raise MachineError(
                f"trial {request.trial} could not be made: {records[0].reason}",
                where=str(self._folder.path),
                remedy="correct that, and type the same again: finished trials are kept",
            )
        return records[0]


def unknown_demand(point: Point, folder: Path) -> CgroupError:
    """Return the error where no unlimited trial of a workload shows what shares are of."""
    return CgroupError(
        f"no unlimited trial of {workload_label(point.settings)} finished, "
        f"so {point.limits.label} of its demand is unknown",
        where=str(folder / "trials.jsonl"),
        remedy="correct what made it fail, give limits as sizes, or more time with timeout = …",
    )
