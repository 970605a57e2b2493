"""``edgebench fleet``: sweeps on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.fleet_output import (
    plain_summary,
    print_machine_checks,
    print_starts,
    print_sweeps,
    refuse_unfinished,
)
from edgebench.cli.options import json_option, offer_scenarios, results_option, verbose_option
from edgebench.cli.output import print_answer, print_json, print_next, print_table, typed_path
from edgebench.errors import FleetError, NotFitError, UsageError
from edgebench.text import joined_words

if TYPE_CHECKING:
    from edgebench.fleet.inventory import Inventory

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

    FILE fleet.toml lists the machines. It needs the extra: pip install 'edgebench[fleet]'.
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
    from edgebench.cli.fleet_output import FleetLines
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
