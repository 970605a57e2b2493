"""``edgebench advise``: remedies tried for real under a memory limit, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.limits import advice_headline, advice_table
from edgebench.answers.trials import board_line, unmeasured_warnings, warning_lines
from edgebench.cli import options
from edgebench.cli.options import offer_networks, search_settings
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS
from edgebench.text import parse_duration

if TYPE_CHECKING:
    from edgebench.run.advise.advice import Advice
    from edgebench.run.sweep.sweep import SweepOptions

#: What only a network has, and only a program.
_OF_NETWORKS, _OF_PROGRAMS = (*NETWORK_KEYS, "warm"), ("files", "reset")


@click.command(cls=options.NetworkOrCommand, options_metavar="[OPTIONS]")
@click.argument(
    "subject", nargs=-1, metavar="NETWORK | SCENARIO | -- COMMAND", shell_complete=offer_networks
)
@click.option("--memory", metavar="SIZE", help="The limit, as 250M [default: the scenario's].")
@options.place_options
@click.option("--budget", metavar="DURATION", default="5m", help="Time for all of it.")
@click.option("--lossy", is_flag=True, help="Also try what changes results, as a smaller batch.")
@options.flag("timeout", default="2m")
@options.flag("files")
@options.flag("reset")
@options.network_options
@click.option(
    "--warm",
    type=click.IntRange(min=0),
    default=0,
    help="Executions after the first, each time that a network is loaded. With them, remedies "
    "that keep weights in memory can help.",
)
@options.search_options
@options.verbose_option("what the remedy does and costs, what was not tried, and why")
@options.json_option("the result")
@click.pass_context
def advise(
    context: click.Context,
    /,
    subject: tuple[str, ...],
    where: SweepOptions,
    verbose: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find what makes a NETWORK, a SCENARIO or a program faster under a memory limit.

    Remedies (settings of the allocator, threads, loaders, schedules, ways to train) are tried one
    by one under the same limit, each beside the plain workload. The best two are measured again,
    and what to type is printed. Nothing is tried where the limit costs nothing.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.run.advise.advice import advised_scenario, find_advice
    from edgebench.run.trial.command import own_input

    command: tuple[str, ...] = context.meta.get("command") or ()
    if len(subject) + bool(command) != 1:
        example = "edgebench advise --memory 250M -- python3 train.py"
        raise UsageError("name one network or scenario, or a program after --", remedy=example)
    is_file = not command and subject[0].endswith(".toml")
    asked = {"network": None, "command": command, "scenario": None, "stdin": None, **settings}
    if is_file:
        of_others = (*_OF_NETWORKS, *_OF_PROGRAMS, *PLACE_KEYS, "timeout")
        where_else = "networks and programs"
        options.refuse_given(context, of_others, where_else, "; the scenario says it")
        asked["scenario"] = subject[0]
    elif command:
        options.refuse_given(context, _OF_NETWORKS, "networks")
        asked |= search_settings(context, settings)
        asked["stdin"] = own_input(["advise", *context.meta["words"]], command)
    else:
        options.refuse_given(context, _OF_PROGRAMS, "programs (after --)")
        asked |= {**search_settings(context, settings), "network": subject[0]}
    scenario = advised_scenario(command or subject[0], asked["memory"], asked)
    budget_s, lossy = parse_duration(asked["budget"]), asked["lossy"]
    with shown_progress(verbose) as progress:
        try:
            advice = find_advice(scenario, where, progress, budget_s=budget_s, lossy=lossy)
        except KeyboardInterrupt:
            progress.report("the same command continues this search (--fresh: a new one)")
            raise
    if as_json:
        print_json({"asked": asked, **advice.to_json()})
    else:
        print_advice(advice, asked["board"], verbose=verbose)


def print_advice(advice: Advice, board: str | None, *, verbose: bool) -> None:
    """Print what was tried, and what to type; with ``verbose`` what was not tried, and why."""
    print_headline(advice_headline(advice))
    if advice.tried:
        print_table(advice_table(advice))
    finished = advice.limit_bytes if advice.plain_end == "ok" else None
    fits = board_line(board, advice.needed_bytes, finished, advice.library_bytes)
    print_lines(filter(None, [fits]))
    best = advice.best if advice.best and advice.best.confirmed else None
    if best and verbose:
        print_lines([f"{best.title}; cost: {best.costs}"])
    if advice.out_of_time:
        print_lines([f"not tried for lack of time: {', '.join(advice.out_of_time)} (--budget)"])
    if verbose and advice.pressed:
        print_lines(f"not tried: {remedy.name}: {remedy.reason}" for remedy in advice.untried)
    print_lines([f"results: {shown_path(advice.folder)}"])
    print_warnings(warning_lines(unmeasured_warnings(advice.unmeasured)))
    print_next(f"edgebench show {typed_path(advice.folder)}")
