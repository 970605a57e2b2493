"""The command line: a verb's module is imported only when the verb is used."""

from __future__ import annotations

import errno
import gc
import io
import math
import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from edgebench.cli.verbs import GROUPS, VERBS, load_verb
from edgebench.errors import EdgebenchError, MachineError
from edgebench.installation import leave_tool_path, missing_library_error
from edgebench.processes import secure_environment
from edgebench.text import did_you_mean, printable
from edgebench.version import __version__

#: What the program prints when it is started without a verb.
_FIRST_STEPS = """\
edgebench runs a program or a neural network under real memory limits and
measures how much slower it gets.

  How little memory does my program need?
      edgebench minimum -- python3 train.py
  How slow is a network when memory is short, and which layer is the cause?
      edgebench layers resnet18 --memory 60% --swap 2G
  Does it fit, and what would more memory save?
      edgebench init resnet18 && edgebench run resnet18.toml

All verbs: edgebench --help. Is this machine ready? edgebench doctor"""
#: So many objects are made between two garbage collections.
_OBJECTS = 20_000
#: Signals that follow each other sooner come from one event.
_ONE_EVENT_S = 2.0
#: What to do about failures of the system that nothing foresaw.
_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENOENT: "was it removed or moved meanwhile? type the same command again",
}
#: The help's last lines: click makes the completion, the shell has to load it.
_COMPLETION = """\
Completion by Tab, for this shell or in its start file:

\b
  bash  eval "$(_EDGEBENCH_COMPLETE=bash_source edgebench)"
  zsh   eval "$(_EDGEBENCH_COMPLETE=zsh_source edgebench)"
  fish  _EDGEBENCH_COMPLETE=fish_source edgebench | source"""


class _LazyGroup(click.Group):
    """A group of verbs whose help imports none of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return load_verb(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a verb, with its line in the help, or a flag of the program itself."""
        # Not the group's own, which imports the module of each verb.
        flags = click.Command.shell_complete(self, ctx, incomplete)
        verbs = [CompletionItem(v, help=line) for v, line in VERBS.items()]
        return flags + [verb for verb in verbs if verb.value.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{verb:<{widest}}", line) for verb, line in verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            guess = did_you_mean(args[0], VERBS)
            hint = f"Did you mean {guess!r}?" if guess else "See 'edgebench --help'."
            raise click.UsageError(f"No such verb {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    epilog=_COMPLETION,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="edgebench")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run a neural network under real memory limits and measure how much slower it gets.

    Does it fit? How slow will it be? Which layers are the cause? What would more memory save?
    """
    if isinstance(context.obj, _Signals):
        # The verb's module is imported, and the verb is about to run.
        context.obj.begin()
    if context.invoked_subcommand is None:
        from edgebench.cli.output import as_typed

        click.echo(as_typed(_FIRST_STEPS))


class _Interrupt(KeyboardInterrupt):
    """A signal was received.

    After a plain KeyboardInterrupt in an ``exec``, by which dataclasses are made, ``python -m``
    ends itself by SIGINT, whatever the exit code is.
    """


class _Signals:
    """Signals that end the program: the verb is interrupted and cleans up.

    One event can send several (a closed terminal, ``timeout``, a logout): those that follow within
    a moment don't interrupt the clean-up. What was ignored from the start, as under ``nohup``,
    stays ignored.
    """

    def __init__(self) -> None:
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        found = {number: signal.getsignal(number) for number in ends}
        self._before = {number: found[number] for number in ends if found[number] != signal.SIG_IGN}
        self._last_s = -math.inf
        #: The first one that was received.
        self.received: int | None = None

    def begin(self) -> None:
        """From now on they interrupt."""
        for number in self._before:
            signal.signal(number, self._interrupt)

    def end(self) -> None:
        """Nothing is left to clean up: they do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        self.received = self.received or signum
        before_s, self._last_s = self._last_s, time.monotonic()
        if self._last_s - before_s > _ONE_EVENT_S:
            raise _Interrupt


def main() -> NoReturn:
    """Run the program ``edgebench``: call the verb, print its error, exit with its code."""
    # Libraries that a verb imports make hundreds of thousands of objects, none of them garbage.
    gc.set_threshold(_OBJECTS)
    signals = _Signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks is escaped: no answer is lost over a character.
            stream.reconfigure(errors="backslashreplace")
    try:
        leave_tool_path()
        secure_environment()
        code = _print_errors(signals)
        if code and signals.received:
            # The error is what the signal led to.
            code = 128 + signals.received
    except BaseException:
        # Of an interrupted import or a closed terminal come errors of all kinds.
        if signals.received is None:
            raise
        code = _interrupted(signals)
    signals.end()
    # Where an interrupt ended a text that exec ran, as dataclasses do, ``python -m`` would exit as
    # killed by SIGINT. Python forgets that when it runs the next text.
    eval("0")  # noqa: S307
    sys.exit(code)


def _print_errors(signals: _Signals) -> int:
    try:
        cli.main(prog_name="edgebench", standalone_mode=False, obj=signals)
    except EdgebenchError as error:
        return _print_error(error)
    except ModuleNotFoundError as error:
        if (lacking := missing_library_error(error)) is None:
            raise
        return _print_error(lacking)
    except OSError as error:
        if signals.received:
            raise
        if isinstance(error, BrokenPipeError):
            # Its reader has ended, as `| head` does: further output goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        # A failure that nothing foresaw, as a full disk or a lost permission.
        remedy = _REMEDIES.get(error.errno or 0, "edgebench doctor")
        where = str(error.filename) if error.filename else None
        what = str(error.strerror or error)
        return _print_error(MachineError(what, where=where, remedy=remedy))
    except click.ClickException as error:
        # It may hold a word of a file's making, such as a name that the shell completed.
        words = io.StringIO()
        error.show(words)
        click.echo(printable(words.getvalue()), err=True, nl=False)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(signals)
    return 0


def _print_error(error: EdgebenchError) -> int:
    from edgebench.cli.output import print_message

    print_message(f"edgebench: {error}")
    return error.exit_code


def _interrupted(signals: _Signals) -> int:
    """Print that it stopped; the exit code says by which signal."""
    try:
        click.echo("edgebench: interrupted; all finished trials are kept", err=True)
        sys.stdout.flush()
    except OSError:
        # The terminal is closed: what Python itself would still print goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.dup2(nowhere, sys.stderr.fileno())
    signals.received = signals.received or signal.SIGINT
    return 128 + signals.received
