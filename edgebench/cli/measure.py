"""``edgebench measure``: one trial of any command."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgebench.answers.trials import (
    is_warm,
    trial_fields,
    trial_headline,
    trial_warnings,
    warning_lines,
)
from edgebench.cli.options import (
    flag,
    json_option,
    verbose_option,
    with_board,
)
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_json,
    print_next,
    print_warnings,
)
from edgebench.results.limit_to_give import is_stopped, unmeasured
from edgebench.run.trial.process import echo_to
from edgebench.text import parse_duration, parse_size

#: So many files are named.
_MOST = 4


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--memory", metavar="SIZE", default="max", help="Limit, as 300M; max: no limit.")
@flag("swap")
@flag("files")
@flag("storage")
@flag("board")
@click.option("--cores", type=click.IntRange(min=1), help="Number of CPU cores it may use.")
@click.option(
    "--cpu-quota", type=click.FloatRange(min=0.01), help="CPU time it may use, in cores, as 1.5."
)
@flag("timeout", help="Kill it after this time, as 90s or 10m.")
@flag("stop_after")
@click.option(
    "--interval",
    metavar="DURATION",
    help="Sample always at this interval, as 1ms, even while memory doesn't change.",
)
@click.option(
    "--stat-interval",
    metavar="DURATION",
    help="Also read memory.stat under a limit, at this interval, as 10ms; that can prevent kills.",
)
@click.option(
    "--samples",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Store the samples in this .npz file.",
)
@verbose_option("the peaks of other strategies, and how it was sampled")
@json_option("the record")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def measure(
    context: click.Context,
    /,
    samples: Path | None,
    verbose: bool,
    as_json: bool,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run COMMAND once under the limits and measure its memory, swap, time and CPU.

    COMMAND runs in a fresh cgroup; its output goes to stderr, and its input is a file that you give
    with <, else /dev/null. The exit code is 0 if it could be
    measured, even if COMMAND failed or was killed at the limit; its own exit code is printed.
    """
    from edgebench.run.trial.command import asked_limits, measure_command, own_input

    timeout_s, interval_s, stat_interval_s, stop_after_s = (
        parse_duration(given[name]) if given[name] else None
        for name in ("timeout", "interval", "stat_interval", "stop_after")
    )
    placed = with_board(context, given)
    # A share of the demand would take a trial without a limit.
    parse_size(placed["memory"])
    keys = ("memory", "swap", "cores", "cpu_quota", "storage", "board")
    record = measure_command(
        command,
        asked_limits(**{key: placed[key] for key in keys}).setting,
        timeout_s=timeout_s,
        stop_after_s=stop_after_s,
        interval_s=interval_s,
        stat_interval_s=stat_interval_s,
        samples=samples,
        files=given["files"],
        stdin=own_input(["measure", *_limit_flags(given)], command),
        echo=echo_to(sys.stderr),
    )
    if samples:
        click.echo(f"samples: {samples}", err=True)
    if as_json:
        print_json(record.to_json())
        return
    open_questions = unmeasured([record])
    print_headline(trial_headline(record))
    print_fields(trial_fields(record, verbose=verbose))
    lines = warning_lines(trial_warnings(record, open_questions))
    print_warnings(lines, None if verbose else "--verbose")
    files = record.files
    if files and is_warm(record) and 2 * files.kept_bytes <= (files.warm_bytes or 0):
        flags = [*_limit_flags(given), *(f"--file={path}" for path in files.paths[:_MOST])]
        print_next(f"edgebench measure {shlex.join([*flags, '--', *command])}")
    elif record.limit_bytes is None and record.peak_bytes:
        verb = "minimum"
        if open_questions.growth:
            verb = "measure --for 10m"
        elif open_questions.processes:
            verb = "measure --for 20s"
        elif is_stopped(record):
            verb = f"minimum --for {math.ceil(record.wall_s or 1)}s"
        print_next(f"edgebench {verb} -- {shlex.join(command)}")


def _limit_flags(given: Mapping[str, Any]) -> list[str]:
    """Return what it was called with of memory and swap."""
    usual = {"memory": "max", "swap": "none", "board": None}
    return [f"--{name}={given[name]}" for name, value in usual.items() if given[name] != value]
