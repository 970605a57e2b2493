"""Trials one after another in one session, and those of a scenario: what they need comes first."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edgebench.boards import parse_storage
from edgebench.cgroups.parent import check_limit, refused_limit
from edgebench.errors import MachineError, UnsafePathError
from edgebench.installation import need
from edgebench.layers.references import CUDA
from edgebench.measures.machine.environment import capture
from edgebench.measures.machine.system_files import why_no_cuda
from edgebench.measures.strategies import with_own_trial
from edgebench.processes import Identity, cache_folder
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest, unmade_record
from edgebench.run.trial.session import Session, open_session, weights_of
from edgebench.run.trial.trial import TrialFiles, run_trial, run_trials
from edgebench.run.walk.walk import WalkedLimits, workload_points
from edgebench.scenario.points import (
    PlannedTrial,
    Point,
    asked_sizes,
    libraries,
    limits_of,
    runtime_of,
)
from edgebench.scenario.scenario import Scenario
from edgebench.workloads.engines.engine import TORCH
from edgebench.workloads.preparation import (
    code_of_trainings,
    prepare_files,
    prepare_networks,
)


class Progress(Protocol):
    """Gets what happens while trials run; the command line shows it."""

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Begin: ``total`` trials, ``done`` finished by an earlier start."""

    def trial(self, request: TrialRequest) -> None:
        """Show that a trial starts."""

    def moved(self, limits: LimitSetting) -> None:
        """Show that a walk moved the trial's limit."""

    def finished(self, record: TrialRecord) -> None:
        """Show that a trial is recorded."""

    def planned(self, total: int) -> None:
        """Show that the records led to further trials: ``total`` is the new number of all."""


@dataclass
class TrialLoop:
    """The trials of one session."""

    session: Session
    progress: Progress

    def run(
        self,
        requests: Iterable[TrialRequest],
        make: Callable[[TrialRequest], TrialRecord],
        keep: Callable[[TrialRecord], None],
    ) -> None:
        """Make each trial, keep its record, then show it as finished."""
        for request in requests:
            self.progress.trial(request)
            record = make(request)
            keep(record)
            self.progress.finished(record)

    def unkept(self, request: TrialRequest) -> TrialRecord:
        """Make a trial whose files are not kept."""
        return run_trial(self.session.setup, request, TrialFiles.scratch(self.session.folder))

    def warm(self, engine: str = TORCH) -> TrialRecord:
        """Import the runtime once, so that no trial is charged for reading its files."""
        self.progress.stage("warming the runtime")
        settings = {"kind": "import", "engine": engine}
        return self.unkept(TrialRequest("warm", "warm", 0, 0, settings, LimitSetting()))


@contextmanager
def open_trial_loop(
    progress: Progress,
    *,
    interval_s: float | None,
    stat_interval_s: float | None,
) -> Iterator[TrialLoop]:
    """Open a session in which memory limits are known to be enforced.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time.
    """
    with open_session(interval_s=interval_s, stat_interval_s=stat_interval_s) as session:
        for sentence in session.cleared:
            progress.stage(f"cleaned up after an earlier sweep: {sentence}")
        progress.stage("checking that memory limits are enforced")
        check_limit(session.setup.parent)
        yield TrialLoop(session, progress)


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
        need(*{name for one in points.values() for name in libraries(one.settings)})
        need_accelerators(points.values())
        if refused := refused_limit(
            loop.session.setup.parent.version, asked_sizes(points.values())
        ):
            raise refused
        # Each kind of swap once, so that a missing one is reported before the sweep.
        kinds = {
            (p.limits.swap_kind, p.limits.swap_bytes)
            for p in points.values()
            if not parse_storage(p.limits.storage).ram
        }
        for kind, size in sorted(kinds, key=str):
            loop.session.swap.use(kind, size)
        reasons = {name: with_own_trial()[name].unavailable() for name in scenario.strategies}
        self.unavailable = {name: reason for name, reason in reasons.items() if reason}
        for name, reason in self.unavailable.items():
            loop.progress.stage(f"strategy {name} is left out: {reason}")
        self.manifest = network_manifest(
            scenario, points.values(), loop.session.setup.identity, loop.progress
        )
        loop.session.reserve_ram_disk(points.values(), self.manifest)
        loop.session.prove_storage(points.values(), self.manifest, loop.progress.stage)

    def environment(self) -> dict[str, Any]:
        """Where the trials run, as it is now."""
        kept = self.manifest.get("networks", {}).values()
        weights = next((Path(one["folder"]) for one in kept if one.get("folder")), None)
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
            own = workload_points(point, list(self._points.values()))
            points = own[:1] if planned.unlimited else own
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
    if any(one.settings.get("accelerator") == CUDA for one in points) and (why := why_no_cuda()):
        raise MachineError(why[0], remedy=why[1])


def needs_demand(planned: PlannedTrial, points: Mapping[str, Point]) -> bool:
    """Whether a trial's limit, or one that its walk visits, is a share of the demand."""
    point = points[planned.point_id]
    own: Sequence[Point] = [point]
    if planned.walk:
        own = workload_points(point, list(points.values()))
    return any(one.needs_demand for one in own)


def network_manifest(
    scenario: Scenario, points: Iterable[Point], identity: Identity | None, progress: Progress
) -> dict[str, Any]:
    """Each network's folder and layer table, and the versions that made them; empty without any.

    Of trainings the user's own code: ``code``, file → digest, and ``content``, a hash of it all.

    Raises:
        WorkloadError: a network, a checkpoint or a file is missing or not whole.
        MachineError: an engine is not installed; no disk space.
    """
    every = [point.settings for point in points]
    if own := [one for one in every if one["kind"] == "training" and "references" in one]:
        progress.stage("your own code")
        return code_of_trainings(own, identity=identity)
    running = [settings for settings in every if settings.get("networks")]
    networks = sorted({name for settings in running for name in settings["networks"]})
    if not networks:
        return {}
    progress.stage(f"weights and layer tables of {', '.join(networks)}")
    files, cache, image = scenario.network_files(), cache_folder(identity), running[0].get("image")
    made: dict[str, Any] = {"networks": {}, "versions": {}}
    if known := [name for name in networks if name not in files]:
        made = prepare_networks(
            known,
            cache=cache,
            seed=scenario.seed,
            checkpoints=running[0].get("checkpoint") or {},
            image=image,
            references=ChainMap(*(settings.get("references", {}) for settings in running)),
            described=running[0].get("input"),
            prompt=running[0].get("prompt"),
            identity=identity,
        )
    if files:
        also = prepare_files(files, running, cache=cache, identity=identity)
        made = {key: {**made[key], **also[key]} for key in made}
    return made
