"""One results folder under way: which trials are still to be made, and by which machines."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.fleet.messages import Make
from edgebench.records import TrialRecord
from edgebench.run.sweep.sweep import (
    PlannedSweep,
    RecordedTrials,
    StoredRecords,
    open_sweep_folder,
    planned_trials,
    unknown_demand,
)
from edgebench.run.sweep.trials import needs_demand
from edgebench.scenario.points import PlannedTrial, Point

#: A trial that was lost, or that no machine could make, so often is left to the next start.
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
        self._left = [one for one in self._plan if one.trial not in self._finished]
        self._out: set[str] = set()
        self._tries: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """How many trials are planned."""
        return len(self._plan)

    @property
    def done(self) -> int:
        """How many of them need not be made any more."""
        return len(self._finished & {one.trial for one in self._plan})

    def next_trial(self) -> tuple[PlannedTrial, Make] | None:
        """Return the next trial that can be made, with its order; None: none now.

        Raises CgroupError where nothing shows the demand that its limit is a share of.
        """
        waiting: set[str] = set()
        for planned in self._left:
            demand = None if planned.point_id in waiting else self._demand(planned)
            if demand is not None:
                self._left.remove(planned)
                self._out.add(planned.trial)
                records = self.folder.records() if planned.walk else ()
                return planned, Make(asdict(planned), demand, [one.to_json() for one in records])
            waiting.add(planned.point_id)
        return None

    def _demand(self, planned: PlannedTrial) -> int | None:
        """Return what the trial's limits are a share of; 0: of nothing; None: not known yet."""
        point = self._points[planned.point_id]
        if not needs_demand(planned, self._points):
            return 0
        # Always the first that shows it, so that a share is of the same bytes in all trials.
        for one in self._plan:
            other = self._points[one.point_id]
            if other.unlimited and other.same_workload(point):
                if one.trial == planned.trial:
                    return 0
                record = self.trials.get(one.trial)
                if record and record.demand_bytes:
                    return record.demand_bytes
                if not record and self._tries[one.trial] < MOST_TRIES:
                    return None
        raise unknown_demand(point, self.folder.path)

    def file_path(self, planned: PlannedTrial, kind: str, trial: str) -> Path | None:
        """Where a file goes that a machine names so; None: the trial has no such file."""
        places: dict[str, Callable[[str], Path]] = {
            "samples": self.folder.samples_path,
            "events": self.folder.events_path,
            "logs": self.folder.log_path,
            "readings": self.folder.reading_path,
        }
        step = "(-[0-9]{2,3})?" if planned.walk else ""
        is_own = re.fullmatch(re.escape(planned.trial) + step, trial)
        return places[kind](trial) if kind in places and is_own else None

    def wrong_record(self, planned: PlannedTrial, records: list[TrialRecord]) -> str | None:
        """Return what in a machine's records is another trial's; None: nothing is."""
        point = self._points[planned.point_id]
        for number, one in enumerate(records):
            name = f"{planned.trial}-{number:02d}" if number else planned.trial
            if (one.trial, one.block, one.repeat) != (name, planned.block, planned.repeat):
                return f"a record of trial {one.trial}"
            # A walk comes to other points of its workload, and to some that it makes.
            own = number == 0 and (one.point, one.limits.label) == (point.id, point.limits.label)
            if not own and not planned.walk:
                return f"a record of point {one.point} at {one.limits.label}"
            if one.walk and (one.walk.walk != planned.trial or not planned.walk):
                return f"a record of the walk {one.walk.walk}"
            numbers = _numbers(one.settings), _numbers(point.settings)
            if one.strategy != planned.strategy or numbers[0] != numbers[1]:
                return "a record of other settings"
        return None

    def keep(self, planned: PlannedTrial, machine: str, records: list[TrialRecord]) -> None:
        """Record a trial; one that the machine itself could not make is made again at first."""
        is_error = records[0].outcome == "harness-error"
        if is_error and self.give_back(planned, is_lost=True):
            return
        settings = self._points[planned.point_id].settings
        # A machine's own paths are nobody else's.
        records = [replace(one, machine=machine, settings=settings) for one in records]
        self.folder.append(*records)
        self._out.discard(planned.trial)
        for one in records:
            self.trials.add(one)
        if not is_error:
            self._finished.add(planned.trial)

    def give_back(self, planned: PlannedTrial, *, is_lost: bool) -> bool:
        """Let the next machine make the trial; False: it was lost, or failed there, too often."""
        self._out.discard(planned.trial)
        self._tries[planned.trial] += is_lost
        if is_again := self._tries[planned.trial] < MOST_TRIES:
            self._left.insert(0, planned)
        return is_again

    def plan_further(self) -> bool:
        """Whether trials are left; once all are made, plan what they lead to, or end the sweep."""
        if self._left or self._out:
            return True
        if self.done == self.total:
            further = self._planner.further(self._plan, StoredRecords(self.folder.records))
            if not further:
                outcomes = self.trials.outcomes()
                self.folder.finish({"trials": self.total, "outcomes": outcomes})
                return False
            self._plan += further
            self.folder.replan([asdict(planned) for planned in self._plan])
            self._left += further
        return bool(self._left)


def _numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are the same on every machine: names may be paths there."""
    kept = {key: value for key, value in settings.items() if isinstance(value, int | float)}
    return {**kept, "kind": settings.get("kind")}


#: Machines whose medians differ by no more than this are equal, however little probes spread.
LEAST_DIFFERENCE = 0.05
#: Label of a probe's limit → seconds of each trial.
ProbeTimes = Mapping[str, Sequence[float]]


def probe_points(points: Sequence[Point]) -> list[Point]:
    """Return what is tried on each machine: a workload without a limit, and at its middle limit."""
    unlimited = next((point for point in points if point.unlimited), None)
    if unlimited is None:
        return list(points[:1])
    limited = [p for p in points if not p.unlimited and p.same_workload(unlimited)]
    return [unlimited, *limited[len(limited) // 2 :][:1]]


def unequal_machines(probes: Mapping[str, ProbeTimes], reference: str | None) -> dict[str, str]:
    """Machine → why it is not mixed with the others.

    Equal are those that equal the reference; None: those of the largest group of equal ones.
    """

    def differing(centre: str) -> dict[str, str]:
        words = {name: _difference(probes[centre], own) for name, own in probes.items()}
        return {name: f"it is not equal to {centre}: {one}" for name, one in words.items() if one}

    # The first of the inventory, where groups are as large.
    return differing(reference or min(probes, key=lambda name: len(differing(name))))


def _difference(reference: ProbeTimes, other: ProbeTimes) -> str | None:
    """How the probes of a machine differ from another one's; None: by no more than they spread."""
    for label, times in reference.items():
        own = other.get(label, ())
        if bool(times) != bool(own):
            return f"the probe at {label} finishes on one of them only"
        if times:
            ratio = statistics.median(own) / statistics.median(times)
            spread = max((max(one) - min(one)) / statistics.median(one) for one in (times, own))
            if max(ratio, 1 / ratio) - 1 > max(LEAST_DIFFERENCE, spread):
                return f"the probe at {label} takes {ratio:.2f} times as long (spread {spread:.0%})"
    return None
