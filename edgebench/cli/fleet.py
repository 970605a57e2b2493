"""``edgebench fleet``: sweeps on several machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import json_option, offer_scenarios, results_option, verbose_option
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_message,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import FleetError, NotFitError, SweepIncompleteError, UsageError
from edgebench.text import joined_words, printable
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.fleet.administration import MachineChecks
    from edgebench.fleet.groups import MachineGroup
    from edgebench.fleet.inventory import Inventory
    from edgebench.fleet.runs import DeviceSummary
    from edgebench.fleet.startup import WorkerStart
    from edgebench.records import TrialRecord


_inventory_option = click.option(
    "--fleet",
    "inventory",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("fleet.toml"),
    help="The inventory: a TOML file that lists the machines.",
)
_host_option = click.option(
    "--host", "hosts", multiple=True, help="Only this machine; may be repeated."
)


@click.group()
def fleet() -> None:
    """Run sweeps on several machines: one on each, or one that equal machines share.

    FILE fleet.toml lists the machines. It needs the extra: pip install './edgebench[fleet]'.
    """


@fleet.command(short_help="Start the scheduler and the workers that are missing.")
@_inventory_option
@_host_option
def up(inventory: Path, hosts: tuple[str, ...]) -> None:
    """Start the scheduler, if none runs, and the workers that are not there yet."""
    from edgebench.fleet.administration import bring_up

    loaded = _loaded(inventory, hosts)
    started = bring_up(loaded, _chosen(loaded, hosts), _tell)
    print_starts(started)
    failed = [one for one in started if one.says]
    there = len(started) - len(failed)
    print_answer([f"{there} of {len(started)} machines are up."])
    if failed:
        raise FleetError(
            f"not up: {', '.join(one.name for one in failed)}",
            remedy="correct what stands above for each, then: edgebench fleet up",
        )
    print_next("edgebench fleet doctor")


@fleet.command()
@_inventory_option
@_host_option
@verbose_option("what is OK, and what the machines don't have")
@json_option("all checks")
def doctor(inventory: Path, hosts: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """Check each machine as `edgebench doctor` does, side by side.

    Exit code 5 if a machine is not fit.
    """
    from edgebench.fleet.administration import check_machines

    loaded = _loaded(inventory, hosts)
    found = check_machines(loaded, _chosen(loaded, hosts))
    unfit = [one.machine for one in found if not one.fit]
    if as_json:
        print_json({"machines": {one.machine: one.to_json() for one in found}})
    else:
        fit = len(found) - len(unfit)
        print_answer([f"{fit} of {len(found)} machines can measure."])
        print_machine_checks(found, verbose)
    if unfit:
        raise NotFitError(
            f"these machines can't measure: {', '.join(unfit)}",
            remedy="type what stands behind each fail there, then: edgebench fleet doctor",
        )
    if not as_json:
        print_next("edgebench fleet run quickstart")


@fleet.command(short_help="Run SCENARIO on each machine, or share one sweep.")
@click.argument("scenario", metavar="SCENARIO", shell_complete=offer_scenarios)
@_inventory_option
@_host_option
@click.option("--shared", metavar="LABEL", help="Share one sweep among the machines of a label.")
@results_option
@click.option("--fresh", is_flag=True, help="Start new sweeps even if unfinished ones exist.")
@verbose_option("a line for each trial")
@json_option("the summary")
def run(
    scenario: str,
    inventory: Path,
    hosts: tuple[str, ...],
    shared: str | None,
    results: Path,
    fresh: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO on each machine; or, with --shared, one sweep on all machines of a label.

    It may be interrupted at any time: the same command resumes it.
    """
    from edgebench.fleet.groups import GroupOptions
    from edgebench.fleet.runs import run_on_fleet

    loaded = _loaded(inventory, hosts)
    options = GroupOptions(results, fresh, shared is not None)
    progress = FleetLines(verbose)
    found = run_on_fleet(scenario, loaded, options, progress, label=shared, hosts=hosts)
    if as_json:
        print_json({"devices": [plain_summary(one) for one in found]})
    else:
        print_sweeps(found)
    problems = [one.problem for one in found if one.problem]
    if problems and len(problems) == len(found):
        raise problems[0]
    refuse_unfinished(found)
    if not as_json:
        several = len(found) > 1
        print_next(
            f"edgebench compare --devices {typed_path(results)}"
            if several
            else f"edgebench show {typed_path(found[0].folder or results)}"
        )


@fleet.command()
@_inventory_option
@json_option("the machines")
def status(inventory: Path, as_json: bool) -> None:
    """Show which machines are up, and what each does."""
    from edgebench.fleet.administration import machine_states

    found = machine_states(_loaded(inventory, ()))
    if as_json:
        print_json({"machines": found})
        return
    there = sum(one["state"] != "down" for one in found.values())
    print_answer([f"{there} of {len(found)} machines are up."])
    titles = ["machine", "state", "labels", "seen", "worker", "pid", "problem"]
    rows = [[name, *(one[key] for key in titles[1:])] for name, one in found.items()]
    print_table(titles, rows, words=titles)
    print_next("edgebench fleet up" if there < len(found) else "edgebench fleet run quickstart")


@fleet.command(short_help="Stop the workers, and a scheduler that `up` started.")
@_inventory_option
def stop(inventory: Path) -> None:
    """Stop the workers, and the scheduler if `fleet up` started it."""
    from edgebench.fleet.administration import stop_fleet

    print_answer([stop_fleet(_loaded(inventory, ()))])


def _loaded(path: Path, hosts: Sequence[str]) -> Inventory:
    from edgebench.extras import need
    from edgebench.fleet.inventory import load_inventory

    need("distributed")
    loaded = load_inventory(path)
    if unknown := [name for name in hosts if name not in loaded.hosts]:
        raise UsageError(
            f"no machine {joined_words(unknown)} in {path}",
            where="--host",
            remedy=f"one of {', '.join(loaded.hosts)}",
        )
    return loaded


def _chosen(loaded: Inventory, hosts: Sequence[str]) -> list[str]:
    return [name for name in loaded.hosts if not hosts or name in hosts]


def _tell(text: str) -> None:
    click.echo(text, err=True)


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
