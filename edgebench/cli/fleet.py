"""``edgebench fleet``: sweeps on several machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.table import Table
from edgebench.cli.options import json_option, offer_scenarios, results_option
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    shown_path,
    typed_path,
)
from edgebench.errors import FleetError, SweepIncompleteError, UsageError
from edgebench.processes import caller_identity, find_program
from edgebench.text import joined_words, printable

if TYPE_CHECKING:
    from edgebench.fleet.sweep import FleetSweep


@click.command()
@click.argument("scenario", metavar="SCENARIO", shell_complete=offer_scenarios)
@click.option(
    "--fleet",
    "inventory",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("fleet.toml"),
    help="The inventory: a TOML file that lists the machines.",
)
@click.option(
    "--host", "hosts", metavar="NAME", multiple=True, help="Only this machine; may be repeated."
)
@results_option
@click.option("--fresh", is_flag=True, help="Start new sweeps even if unfinished ones exist.")
@json_option("the summary")
def fleet(
    scenario: str,
    inventory: Path,
    hosts: tuple[str, ...],
    results: Path,
    fresh: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO on several machines, reached by SSH: a sweep on each.

    It may be interrupted at any time: the same command resumes it.
    """
    from edgebench.fleet.session import load_inventory
    from edgebench.fleet.sweep import run_on_fleet

    def tell(text: str) -> None:
        click.echo(printable(text), err=True)

    loaded = load_inventory(inventory)
    if unknown := [name for name in hosts if name not in loaded.hosts]:
        raise UsageError(
            f"no machine {joined_words(unknown)} in {inventory}",
            where="--host",
            remedy=f"one of {', '.join(loaded.hosts)}",
        )
    if caller_identity():
        # Root would read files, and use SSH keys, for whoever wrote the inventory.
        raise UsageError("a fleet needs no root here", remedy="the same command without sudo")
    if not find_program("ssh"):
        raise FleetError("ssh is not installed here", remedy="apt-get install openssh-client")
    sweeps = run_on_fleet(scenario, loaded, results, tell, fresh=fresh, hosts=hosts)
    found = list(map(_summary, sweeps))
    whole = [one for one in found if one["state"] == "complete"]
    if as_json:
        print_json({"devices": found})
    else:
        print_headline(f"{len(whole)} of {len(found)} sweeps are complete")
        rows = []
        for one in found:
            outcomes = ", ".join(f"{n} {name}" for name, n in sorted(one["outcomes"].items()))
            trials = f"{one['trials']} of {one['planned']}"
            rows.append([one["device"], trials, outcomes, one["state"]])
        titles = ("device", "trials", "outcomes", "state")
        print_table(Table(titles, rows, ("device", "outcomes", "state")))
        folders = [one.sweep.folder.path for one in sweeps if one.sweep]
        print_lines(f"results: {shown_path(path)}" for path in folders)
    problems = [one.problem for one in sweeps if one.problem]
    if problems and len(problems) == len(sweeps):
        raise problems[0]
    unexpected = {"failed", "timeout", "harness-error"}
    unfinished = [one["device"] for one in found if one not in whole]
    failing = [one["device"] for one in found if unexpected & set(one["outcomes"])]
    if unfinished or failing:
        words = f"not complete: {', '.join(unfinished)}" if unfinished else "complete"
        words += f"; trials ended unexpectedly: {', '.join(failing)}" if failing else ""
        again = "".join(f" --host {name}" for name in unfinished)
        remedy = f"correct what stands above; then the same command with{again}"
        raise SweepIncompleteError(words, remedy=remedy if unfinished else None)
    if not as_json:
        each = f"compare --devices {typed_path(results)}"
        print_next(f"edgebench {each if len(found) > 1 else f'show {typed_path(folders[0])}'}")


def _summary(one: FleetSweep) -> dict[str, Any]:
    """Return what came of a sweep, as plain data."""
    sweep = one.sweep
    done, total = (sweep.done, sweep.total) if sweep else (0, 0)
    return {
        "device": one.device,
        "folder": sweep and str(sweep.folder.path),
        "trials": done,
        "planned": total,
        "outcomes": sweep.trials.outcomes() if sweep else {},
        "state": "complete" if sweep and sweep.is_complete else "not complete",
        "reason": one.problem and str(one.problem),
    }
