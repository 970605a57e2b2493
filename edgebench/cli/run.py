"""``edgebench run``: a scenario's sweep."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.answers.trials import sweep_warnings, warning_lines, warnings_of
from edgebench.cli.options import (
    device_option,
    flag,
    json_option,
    offer_scenarios,
    results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import SweepIncompleteError
from edgebench.records import LIMIT_WORDS
from edgebench.text import AS_IS, format_duration, format_size

if TYPE_CHECKING:
    from edgebench.run.sweep.sweep import SweepSummary
    from edgebench.scenario.points import Point
    from edgebench.scenario.preview import Preview
    from edgebench.scenario.scenario import Scenario


@click.command()
@click.argument("scenario", metavar="SCENARIO", shell_complete=offer_scenarios)
@results_option
@device_option
@flag(
    "storage",
    default=None,
    help="Hold swap and weights to this speed instead of the scenario's, as read=50MB/s; or as-is.",
)
@flag(
    "plan",
    default=None,
    help="Follow this plan instead of the scenario's: grid (fresh trials at all limits), or walk.",
)
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
    from edgebench.scenario.new_scenario import with_storage
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


#: Settings shown, in this order, where the scenario has them.
_SHOWN = (
    *("network", "schedule", "loader", "framework", "compiled", "data", "shape", "depth", "width"),
    *("optimizer", "learning_rate", "accumulation", "precision", "checkpointing", "trained"),
    *("start", "kernel", "stack", "backward", "batch", "image", "steps", "epochs", "rounds"),
    *("page_cache", "gc", "command"),
)
_UNEXPECTED = ("failed", "timeout", "harness-error")


def print_dry_run(scenario: Scenario, command: str, as_json: bool) -> None:
    """Print what the scenario would run. What only this machine lacks is a warning.

    Args:
        scenario: what would be run.
        command: the command that runs it.
        as_json: print JSON instead of text.
    """
    from edgebench.scenario.preview import preview, this_machine

    seen = preview(scenario, this_machine())
    if as_json:
        print_warnings(seen.warnings)
        print_json(asdict(seen))
        return
    trials, limits = seen.trials + seen.own_trials, {p.limits.label for p in seen.points}
    longest = format_duration(seen.longest_s)
    print_headline(
        f"{seen.name}   valid   {trials} trials   {len(limits)} limits   at most {longest}"
    )
    print_fields(_rows(seen, scenario))
    print_warnings(seen.warnings, "--json")
    # What would stop the run is mended first, as the warning says.
    print_next(f"{command} --dry-run" if seen.obstacles else command)


def _rows(seen: Preview, scenario: Scenario) -> list[tuple[str, str]]:
    def written(point: Point, key: str) -> str:
        value = point.settings.get("networks" if key == "network" else key)
        value = point.settings.get(key) if value is None else value
        if isinstance(value, list):
            return (" " if key == "command" else "+").join(value)
        return "" if value is None else str(value)

    columns = [
        *((key, [written(point, key) for point in seen.points]) for key in _SHOWN),
        *_limits(seen),
    ]
    rows = [(name, ", ".join(filter(None, dict.fromkeys(values)))) for name, values in columns]
    rows = [(name, words) for name, words in rows if words]
    if search := scenario.search:
        at = sum(name in _SHOWN for name, _ in rows)
        rows.insert(at, ("search", f"{search.draws} draws of {', '.join(search.axes)}"))
    rows.append(("points", str(len(seen.points))))
    each = f"{scenario.repeats} of each point"
    if seen.walks:
        each = f"{seen.trials - seen.walks} fresh, {seen.walks} through all limits"
    rows.append(("trials", f"{seen.trials}: {each}"))
    if seen.own_trials:
        rows.append(("strategies", f"{seen.own_trials} trials: {', '.join(scenario.strategies)}"))
    return [*rows, ("time limit", f"{format_duration(scenario.timeout_s)} a trial")]


def _limits(seen: Preview) -> Iterator[tuple[str, list[str]]]:
    """Yield each limit with its value at each point, as the scenario has it."""
    limits = [point.limits for point in seen.points]
    yield "board", [limit.board for limit in limits if limit.board]
    yield "memory", [limit.label for limit in limits]
    sizes = [f" of {format_size(one.swap_bytes)}" if one.swap_bytes else "" for one in limits]
    yield "swap", [one.swap_kind + size for one, size in zip(limits, sizes, strict=True)]
    held = [limit.storage for limit in limits]
    yield "storage", [] if {*held} == {AS_IS} else held
    for name in LIMIT_WORDS:
        values = filter(None, (getattr(limit, name) for limit in limits))
        words = [value if isinstance(value, str) else f"{value:g}" for value in values]
        yield name.replace("_", " "), words
    if any("accelerator" in point.settings for point in seen.points):
        words = []
        for point in seen.points:
            size = point.limits.accelerator_bytes
            of = "" if size is None else f" of {format_size(size)}"
            words.append(f"{point.settings.get('accelerator', 'none')}{of}")
        yield "accelerator", words


def print_summary(summary: SweepSummary, verbose: bool, as_json: bool) -> None:
    """Print the answer, where the trials are, and what to type next."""
    from edgebench.cli.show import print_sweep
    from edgebench.results.facts import sweep_facts
    from edgebench.results.results import load
    from edgebench.results.sweep_reader import read_sweep

    if as_json:
        sweep = read_sweep(summary.folder)
        workloads = sweep_facts(sweep).workloads
        doubts = [doubt for one in workloads for doubt in warnings_of(one, one.name)]
        lines = warning_lines([*doubts, *sweep_warnings(sweep)])
        print_json({**asdict(summary), "warnings": lines})
        return
    took = f"{summary.trials} trials, {format_duration(summary.wall_s)}"
    print_sweep(load(summary.folder), verbose=verbose, took=took)
    print_lines([f"results: {shown_path(summary.folder)}"])
    print_next(f"edgebench report {typed_path(summary.folder)}")


def refuse_unexpected(summary: SweepSummary) -> None:
    """Check how the trials of a finished sweep ended.

    Raises:
        SweepIncompleteError: some failed, timed out or could not be measured.
    """
    unexpected = {k: n for k, n in summary.outcomes.items() if k in _UNEXPECTED}
    if unexpected:
        counts = ", ".join(f"{n} {outcome}" for outcome, n in unexpected.items())
        raise SweepIncompleteError(
            f"the sweep is done, but some trials ended unexpectedly: {counts}",
            where=str(summary.folder / "trials.jsonl"),
            remedy=f"edgebench show {typed_path(summary.folder)}",
        )
