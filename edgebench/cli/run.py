"""``edgebench run``: a scenario's sweep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.completion import offer_scenarios
from edgebench.cli.grouping import grouped
from edgebench.cli.options import (
    device_option,
    json_option,
    other_plan_option,
    other_storage_option,
    results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.cli.run_in_turn import print_in_turn, refuse_one_file
from edgebench.errors import SweepIncompleteError
from edgebench.report.workload import brief_names
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.run.sweep import SweepOptions, SweepSummary
    from edgebench.scenario.scenario import Scenario

_UNEXPECTED = ("failed", "timeout", "harness-error")


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
@click.option("--fresh", is_flag=True, help="Start a new sweep even if an unfinished one exists.")
@verbose_option("a line for each trial, and the harness's own time")
@json_option("the summary")
def run(
    scenario: str,
    results: Path,
    device: str | None,
    storage: str | None,
    plan: str | None,
    old: str | None,
    no_sensors: bool,
    fresh: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO (a TOML file, or the name of a shipped one) at all its limits.

    It may be interrupted at any time: the same command resumes it.
    """
    from edgebench.run.sweep import SweepOptions

    options = SweepOptions(results, device, fresh)
    loaded = _loaded(scenario, storage, plan, no_sensors)
    if old is None:
        _run_alone(loaded, options, verbose, as_json)
        return
    refuse_one_file(old, scenario)
    _run_both(_loaded(old, storage, plan, no_sensors), loaded, options, verbose, as_json)


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
    warnings = {"old": _warnings(summary.old), "new": _warnings(summary.new)}
    print_in_turn(summary, warnings, as_json)
    refuse_unexpected(summary.old)
    refuse_unexpected(summary.new)


def _run_alone(scenario: Scenario, options: SweepOptions, verbose: bool, as_json: bool) -> None:
    from edgebench.cli.progress import shown_progress
    from edgebench.run.sweep import run_sweep

    with shown_progress(verbose) as progress:
        summary = run_sweep(scenario, options, progress)
    warnings = _warnings(summary)
    if as_json:
        print_json({**asdict(summary), "warnings": warnings})
    else:
        print_answer(run_answer(summary.folder))
        print_lines(["", *_summary_lines(summary, verbose)])
        print_warnings(warnings)
        print_next(f"edgebench report {typed_path(summary.folder)}")
    refuse_unexpected(summary)


def _warnings(summary: SweepSummary) -> list[str]:
    names = brief_names(workload for workload, *_ in summary.noise)
    noise = grouped((names[workload], limit, words) for workload, limit, words in summary.noise)
    return [*noise, *summary.warnings]


def refuse_unexpected(summary: SweepSummary) -> None:
    """Check how the trials of a finished sweep ended.

    Raises:
        SweepIncompleteError: some failed, timed out or could not be measured.
    """
    unexpected = {k: n for k, n in summary.outcomes.items() if k in _UNEXPECTED}
    if unexpected:
        words = ", ".join(f"{n} {outcome}" for outcome, n in unexpected.items())
        raise SweepIncompleteError(
            f"the sweep is done, but some trials ended unexpectedly: {words}",
            where=str(summary.folder / "trials.jsonl"),
            remedy=f"edgebench show {typed_path(summary.folder)}",
        )


def run_answer(folder: Path) -> list[str]:
    """What the sweep says of each workload, in a sentence."""
    from edgebench.report.one_sentence import sweep_sentences
    from edgebench.report.workload import workloads
    from edgebench.results.results import load
    from edgebench.results.summary import summarise

    points = summarise(load(folder).sweeps[0])
    # An adaptive search runs only some of its points.
    found = workloads([point for point in points if point.outcomes] or points)
    return sweep_sentences(found, brief_names(one.name for one in found))


def _summary_lines(summary: SweepSummary, verbose: bool) -> list[str]:
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(summary.outcomes.items()))
    count = f"{summary.trials} trial{'s' * (summary.trials != 1)}"
    lines = [f"{count} in {format_duration(summary.wall_s)}: {outcomes}"]
    each, share = summary.harness_s_per_trial, summary.harness_share
    if verbose and each is not None and share is not None:
        lines.append(f"harness: {format_duration(each)} a trial, {share:.1%} of the trials' time")
    return [*lines, f"results: {shown_path(summary.folder)}"]
