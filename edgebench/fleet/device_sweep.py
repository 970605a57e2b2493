"""One results folder under way: which trials are still to be made, and the others' records."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.errors import EdgebenchError, FleetError
from edgebench.records import TrialRecord
from edgebench.run.recorded_trials import RecordedTrials, StoredRecords
from edgebench.run.scenario_trials import needs_demand
from edgebench.run.sweep import PlannedSweep, open_sweep_folder, planned_trials, unknown_demand
from edgebench.run.trial_record import TrialRequest, harness_error_record
from edgebench.run.walked_limits import walked_point, workload_points
from edgebench.safe_files import write
from edgebench.scenario.points import PlannedTrial, Point

#: The kinds of files that a trial has.
_KINDS = ("samples", "events", "logs", "readings")
#: A trial that no machine could make so often is recorded as that, and made by the next start.
MOST_TRIES = 3


class DeviceSweep:
    """A sweep whose trials other machines make; it hands them out in the plan's order.

    Raises:
        ResultsError: the folder can't be written, or another sweep is writing to it.
    """

    def __init__(
        self,
        sweep: PlannedSweep,
        root: Path,
        device: str,
        environment: Mapping[str, Any],
        *,
        fresh: bool = False,
    ) -> None:
        self._planner = sweep.planner
        self._points = {point.id: point for point in sweep.points}
        self.fingerprint = sweep.fingerprint
        self.folder = open_sweep_folder(sweep, root, device, lambda: dict(environment), fresh=fresh)
        own = self._points, sweep.scenario.strategies
        self._plan = planned_trials(self.folder.plan(), self.folder.path, *own)
        self.trials = RecordedTrials()
        for record in self.folder.records():
            self.trials.add(record)
        self._finished = self.folder.finished_trials()
        self.resumed = len(self._finished)
        # The first is taken again and again: of a plain dict that is slow.
        self._left = OrderedDict((p.trial, p) for p in self._plan if p.trial not in self._finished)
        self._out: dict[str, PlannedTrial] = {}
        self._tries: Counter[str] = Counter()
        #: Point → the trials that may show its demand, in the plan's order.
        self._shown_by: dict[str, list[str]] = {}

    @property
    def total(self) -> int:
        """How many trials are planned."""
        return len(self._plan)

    @property
    def done(self) -> int:
        """How many of them need not be made any more."""
        return len(self._finished)

    @property
    def out(self) -> int:
        """How many are under way."""
        return len(self._out)

    def next_trial(self) -> dict[str, Any] | None:
        """What a machine has to know of the next trial that can be made; None: there is none now.

        Raises:
            CgroupError: no unlimited trial shows the demand that its limit is a share of.
        """
        waiting: set[str] = set()
        for planned in self._left.values():
            if planned.point_id in waiting:
                continue
            demand = self._demand(planned)
            if demand is None:
                waiting.add(planned.point_id)
                continue
            self._out[planned.trial] = self._left.pop(planned.trial)
            return {
                "planned": asdict(planned),
                "demand_bytes": demand,
                "records": self._walked(planned),
            }
        return None

    def _walked(self, planned: PlannedTrial) -> list[dict[str, Any]]:
        """What a walk goes by: the records of its workload so far."""
        if not planned.walk:
            return []
        own = workload_points(self._points[planned.point_id], list(self._points.values()))
        names = {point.id for point in own}
        return [one.to_json() for one in self.folder.records() if walked_point(one) in names]

    def _demand(self, planned: PlannedTrial) -> int | None:
        """What the trial's limits are a share of; 0: of nothing; None: not known yet."""
        point = self._points[planned.point_id]
        if not needs_demand(planned, self._points):
            return 0
        if point.id not in self._shown_by:
            own = {p.id for p in self._points.values() if p.unlimited and p.same_workload(point)}
            self._shown_by[point.id] = [p.trial for p in self._plan if p.point_id in own]
        # Always the first that shows it, so that a share is of the same bytes in all trials.
        for trial in self._shown_by[point.id]:
            if trial == planned.trial:
                return 0
            record = self.trials.get(trial)
            if record is None:
                return None
            if record.demand_bytes:
                return record.demand_bytes
        raise unknown_demand(point, self.folder.path)

    def fault_of(self, trial: str, answer: Mapping[str, Any]) -> FleetError | None:
        """Why an answer is not to the order that was given; None: it is."""
        planned = self._out.get(trial)
        if planned is None:
            return None
        try:
            records = [TrialRecord.from_json(data) for data in answer["records"]]
            wrong = _wrong_record(planned, self._points[planned.point_id], records)
            names = {one.trial for one in records}
            files = [name for name in answer["files"] if not _is_of(name, names)]
            wrong = wrong or (f"it has the file {files[0]!r}" if files else None)
        except (AttributeError, KeyError, TypeError, ValueError, EdgebenchError) as error:
            wrong = f"it is damaged: {type(error).__name__}: {error}"
        if wrong is None:
            return None
        return FleetError(
            f"its answer is not of trial {trial} as it was ordered: {wrong}",
            remedy="install the same edgebench there as here; and see who else has the fleet's key",
        )

    def keep(self, trial: str, machine: str, answer: Mapping[str, Any]) -> TrialRecord | None:
        """Record a trial with its files; None: it was recorded before.

        One that the machine itself could not make goes back to those to be made, the first times.
        """
        planned = self._out.pop(trial, None)
        if planned is None or trial in self._finished:
            return None
        settings = self._points[planned.point_id].settings
        # A machine's own paths are nobody else's.
        records = [
            replace(TrialRecord.from_json(data), machine=machine, settings=settings)
            for data in answer["records"]
        ]
        if records[0].outcome == "harness-error":
            self._tries[trial] += 1
            if self._tries[trial] < MOST_TRIES:
                self._put_first(planned)
                return records[0]
        for name, data in answer["files"].items():
            write(self._place(name), data)
        self._append(records)
        return records[0]

    def _append(self, records: list[TrialRecord]) -> None:
        self.folder.append(*records)
        for one in records:
            self.trials.add(one)
        if records[0].outcome != "harness-error":
            self._finished.add(records[0].trial)

    def _place(self, name: str) -> Path:
        """Where a file of a trial (``kind/trial.ending``) goes."""
        kind, _, file = name.partition("/")
        places: dict[str, Callable[[str], Path]] = {
            "samples": self.folder.samples_path,
            "events": self.folder.events_path,
            "logs": self.folder.log_path,
            "readings": self.folder.reading_path,
        }
        return places[kind](file.partition(".")[0])

    def give_back(self, trial: str) -> None:
        """The trial was lost with its machine: another one makes it."""
        planned = self._out.pop(trial, None)
        if planned is not None:
            self._put_first(planned)

    def _put_first(self, planned: PlannedTrial) -> None:
        self._left[planned.trial] = planned
        self._left.move_to_end(planned.trial, last=False)

    def give_up(self, trial: str, reason: str) -> None:
        """Record a trial that took its machines with it; the next start makes it again."""
        planned = self._out.pop(trial, None)
        if planned is None:
            return
        point = self._points[planned.point_id]
        request = TrialRequest(
            *(trial, point.id, planned.block, planned.repeat, point.settings, point.limits),
            strategy=planned.strategy,
        )
        self._append([harness_error_record(request, FleetError(reason))])

    def plan_further(self) -> bool:
        """Once all are recorded: plan what these lead to, or mark the sweep complete; if any is."""
        if self._left or self._out:
            return True
        further = self._planner.further(self._plan, StoredRecords(self.folder.records))
        if further:
            self._plan += further
            self.folder.replan([asdict(planned) for planned in self._plan])
            self._left.update((planned.trial, planned) for planned in further)
            self._shown_by.clear()
            return True
        if self._finished >= {planned.trial for planned in self._plan}:
            self.folder.finish({"trials": self.total, "outcomes": self.trials.outcomes()})
        return False


