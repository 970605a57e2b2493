"""``edgebench run``: a scenario's sweep."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import (
    device_option,
    json_option,
    offer_scenarios,
    other_plan_option,
    other_storage_option,
    results_option,
    verbose_option,
)
from edgebench.cli.run_output import print_dry_run, print_in_turn, print_summary, refuse_unexpected
from edgebench.errors import UsageError

if TYPE_CHECKING:
    from edgebench.run.sweep import SweepOptions
    from edgebench.scenario.scenario import Scenario


@click.command()
@click.argument("scenario", metavar="SCENARIO", shell_complete=offer_scenarios)
@results_option
@device_option
@other_storage_option
@other_plan_option
@click.option(
    "--in-turn-with",
    "old",
    metavar="SCENARIO",
    shell_complete=offer_scenarios,
    help="The older version: run its trials in turn with those of SCENARIO, for compare.",
)
@click.option("--no-sensors", is_flag=True, help="Don't read the machine's sensors during trials.")
@click.option("--dry-run", is_flag=True, help="Only check SCENARIO and show what it would run.")
@click.option("--fresh", is_flag=True, help="Start a new sweep even if an unfinished one exists.")
@verbose_option("a line for each trial, and the harness's own time")
@json_option("the summary; with --dry-run what it would run")
def run(
    scenario: str,
    results: Path,
    device: str | None,
    storage: str | None,
    plan: str | None,
    old: str | None,
    no_sensors: bool,
    dry_run: bool,
    fresh: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO (a TOML file, or the name of a shipped one) at all its limits.

    It may be interrupted at any time: the same command resumes it. All errors in SCENARIO are
    printed at once, before anything runs.
    """
    from edgebench.run.sweep import SweepOptions

    loaded = _loaded(scenario, storage, plan, no_sensors)
    if dry_run:
        print_dry_run(loaded, _command(scenario, storage, plan), as_json)
        return
    options = SweepOptions(results, device, fresh)
    if old is None:
        _run_alone(loaded, options, verbose, as_json)
        return
    _refuse_one_file(old, scenario)
    _run_both(_loaded(old, storage, plan, no_sensors), loaded, options, verbose, as_json)


def _command(scenario: str, storage: str | None, plan: str | None) -> str:
    """The command that runs it."""
    given = {"storage": storage, "plan": plan}
    flags = "".join(f" --{name} {value}" for name, value in given.items() if value)
    return f"edgebench run {shlex.quote(scenario)}{flags}"


def _loaded(scenario: str, storage: str | None, plan: str | None, no_sensors: bool) -> Scenario:
    from edgebench.scenario.flag_scenario import with_storage, without_sensors
    from edgebench.scenario.scenario import load_scenario

    loaded = load_scenario(scenario, plan)
    loaded = with_storage(loaded, storage) if storage else loaded
    return without_sensors(loaded) if no_sensors else loaded


def _run_both(
    old: Scenario, new: Scenario, options: SweepOptions, verbose: bool, as_json: bool
) -> None:
    from edgebench.cli.progress import shown_progress
    from edgebench.run.in_turn import run_in_turn

    with shown_progress(verbose) as progress:
        summary = run_in_turn(old, new, options, progress)
    print_in_turn(summary, as_json)
    refuse_unexpected(summary.old)
    refuse_unexpected(summary.new)


def _run_alone(scenario: Scenario, options: SweepOptions, verbose: bool, as_json: bool) -> None:
    from edgebench.cli.progress import shown_progress
    from edgebench.run.sweep import run_sweep

    with shown_progress(verbose) as progress:
        summary = run_sweep(scenario, options, progress)
    print_summary(summary, verbose, as_json)
    refuse_unexpected(summary)


def _refuse_one_file(old: str, new: str) -> None:
    """Check that the two versions are two files.

    Raises:
        UsageError: they are one.
    """
    from edgebench.scenario.shipped import find_scenario

    if find_scenario(old).resolve() == find_scenario(new).resolve():
        raise UsageError(
            "both versions are the same file",
            where=f"--in-turn-with {old}",
            remedy="copy the scenario, change in the copy what is new, and run the copy",
        )
