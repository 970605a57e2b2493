"""The command line: one module a verb, loaded only when it is asked for."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from edgebench import __version__
from edgebench.errors import EdgebenchError, MachineError
from edgebench.printable import printable

#: Verb → what its module's command says of itself in one line (read without importing it).
VERBS = {
    "doctor": "Is this machine fit to measure on? What to do if not.",
    "calibrate": "Measure what this device's memory and disks cost, in two minutes.",
    "check": "Validate a scenario and say what it would run.",
    "run": "Run a scenario's sweep, or resume one that was interrupted.",
    "serve": "See it live in a browser: start, watch and compare sweeps.",
    "watch": "See it live in the terminal: progress, memory, layers as they pass.",
    "measure": "Run one command once under limits and measure it.",
    "layers": "Which layer is to blame? Measure a network layer by layer.",
    "show": "Show a sweep's results as a table.",
    "plot": "Draw a sweep's figures.",
    "study": "Show what a study's sweep came to.",
    "data": "Which data sets are there? Fetch one.",
    "reconcile": "Explain the gaps between what each strategy says of memory.",
    "fit": "Fit slowdown against limit, per network and phase.",
    "validate": "Hold every model against limits and networks it was not shown.",
    "predict": "Predict time, slowdown and viability at any limit.",
    "batch": "Find the largest batch that trains below a limit.",
    "minimum": "Find the least memory a network needs, by few real trials.",
    "report": "Tell a sweep in one file that stands alone.",
    "compare": "Compare two sweeps; exit 4 on a regression.",
    "export": "Write a sweep's frames as CSV, Parquet or JSON.",
}


class _LazyGroup(click.Group):
    """A group whose help needs no verb's module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"edgebench.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs, in the order you meet them"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from edgebench.suggest import did_you_mean

            guess = did_you_mean(args[0], VERBS)
            hint = f"Did you mean {guess!r}?" if guess else "See 'edgebench --help'."
            raise click.UsageError(f"No such verb {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="edgebench")
def cli() -> None:
    """Run a neural network under real memory limits and see what it costs.

    Does it fit, how slow will it be, which layer is to blame, what would more memory buy?
    Start with 'edgebench doctor', then 'edgebench run scenarios/quickstart.toml'.
    """


class _Terminated(KeyboardInterrupt):
    """SIGTERM came: stop as for Ctrl-C, but with its own exit code."""


def _on_sigterm(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def main() -> NoReturn:
    """The program ``edgebench``: run the verb, word its errors, exit with its code."""
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
        code = _run_verb()
        # Nothing is left to be finished: from here on it may end the process as it is.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except KeyboardInterrupt as stop:
        code = _interrupted(stop)
    sys.exit(code)


def _run_verb() -> int:
    try:
        cli.main(prog_name="edgebench", standalone_mode=False)
    except EdgebenchError as error:
        click.echo(f"edgebench: {printable(str(error))}", err=True)
        return error.exit_code
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _nobody_reads()
        click.echo(f"edgebench: {printable(str(_worded(error)))}", err=True)
        return MachineError.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as stop:
        return _interrupted(stop)
    return 0


def _interrupted(stop: BaseException) -> int:
    """Say so; the exit code of Ctrl-C or of SIGTERM, whichever it was."""
    click.echo("edgebench: interrupted; everything finished is kept", err=True)
    terminated = isinstance(stop, _Terminated) or isinstance(stop.__cause__, _Terminated)
    return 143 if terminated else 130


def _nobody_reads() -> int:
    """The reader of our output went away (as `| head` does): nothing more to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _worded(error: OSError) -> MachineError:
    """What the machine refused us where nobody foresaw it: a full disk, a lost right."""
    remedy = "free some space" if error.errno == errno.ENOSPC else "edgebench doctor"
    where = str(error.filename) if error.filename else None
    return MachineError(str(error.strerror or error), where=where, remedy=remedy)
