"""``edgebench run``: a scenario's sweep."""

from __future__ import annotations

import shlex
from pathlib import Path

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
from edgebench.cli.run_output import print_dry_run, print_summary, refuse_unexpected


@click.command()
@click.argument("scenario", metavar="SCENARIO", shell_complete=offer_scenarios)
@results_option
@device_option
@other_storage_option
@other_plan_option
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
    dry_run: bool,
    fresh: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO (a TOML file, or the name of a shipped one) at all its limits.

    It may be interrupted at any time: the same command resumes it. All errors in SCENARIO are
    printed at once, before anything runs.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.run.sweep.sweep import SweepOptions, run_sweep
    from edgebench.scenario.flag_scenario import with_storage
    from edgebench.scenario.scenario import load_scenario

    loaded = load_scenario(scenario, plan)
    loaded = with_storage(loaded, storage) if storage else loaded
    if dry_run:
        given = {"storage": storage, "plan": plan}
        flags = "".join(f" --{name} {value}" for name, value in given.items() if value)
        print_dry_run(loaded, f"edgebench run {shlex.quote(scenario)}{flags}", as_json)
        return
    with shown_progress(verbose) as progress:
        summary = run_sweep(loaded, SweepOptions(results, device, fresh), progress)
    print_summary(summary, verbose, as_json)
    refuse_unexpected(summary)