def _wrong_record(planned: PlannedTrial, point: Point, records: list[TrialRecord]) -> str | None:
    """What in records is another trial's; None: nothing is."""
    if not records:
        return "it has no record"
    walk = {one.walk.walk for one in records if one.walk}
    for number, one in enumerate(records):
        name = f"{planned.trial}-{number:02d}" if number else planned.trial
        if (one.trial, one.block, one.repeat) != (name, planned.block, planned.repeat):
            return f"a record is of trial {one.trial}"
        # A walk comes to other points of its workload, and to some that it makes.
        if not walk and (number or one.point != point.id or one.limits.label != point.limits.label):
            return f"a record is of point {one.point} at {one.limits.label}"
        if one.strategy != planned.strategy or _numbers(one.settings) != _numbers(point.settings):
            return "a record has other settings"
    return None if walk <= {planned.trial} else f"it is of the walk {min(walk)}"


def _numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are the same on every machine: names may be paths there."""
    kept = {key: value for key, value in settings.items() if isinstance(value, int | float)}
    return {**kept, "kind": settings["kind"]}


def _is_of(name: str, trials: set[str]) -> bool:
    """Whether a file (``kind/trial.ending``) is one of these trials'."""
    kind, _, file = name.partition("/")
    return kind in _KINDS and file.partition(".")[0] in trials
