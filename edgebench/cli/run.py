"""Scenarios: ``init`` writes one, ``run`` runs its sweep here, ``fleet`` on several machines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.table import Table
from edgebench.answers.trials import sweep_warnings, warning_lines, warnings_of
from edgebench.cli.options import (
    NetworkOrCommand,
    device_option,
    flag,
    json_option,
    offer_networks,
    offer_scenarios,
    read_newest,
    results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import FleetError, SweepIncompleteError, UsageError
from edgebench.processes import caller_identity, find_program
from edgebench.records import LIMIT_WORDS
from edgebench.safe_files import open_file, remove_file
from edgebench.text import AS_IS, format_duration, format_size, joined_words, printable

if TYPE_CHECKING:
    from edgebench.fleet.sweep import FleetSweep
    from edgebench.run.sweep.sweep import SweepSummary
    from edgebench.scenario.points import Point
    from edgebench.scenario.preview import Preview
    from edgebench.scenario.scenario import Scenario

_KINDS = ("inference", "training", "command")
#: Settings shown, in this order, where the scenario has them.
_SHOWN = (
    *("network", "schedule", "loader", "framework", "compiled", "data", "shape", "depth", "width"),
    *("optimizer", "learning_rate", "accumulation", "precision", "checkpointing", "trained"),
    *("start", "kernel", "stack", "backward", "batch", "image", "steps", "epochs", "rounds"),
    *("page_cache", "gc", "command"),
)
_UNEXPECTED = ("failed", "timeout", "harness-error")


@click.command(cls=NetworkOrCommand, options_metavar="[OPTIONS]")
@click.argument(
    "network", required=False, metavar="NETWORK | -- COMMAND", shell_complete=offer_networks
)
@click.option("--kind", type=click.Choice(_KINDS), help="What to do with it [default: inference].")
@click.option(
    "--memory",
    metavar="LIMIT",
    multiple=True,
    help="Limit, as 200M or 75% (of what it needs); may be repeated [default: 85%, 70%, 55% "
    "and 40%].",
)
@click.option(
    "--swap",
    metavar="SWAP",
    help="Swap it may use: none, a size as 2G, zram:1G, or system [default: 2G as root, else "
    "system].",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: named after NETWORK or COMMAND].",
)
@click.pass_context
def init(context: click.Context, /, network: str | None, out: Path | None, **flags: Any) -> None:
    """Write a scenario for NETWORK or COMMAND, with a comment on each key, ready to run.

    An existing file is never overwritten.
    """
    from edgebench.scenario.new_scenario import NEW_LIMITS, NEW_SWAP, NewScenario, scenario_text
    from edgebench.scenario.points import points

    command = context.meta.get("command", ())
    swap = flags["swap"] or (NEW_SWAP if os.geteuid() == 0 else "system")
    _check_words(network, command, flags["kind"])
    kind = "command" if command else flags["kind"] or "inference"
    wanted = NewScenario(kind, network, command, flags["memory"] or NEW_LIMITS, swap)
    file = out or Path(f"{wanted.stem}.toml")
    text, scenario = scenario_text(wanted, file)
    try:
        fd = open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        name = shlex.quote(os.fspath(file))
        remedy = f"name another with --out, or see what it runs: edgebench run {name} --dry-run"
        what = f"{file} exists already and is not overwritten"
        raise UsageError(what, remedy=remedy) from None
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(text.encode())
    except OSError:
        remove_file(file)
        raise
    count = len(points(scenario))
    trials = f"{count} points, {count * scenario.repeats} trials"
    print_headline(f"Wrote {shown_path(file)}: {trials}. Each key has its meaning beside it.")
    print_next(f"edgebench run {typed_path(file)}")


def _check_words(network: str | None, command: tuple[str, ...], kind: str | None) -> None:
    """Check that they name one network, or one command.

    Raises:
        UsageError: neither or both are given, or a kind that doesn't fit.
    """
    if network and command:
        raise UsageError(
            f"both a network ({network}) and a command ({shlex.join(command)}) are given",
            remedy=f"edgebench init {network}, or: edgebench init -- {shlex.join(command)}",
        )
    if not network and not command:
        raise UsageError(
            "nothing to run is given",
            remedy="edgebench init resnet18, or: edgebench init -- python3 train.py",
        )
    if command and kind not in (None, "command"):
        raise UsageError(f"a command is of the kind command, not {kind}", remedy="leave out --kind")
    is_program = (
        network is not None
        and ":" not in network
        and (Path(network).suffix in (".py", ".sh") or find_program(network) is not None)
    )
    if network and (kind == "command" or is_program):
        raise UsageError(
            f"{network} is read as a network", remedy=f"edgebench init -- {shlex.quote(network)}"
        )


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
    from edgebench.scenario.new_scenario import with_storage
    from edgebench.scenario.scenario import load_scenario

    loaded = load_scenario(scenario, plan)
    loaded = with_storage(loaded, storage) if storage else loaded
    if dry_run:
        given = {"storage": storage, "plan": plan}
        flags = "".join(f" --{name} {value}" for name, value in given.items() if value)
        print_dry_run(loaded, f"edgebench run {shlex.quote(scenario)}{flags}", as_json)
        return
    summary = run_shown(loaded, results, verbose, device=device, fresh=fresh)
    print_summary(summary, verbose, as_json)
    refuse_unexpected(summary)


def print_dry_run(scenario: Scenario, command: str, as_json: bool) -> None:
    """Print what the scenario, which ``command`` runs, would run.

    What only this machine lacks is a warning.
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

    loaded = read_newest(summary.folder)
    if as_json:
        (sweep,) = loaded.sweeps
        workloads = sweep_facts(sweep).workloads
        doubts = [doubt for known in workloads for doubt in warnings_of(known, known.name)]
        lines = warning_lines([*doubts, *sweep_warnings(sweep)])
        print_json({**asdict(summary), "warnings": lines})
        return
    took = f"{summary.trials} trials, {format_duration(summary.wall_s)}"
    print_sweep(loaded, verbose=verbose, took=took)
    print_lines([f"results: {shown_path(summary.folder)}"])
    print_next(f"edgebench report {typed_path(summary.folder)}")


