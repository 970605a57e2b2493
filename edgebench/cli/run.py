"""``edgebench run``: a scenario's sweep."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import device_option, results_option
from edgebench.errors import SweepIncompleteError
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.sweep.sweep import SweepSummary

_UNEXPECTED = ("failed", "timeout", "harness-error")


@click.command(short_help="Run a scenario's sweep, or resume one that was interrupted.")
@click.argument("scenario", metavar="SCENARIO")
@results_option
@device_option
@click.option("--fresh", is_flag=True, help="Start anew, even if an unfinished sweep is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
def run(scenario: str, results: Path, device: str | None, fresh: bool, as_json: bool) -> None:
    """Run SCENARIO (a TOML file, or the name of a shipped one) at all its limits.

    Interrupted at any time, the same command goes on where it stopped.
    """
    from edgebench.cli.progress import make_progress
    from edgebench.scenario.scenario import load_scenario
    from edgebench.sweep.sweep import SweepOptions, run_sweep

    plan = load_scenario(scenario)
    progress = make_progress()
    try:
        summary = run_sweep(plan, SweepOptions(results, device, fresh), progress)
    finally:
        progress.close()
    _report(summary, as_json)
    refuse_unexpected(summary)


def refuse_unexpected(summary: SweepSummary) -> None:
    """Say so if trials of a sweep that is done ended as none should.

    Raises:
        SweepIncompleteError: some did.
    """
    unexpected = {k: n for k, n in summary.outcomes.items() if k in _UNEXPECTED}
    if unexpected:
        words = ", ".join(f"{n} {outcome}" for outcome, n in unexpected.items())
        raise SweepIncompleteError(
            f"the sweep is done, but some trials ended unexpectedly: {words}",
            where=str(summary.folder / "trials.jsonl"),
            remedy=f"edgebench show {summary.folder}",
        )


def _report(summary: SweepSummary, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**asdict(summary), "folder": str(summary.folder)}))
        return
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(summary.outcomes.items()))
    click.echo(f"{summary.trials} trials in {format_duration(summary.wall_s)}: {outcomes}")
    if summary.harness_s_per_trial is not None and summary.harness_share is not None:
        each = format_duration(summary.harness_s_per_trial)
        click.echo(f"harness: {each} a trial, {summary.harness_share:.1%} of the trials' time")
    for warning in summary.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"results: {summary.folder}")
    for verb in ("show", "fit", "plot"):
        click.echo(f"next: edgebench {verb} {summary.folder}")
