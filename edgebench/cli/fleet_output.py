"""What ``edgebench fleet`` prints: of machines, of sweeps, and while they run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.output import (
    print_answer,
    print_lines,
    print_message,
    print_table,
    print_warnings,
    shown_path,
)
from edgebench.errors import SweepIncompleteError
from edgebench.text import printable
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.fleet.administration import MachineChecks
    from edgebench.fleet.groups import MachineGroup
    from edgebench.fleet.runs import DeviceSummary
    from edgebench.fleet.startup import WorkerStart
    from edgebench.records import TrialRecord

_UNEXPECTED = ("failed", "timeout", "harness-error")
#: What a check found is told where it is one of these.
_TOLD = ("warn", "fail")


#: How often the counts are printed.
_EVERY_S = 10.0


def print_starts(started: Sequence[WorkerStart]) -> None:
    """What could not be started, with the fix."""
    for one in started:
        if one.says:
            remedy = f"\n  remedy: {one.remedy}" if one.remedy else ""
            print_message(f"{one.name}: {one.says}{remedy}")


def print_machine_checks(found: Sequence[MachineChecks], verbose: bool) -> None:
    """A row for each check that found something on some machine, a column for each machine."""
    checks = list(dict.fromkeys(row.check for one in found for row in one.checks))
    rows, remedies = [], []
    for check in checks:
        cells = [one.status_of(check) for one in found]
        if verbose or any(cell in _TOLD for cell in cells):
            rows.append([check, *cells])
            remedies += _remedies_of(check, found)
    titles = ["check", *(one.machine for one in found)]
    if rows:
        print_table(titles, rows, words=titles)
        print_lines(["", *remedies])


def _remedies_of(check: str, found: Sequence[MachineChecks]) -> list[str]:
    """What the check found, once for all machines of which it says the same."""
    machines: dict[str, list[str]] = {}
    for one in found:
        for row in one.checks:
            if row.check == check and row.status in _TOLD:
                # A remedy may have several lines, each with its own indent.
                remedy = " ".join((row.remedy or "").split())
                said = row.says + (f" → {remedy}" if remedy else "")
                machines.setdefault(said, []).append(one.machine)
    return [f"{', '.join(names)}: {check}: {said}" for said, names in machines.items()]


def print_sweeps(found: Sequence[DeviceSummary]) -> None:
    """A row for each sweep: how many trials, how they ended, whether it is complete."""
    rows = []
    for one in found:
        outcomes = ", ".join(f"{n} {name}" for name, n in sorted(one.outcomes.items()))
        state = one.problem.what if one.problem else "complete"
        rows.append([one.device, f"{one.trials} of {one.planned}", outcomes, state])
    complete = sum(one.problem is None for one in found)
    print_answer([f"{complete} of {len(found)} sweeps are complete."])
    print_table(["device", "trials", "outcomes", "state"], rows, words=("device", "state"))
    print_lines(["", *(f"results: {shown_path(one.folder)}" for one in found if one.folder)])


def refuse_unfinished(found: Sequence[DeviceSummary]) -> None:
    """Check that all sweeps are complete and their trials ended as expected.

    Raises:
        SweepIncompleteError: one is not, or some did not.
    """
    print_warnings(str(one.problem.what) for one in found if one.problem)
    unfinished = [one.device for one in found if one.problem]
    unexpected = [one.device for one in found if set(one.outcomes) & set(_UNEXPECTED)]
    if unfinished or unexpected:
        words = []
        if unfinished:
            words.append(f"not complete: {', '.join(unfinished)}")
        if unexpected:
            words.append(f"trials ended unexpectedly: {', '.join(unexpected)}")
        raise SweepIncompleteError(
            "; ".join(words), remedy="edgebench fleet status; the same command resumes"
        )


def plain_summary(one: DeviceSummary) -> dict[str, Any]:
    """For JSON."""
    problem = {"what": one.problem.what, "remedy": one.problem.remedy} if one.problem else None
    return {**vars(one), "problem": problem}


class FleetLines:
    """Prints what stays, and now and then how far each sweep is; ``verbose``: every trial."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._counts: dict[str, str] = {}
        self._shown_s = time.monotonic()

    def tell(self, text: str) -> None:
        """Something that stays."""
        click.echo(printable(text), err=True)

    def made(self, group: MachineGroup, record: TrialRecord) -> None:
        """A trial is recorded."""
        assert group.sweep
        self._counts[group.device] = f"{group.device} {group.sweep.done}/{group.sweep.total}"
        if self._verbose:
            took = f" {format_duration(record.wall_s)}" if record.wall_s is not None else ""
            limit = record.limits.label
            self.tell(f"{record.machine}: trial {record.trial} at {limit}: {record.outcome}{took}")
        now = time.monotonic()
        if now - self._shown_s >= _EVERY_S:
            self._shown_s = now
            self.tell(f"trials: {', '.join(self._counts.values())}")
