"""Two scenarios' sweeps with their trials in turn: an old version and a new one of a workload."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgebench.results.folder import ResultsFolder, find_unfinished
from edgebench.results.in_turn import NEW, OLD, InTurn, in_turn_of, sweep_in_turn
from edgebench.results.layout import RESOLVED, read_json
from edgebench.run.sweep import (
    PlannedSweep,
    SweepOptions,
    SweepSummary,
    SweepUnderWay,
    UnopenedSweep,
    create_sweep_folder,
    reopened,
)
from edgebench.run.trial_loop import Progress, TrialLoop, open_trial_loop
from edgebench.scenario.in_turn import (
    check_in_turn,
    paired_points,
    planners_in_turn,
    trials_in_turn,
)
from edgebench.scenario.points import Point
from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class SummaryInTurn:
    """What the two sweeps came to."""

    old: SweepSummary
    new: SweepSummary


def run_in_turn(
    old: Scenario, new: Scenario, options: SweepOptions, progress: Progress
) -> SummaryInTurn:
    """Run the trials of both scenarios that are not finished yet, those of a pair in a row.

    Each scenario has a sweep of its own; both are found again if either was cut short.

    Raises:
        UsageError: their trials make no pairs.
        CgroupError, MachineError, WorkloadError, ResultsError: as of one sweep.
    """
    began = time.monotonic()
    check_in_turn(old, new)
    with (
        open_trial_loop(progress, **new.sampler.model_dump()) as loop,
        _opened(old, new, options, loop) as sweeps,
    ):
        sweeps.run(progress)
        wall_s = time.monotonic() - began
        return SummaryInTurn(sweeps.old.summary(wall_s), sweeps.new.summary(wall_s))


@dataclass(frozen=True)
class _SweepsInTurn:
    """Both sweeps under way; ``pairs``: point of the old one → point of the new one."""

    old: SweepUnderWay
    new: SweepUnderWay
    pairs: dict[str, str]

    def run(self, progress: Progress) -> None:
        """Every trial of either that is not finished yet, then the marks of completion."""
        of = {OLD: self.old, NEW: self.new}
        ordered = trials_in_turn(self.old.plan, self.new.plan, self.pairs)
        every = [(of[version], planned) for version, planned in ordered]
        left = [(sweep, one) for sweep, one in every if one.trial not in sweep.resumed]
        progress.begin(self.new.path.parent, len(every), len(every) - len(left))
        for sweep in {id(sweep): sweep for sweep, _ in left}.values():
            sweep.warm()
        self.new.demand_beside = self._demand_of_old
        for sweep, planned in left:
            sweep.make([planned])
            # Of two sweeps one has a trial under way.
            sweep.end_live()
        # Neither before both: a complete sweep is not taken up again.
        if self.old.is_whole() and self.new.is_whole():
            self.old.finish()
            self.new.finish()

    def _demand_of_old(self, point: Point) -> int | None:
        """What a share is of in both versions of a pair, so that both have the same limit."""
        names = {other: one for one, other in self.pairs.items()}
        own = names.get(point.id)
        return None if own is None else self.old.demand(self.old.point(own))


@contextlib.contextmanager
def _opened(
    old: Scenario, new: Scenario, options: SweepOptions, loop: TrialLoop
) -> Iterator[_SweepsInTurn]:
    planners = dict(zip((OLD, NEW), planners_in_turn(old, new), strict=True))
    unopened = {
        version: UnopenedSweep(scenario, loop, planners[version], version=version)
        for version, scenario in ((OLD, old), (NEW, new))
    }
    alone = {version: one.planned().fingerprint for version, one in unopened.items()}
    planned = {OLD: unopened[OLD].planned(alone[NEW]), NEW: unopened[NEW].planned(alone[OLD])}
    pairs = paired_points(planned[OLD].points, planned[NEW].points)
    pair = _unfinished_pair(planned, options) or secrets.token_hex(6)
    points = {OLD: pairs, NEW: {other: one for one, other in pairs.items()}}
    with contextlib.ExitStack() as stack:
        sweeps = {}
        for version, one in unopened.items():
            in_turn = InTurn(pair, version, points[version])
            folder = stack.enter_context(_folder(one, planned[version], options, in_turn))
            sweeps[version] = SweepUnderWay(one, folder)
            stack.callback(sweeps[version].close)
        yield _SweepsInTurn(sweeps[OLD], sweeps[NEW], pairs)


def _unfinished_pair(planned: dict[str, PlannedSweep], options: SweepOptions) -> str | None:
    """The newest unfinished pair of these versions; one of its two sweeps may be missing."""
    if options.fresh:
        return None
    for version in (NEW, OLD):
        place = options.results, options.device_folder, planned[version].fingerprint
        path = find_unfinished(*place)
        found = in_turn_of(read_json(path / RESOLVED)) if path else None
        if found:
            return found.pair
    return None


def _folder(
    sweep: UnopenedSweep, planned: PlannedSweep, options: SweepOptions, in_turn: InTurn
) -> ResultsFolder:
    parent = Path(options.results) / options.device_folder
    path = sweep_in_turn(parent, in_turn.pair, in_turn.version)
    if path is not None:
        return reopened(path)
    place = options.results, options.device_folder
    return create_sweep_folder(planned, *place, sweep.trials.environment, in_turn)
