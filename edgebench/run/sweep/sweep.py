"""A scenario's sweep: its points planned, run as trials, recorded, and resumed when cut short."""

from __future__ import annotations

import contextlib
import itertools
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import to_builtins

from edgebench.errors import CgroupError, MachineError, ResultsError
from edgebench.measures.machine.environment import device_name
from edgebench.processes import find_program
from edgebench.records import FINAL_OUTCOMES, Outcome, TrialRecord
from edgebench.results.folder import ResultsFolder, find_sweep
from edgebench.results.layout import DAMAGED_REMEDY, ENVIRONMENT, RESOLVED, read_json
from edgebench.results.live_file import remove_live_trial
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.workload_key import workload_label
from edgebench.run.sweep.trials import (
    Progress,
    ScenarioTrials,
    TrialLoop,
    needs_demand,
    open_trial_loop,
)
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.trial import TrialFiles
from edgebench.safe_files import real_path, walk
from edgebench.scenario.points import (
    PlannedTrial,
    Planner,
    Point,
    demand_of,
    planner_of,
    points,
    points_digest,
)
from edgebench.scenario.scenario import Scenario


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
    named += [one for one in (find_program(named[0]), settings.get("stdin")) if one]
    # Files of the program's folder, as its modules, but for results.
    below = (
        top / name
        for top, names in walk(folder)
        if not real_path(top).is_relative_to(results)
        for name in names
    )
    named_paths = (folder / one for one in named)
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

    def resolved(self) -> dict[str, Any]:
        """Return what its folder says of it."""
        return {
            "fingerprint": self.fingerprint,
            "scenario": self.scenario.model_dump(mode="json"),
            "points": [to_builtins(point) for point in self.points],
            "plan": [asdict(planned) for planned in self.planner.first()],
        }


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
    found = None if fresh else find_sweep(root, device, sweep.fingerprint)
    if found:
        folder = ResultsFolder.open(found)
        folder.repair()
        return folder
    resolved, manifest = sweep.resolved(), dict(sweep.manifest)
    name, text = sweep.scenario.name, sweep.scenario.text
    return ResultsFolder.create(root, device, name, text, resolved, environment(), manifest)


@dataclass(frozen=True)
class SweepOptions:
    """Where results go, and which earlier sweep of this scenario is taken instead of a new one.

    An unfinished one is resumed, unless ``fresh``; with ``again`` a finished one is shown.
    """

    results: Path = Path("results")
    device: str | None = None
    fresh: bool = False
    again: bool = False

    @property
    def device_folder(self) -> str:
        """The device's name in the results folder."""
        return self.device or device_name()


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
        folder = open_sweep_folder(
            planned,
            options.results,
            options.device_folder,
            trials.environment,
            fresh=options.fresh,
        )
        sweep = SweepUnderWay(planned, trials, loop, folder, is_search=planner is not None)
        try:
            sweep.run()
        finally:
            sweep.close()
    return sweep.summary(time.monotonic() - began)


def _finished(
    sweep: PlannedSweep, options: SweepOptions, progress: Progress
) -> SweepSummary | None:
    """Return what the newest finished sweep of that meaning came to.

    None: there is none, it is a day old, what it ran has changed since, or the planner wants
    further trials of it. An unfinished sweep that is newer comes first: it is continued instead.
    """
    root, device = options.results, options.device_folder
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

    def run(self) -> None:
        """Every trial not finished yet, in the plan's order."""
        self._progress.begin(self.path, len(self.plan), len(self.resumed))
        left = [planned for planned in self.plan if planned.trial not in self.resumed]
        if left:
            self._scenario_trials.warm()
        self._loop.run(map(self._request, left), self._trial, self._keep)
        while further := self._planner.further(self.plan, self._records()):
            self.plan += further
            self._folder.replan([asdict(planned) for planned in self.plan])
            self._progress.planned(len(self.plan))
            self._loop.run(map(self._request, further), self._trial, self._keep)
        # What the harness could not make, the next start makes.
        if self._folder.finished_trials() >= {planned.trial for planned in self.plan}:
            self._finish()

    def _records(self) -> dict[str, TrialRecord]:
        return {record.trial: record for record in self._folder.records()}

    def _finish(self) -> None:
        """Mark the sweep complete."""
        # Before the mark: nobody comes back to a complete sweep to take it down.
        remove_live_trial(self._folder.live_path)
        self._folder.finish({"trials": len(self.plan), "outcomes": self._trials.outcomes()})

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
        demand = 0
        if needs_demand(planned, self._points):
            # Of the same settings, from their first unlimited trial that finished.
            found = demand_of(point, self._points, self.plan, self._trials)
            if found is None:
                if all(one.outcome in FINAL_OUTCOMES for one in self._folder.records()):
                    # No later start of this sweep could tell it: that one begins anew.
                    self._finish()
                raise unknown_demand(point, self.path)
            demand = found
        records = self._folder.records() if planned.walk else ()
        return self._scenario_trials.request(planned, demand, records)

    def _trial(self, request: TrialRequest) -> TrialRecord:
        files = TrialFiles(
            samples=self._folder.samples_path(request.trial),
            events=self._folder.events_path(request.trial),
            log=self._folder.log_path(request.trial),
            work=self._session.folder,
            reading=self._folder.reading_path(request.trial),
            live=self._folder.live_path,
        )
        record, *further = self._scenario_trials.make(request, files)
        self._further[request.trial] = further
        return record

    def close(self) -> None:
        """Release the results folder."""
        remove_live_trial(self._folder.live_path)
        self._folder.close()

    def summary(self, wall_s: float) -> SweepSummary:
        """Return what the sweep came to."""
        outcomes = self._trials.outcomes()
        trials = sum(outcomes.values())
        return SweepSummary(self.path, trials, outcomes, len(self.resumed), wall_s)


def unknown_demand(point: Point, folder: Path) -> CgroupError:
    """Return the error where no unlimited trial of a workload shows what shares are of."""
    return CgroupError(
        f"no unlimited trial of {workload_label(point.settings)} finished, "
        f"so {point.limits.label} of its demand is unknown",
        where=str(folder / "trials.jsonl"),
        remedy="correct what made it fail, give limits as sizes, or more time with timeout = …",
    )
