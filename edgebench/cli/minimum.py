"""Searches below limits: ``minimum``, the least memory; ``advise``, what makes it faster there."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.limits import advice_headline, advice_table, paste_lines
from edgebench.answers.table import seconds
from edgebench.answers.trials import board_line, unmeasured_warnings, warning_lines
from edgebench.cli import options
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
from edgebench.cli.show import print_answer, print_doubts
from edgebench.errors import EdgebenchError, MachineError, MemoryBudgetError, UsageError
from edgebench.layers.names import NETWORKS
from edgebench.layers.references import is_model_file
from edgebench.processes import find_program
from edgebench.results.times import SLIGHT
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS
from edgebench.text import AS_IS, format_duration, parse_duration

if TYPE_CHECKING:
    from edgebench.cli.progress import LineProgress
    from edgebench.records import TrialRecord
    from edgebench.run.advise.advice import Advice
    from edgebench.run.search.minimum import Minimum
    from edgebench.run.sweep.sweep import SweepOptions

#: A search that may take longer says so after its first trial.
_LONG_S = 60.0
#: What only a network has, and only a program.
_OF_NETWORKS, _OF_PROGRAMS = (*NETWORK_KEYS, "warm"), ("files", "reset")


class NetworkOrProgram(options.NetworkOrCommand):
    """Says where ``--`` was forgotten before a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            words = ctx.meta["words"]
            program = next((n for n, word in enumerate(words) if find_program(word)), None)
            if "command" in ctx.meta or program is None:
                raise
            what = f"{error.option_name} is no option of edgebench minimum"
            raise UsageError(what, remedy=with_dashes(tuple(words[program:]))) from None