def run_shown(
    scenario: Scenario, results: Path, verbose: bool = False, **options: Any
) -> SweepSummary:
    """Run the scenario's sweep while progress is shown; ``options`` are those of a sweep."""
    from edgebench.cli.progress import shown_progress
    from edgebench.run.sweep.sweep import SweepOptions, run_sweep

    with shown_progress(verbose) as progress:
        return run_sweep(scenario, SweepOptions(results, **options), progress)


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
    devices = list(map(_summary, sweeps))
    whole = [device for device in devices if device["state"] == "complete"]
    if as_json:
        print_json({"devices": devices})
    else:
        print_headline(f"{len(whole)} of {len(devices)} sweeps are complete")
        rows = []
        for device in devices:
            outcomes = ", ".join(f"{n} {name}" for name, n in sorted(device["outcomes"].items()))
            trials = f"{device['trials']} of {device['planned']}"
            rows.append([device["device"], trials, outcomes, device["state"]])
        titles = ("device", "trials", "outcomes", "state")
        print_table(Table(titles, rows, ("device", "outcomes", "state")))
        folders = [sweep.sweep.folder.path for sweep in sweeps if sweep.sweep]
        print_lines(f"results: {shown_path(path)}" for path in folders)
    problems = [sweep.problem for sweep in sweeps if sweep.problem]
    if problems and len(problems) == len(sweeps):
        raise problems[0]
    unfinished = [device["device"] for device in devices if device not in whole]
    failing = [device["device"] for device in devices if {*_UNEXPECTED} & {*device["outcomes"]}]
    if unfinished or failing:
        words = f"not complete: {', '.join(unfinished)}" if unfinished else "complete"
        words += f"; trials ended unexpectedly: {', '.join(failing)}" if failing else ""
        again = "".join(f" --host {name}" for name in unfinished)
        remedy = f"correct what stands above; then the same command with{again}"
        raise SweepIncompleteError(words, remedy=remedy if unfinished else None)
    if not as_json:
        each = f"compare --devices {typed_path(results)}"
        print_next(f"edgebench {each if len(devices) > 1 else f'show {typed_path(folders[0])}'}")


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
