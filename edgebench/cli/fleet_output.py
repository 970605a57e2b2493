"""What ``edgebench fleet`` prints of machines and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgebench.cli.output import (
    print_answer,
    print_lines,
    print_message,
    print_table,
    print_warnings,
    shown_path,
)
from edgebench.errors import SweepIncompleteError

if TYPE_CHECKING:
    from edgebench.fleet.doctor import MachineChecks
    from edgebench.fleet.runs import DeviceSummary
    from edgebench.fleet.startup import WorkerStart

_UNEXPECTED = ("failed", "timeout", "harness-error")
#: What a check found is told where it is one of these.
_TOLD = ("warn", "fail")


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