@click.command(cls=NetworkOrProgram, options_metavar="[OPTIONS]")
@click.argument(
    "network", nargs=-1, metavar="NETWORK | -- COMMAND", shell_complete=options.offer_networks
)
@click.option(
    "--slowdown",
    type=click.FloatRange(min=1.01),
    help="Give the least limit with at most this slowdown, as 1.5 [default: 1.1].",
)
@click.option(
    "--throughput",
    type=click.FloatRange(min=0, min_open=True),
    help="Give the least limit at which a program prints at least X lines per second.",
)
@options.flag("throughput_pattern")
@options.flag("files")
@options.flag("stop_after")
@options.place_options
@click.option(
    "--within", metavar="SIZE", help="Only try this limit; exit code 4 if it needs more, for CI."
)
@options.flag("reset")
@click.option(
    "--budget", metavar="DURATION", help="Stop searching after this time [default: about 1m]."
)
@options.flag(
    "timeout",
    help="Time limit of a trial [default: 2m; at a limit, about 3 times a program's unlimited "
    "time].",
)
@click.option(
    "--confirm",
    type=click.IntRange(min=0),
    help="How many more trials the given limit must finish [default: 3; 1 once the "
    "search has taken 12 s].",
)
@click.option(
    "--killed",
    is_flag=True,
    help="Also find where it is killed, even if swap can hold all that it needs.",
)
@options.network_options
@options.search_options
@click.option("--verbose", is_flag=True, help="Also print all limits, peaks, and lines to paste.")
@options.json_option("the result")
@click.pass_context
def minimum(
    context: click.Context,
    /,
    network: tuple[str, ...],
    where: SweepOptions,
    verbose: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the least memory that a program or NETWORK needs, and where it gets slow.

    COMMAND is any program: it is run about ten times, each time at another memory limit, and
    that is stored as a sweep. It ends with a limit that is enough and one that is not, at most 5 %
    apart. Its input is a file that you give with <, opened anew for each trial, else /dev/null.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.run.search.minimum import PROGRAM_ONLY, find_minimum, read_minimum, search_of
    from edgebench.run.trial.command import own_input

    words, command = context.meta["words"], context.meta.get("command")
    is_program = len(network) == 1 and network[0] not in NETWORKS and find_program(network[0])
    if command is None and (len(network) > 1 or (is_program and not is_model_file(network[0]))):
        raise UsageError(f"{' '.join(network)!r} is not one network", remedy=with_dashes(network))
    if (command is not None and network) or not (command or network):
        remedy = "edgebench minimum -- python3 train.py"
        raise UsageError("name a network, or a program after --", remedy=remedy)
    settings = options.search_settings(context, settings)
    refused = NETWORK_KEYS if command else PROGRAM_ONLY
    options.refuse_given(context, refused, "networks" if command else "programs (after --)")
    asked = {key: value for key, value in settings.items() if key not in refused}
    if command:
        asked |= {"reset": asked["reset"] or None, "stdin": own_input(["minimum", *words], command)}
    search = search_of(command or network[0], asked)
    with contextlib.ExitStack() as stack:
        shown = stack.enter_context(shown_progress(verbose))
        progress = _SearchProgress(shown, search.asked)
        try:
            answer = find_minimum(search, where, progress)
        except (KeyboardInterrupt, MachineError):
            # Also where only the clean-up failed: what was measured is printed first.
            stack.close()
            if progress.folder:
                with contextlib.suppress(EdgebenchError):
                    known = read_minimum(search, progress.folder)
                    print_minimum(known, search.asked, words, verbose=verbose)
                again = "the same command continues this search (--fresh: a new one)"
                click.echo(again, err=True)
            raise
    if as_json:
        print_json({"asked": search.asked, **answer.to_json()})
    else:
        print_minimum(answer, search.asked, words, verbose=verbose)
    within = search.asked["within"]
    if answer.fits is False:
        raise MemoryBudgetError(f"it needs more than {within}")
    if within and answer.fits is None:
        raise MemoryBudgetError(f"whether it fits in {within} can't be told")


class _SearchProgress:
    """Shows a search's progress, and remembers where trials are kept.

    Where the first trial takes so long that the search does too, it says so.
    """

    def __init__(self, shown: LineProgress, asked: Mapping[str, Any]) -> None:
        self.folder: Path | None = None
        self._shown, self._asked, self._is_first = shown, asked, True
        self.stage, self.trial, self.moved = shown.stage, shown.trial, shown.moved
        self.planned = shown.planned

    def finished(self, record: TrialRecord) -> None:
        """Show that a trial is recorded; after a long first one, how long the search may take."""
        from edgebench.run.search.search import MOST_NETWORK_TRIALS, usual_budget_s

        self._shown.finished(record)
        is_first, self._is_first = self._is_first, False
        is_bounded = self._asked["within"] or self._asked.get("budget")
        if not is_first or is_bounded or record.outcome != "ok":
            return
        took_s = record.wall_s or 0.0
        most_s, sooner = MOST_NETWORK_TRIALS * took_s, ""
        if "command" in self._asked:
            most_s, sooner = usual_budget_s(took_s), " (--budget 1m: a wider answer sooner)"
        if most_s > _LONG_S:
            took, most = format_duration(took_s), format_duration(most_s)
            self._shown.report(f"one run takes {took}, so the search may take up to {most}{sooner}")

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Begin the trials, which go into this folder."""
        self.folder = folder
        # A search: the first trials tell how many follow.
        self._shown.planned(total)
        self._shown.begin(folder, total, done)


def with_dashes(words: tuple[str, ...]) -> str:
    """Return the remedy where ``--`` was forgotten before a program."""
    return f"to measure a program: edgebench minimum -- {shlex.join(words)}"


def print_minimum(
    found: Minimum, asked: Mapping[str, Any], flags: Sequence[str], *, verbose: bool
) -> None:
    """Print the answer, and what to type next. ``flags`` are those that it was called with."""
    took = f"{found.trials} trial{'s' * (found.trials != 1)}, {seconds(found.total_s)}"
    print_answer(found.answer, took, verbose=verbose)
    lines = paste_lines(found.answer)
    if verbose:
        print_lines([*lines.values(), f"results: {shown_path(found.folder)}"])
    print_doubts([found.workload], {}, verbose=verbose)
    if following := _next(found, asked, flags):
        print_next(following)
    elif lines and not verbose:
        click.echo(f"paste: {lines['docker']}     (more: --verbose)", err=True)


def _next(found: Minimum, asked: Mapping[str, Any], flags: Sequence[str]) -> str | None:
    """Return what to type for a better answer, or against a slowdown; None: paste the answer."""
    answer, again = found.answer, f"edgebench minimum {shlex.join(flags)}{' ' * bool(flags)}"
    if "command" not in asked:
        limit = f" --memory {_written(answer.give_bytes)}" if answer.give_bytes else ""
        return f"edgebench layers {shlex.quote(asked['network'])}{limit} --swap {asked['swap']}"
    unmeasured, program = found.workload.unmeasured, f"-- {found.name}"
    if asked["stdin"]:
        program += f" < {shlex.quote(asked['stdin'])}"
    if unmeasured.growth:
        return f"edgebench measure --for 10m {program}"
    if unmeasured.processes and not asked["stop_after"]:
        return f"{again}--for 20s {program}"
    if not found.finished:
        return f"{again}--budget 5m {program}"
    slow = [row for row in answer.rows if row.limit_bytes and row.all_finished and row.slower]
    if not asked["within"] and slow and slow[-1].slower and slow[-1].slower.median > SLIGHT:
        words = ["--memory", _written(slow[-1].limit_bytes), "--swap", asked["swap"]]
        words += ["--storage", asked["storage"]] if asked["storage"] != AS_IS else []
        words += [word for file in asked["files"] for word in ("--file", file)]
        words += ["--reset", shlex.join(asked["reset"])] if asked["reset"] else []
        return f"edgebench advise {shlex.join(words)} {program}"
    return None


def _written(size_bytes: int | None) -> str:
    return f"{-(-(size_bytes or 0) // (1 << 20))}M"


@click.command(cls=options.NetworkOrCommand, options_metavar="[OPTIONS]")
@click.argument(
    "subject",
    nargs=-1,
    metavar="NETWORK | SCENARIO | -- COMMAND",
    shell_complete=options.offer_networks,
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
        asked |= options.search_settings(context, settings)
        asked["stdin"] = own_input(["advise", *context.meta["words"]], command)
    else:
        options.refuse_given(context, _OF_PROGRAMS, "programs (after --)")
        asked |= {**options.search_settings(context, settings), "network": subject[0]}
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
