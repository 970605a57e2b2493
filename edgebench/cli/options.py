"""Arguments and options that several verbs share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from edgebench.cli.board_option import board_option
from edgebench.cli.completion import offer_sweeps
from edgebench.errors import UsageError
from edgebench.storage_speed import AS_IS

_Command = TypeVar("_Command", bound=Callable[..., Any])
#: What a sweep's folder, or a folder of several, is called on the command line.
results_argument = click.argument(
    "results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    shell_complete=offer_sweeps,
)
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    help="Folder that holds the results of all devices.",
)
device_option = click.option(
    "--device", help="Name of this device in the results folder [default: its host name and board]."
)
swap_option = click.option(
    "--swap",
    default="none",
    help="Swap it may use: none, a size as 2G (a temporary swap file), zram:1G, or system.",
)
storage_option = click.option(
    "--storage",
    default=AS_IS,
    help="Speed to hold swap and weights to, as read=90MB/s,read_iops=2000; a kind of storage, as "
    "sd-a1; or as-is. With disk=ram they are on a disk in memory, whatever the machine's own does.",
)
other_storage_option = click.option(
    "--storage",
    help="Hold swap and weights to this speed instead of the scenario's, as read=50MB/s; or as-is.",
)
other_plan_option = click.option(
    "--plan",
    metavar="PLAN",
    help="Follow this plan instead of the scenario's: grid (fresh trials at all limits), or walk.",
)
memory_option = click.option(
    "--memory", multiple=True, help="Limit, as 200M or 75% (of demand); may be repeated."
)
schedule_option = click.option(
    "--schedule", default="bulk", help="Order of loading and executing layers."
)
loader_option = click.option(
    "--loader", default="copy", help="How weights are loaded: copy or mmap."
)
batch_option = click.option("--batch", type=int, default=1, help="Images in one input.")
image_option = click.option(
    "--image", type=int, help="Width and height of the input in pixels [default: the network's]."
)


def _described(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> object:
    from edgebench.layers.input_specs import named_inputs

    return named_inputs(texts)


input_option = click.option(
    "--input",
    multiple=True,
    callback=_described,
    help="What the network takes: 'NAME=int64 1x128 <1000'; repeat for several "
    "[default: as the model says, or one image].",
)


files_option = click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Weights that a program reads: evicted from the page cache before each trial.",
)
reset_option = click.option(
    "--reset", metavar="COMMAND", help="Run this before each trial, to undo what the last changed."
)
#: What sets how a network is run, where a verb takes programs too.
NETWORK_KEYS = ("schedule", "loader", "batch", "image", "prompt", "new_tokens", "input")
_OF_NETWORKS = (
    click.option(
        "--schedule",
        help="Order of loading and executing layers [default: bulk; of a file of another engine "
        "than torch, whole].",
    ),
    loader_option,
    batch_option,
    image_option,
    click.option(
        "--prompt", type=click.IntRange(min=1), help="Tokens that a language model is given."
    ),
    click.option(
        "--new-tokens", type=click.IntRange(min=2), help="Have it generate so many tokens of text."
    ),
    input_option,
)
_OF_SEARCHES = (
    results_option,
    device_option,
    click.option(
        "--fresh", is_flag=True, help="Start a new search even if an unfinished one exists."
    ),
)


def network_options(command: _Command) -> _Command:
    """The flags of :data:`NETWORK_KEYS`."""
    return _with(_OF_NETWORKS, command)


def place_options(command: _Command) -> _Command:
    """Where a trial runs: its swap, its storage, the board that is emulated."""
    return _with((swap_option, storage_option, board_option), command)


def search_options(command: _Command) -> _Command:
    """Where a search is kept, and ``--fresh``; the verb gets them as ``where``."""

    @functools.wraps(command)
    def called(results: Path, device: str | None, fresh: bool, **settings: Any) -> Any:
        from edgebench.run.sweep import SweepOptions

        return command(where=SweepOptions(results, device, fresh), **settings)

    return _with(_OF_SEARCHES, cast("_Command", called))


def _with(added: Sequence[Callable[[_Command], _Command]], command: _Command) -> _Command:
    # As decorators one below the other are: the help has the first one first.
    for option in reversed(added):
        command = option(command)
    return command


def refuse_given(context: click.Context, keys: Iterable[str], where: str, hint: str = "") -> None:
    """Refuse flags that mean nothing of what the verb was given.

    Args:
        context: of the verb.
        keys: the names of their parameters.
        where: what they are for, as ``networks``.
        hint: the end of the message.

    Raises:
        UsageError: one of them was typed.
    """
    flags = {param.name: param.opts[0] for param in context.command.params}
    for key in keys:
        if context.get_parameter_source(key) != ParameterSource.DEFAULT:
            raise UsageError(f"{flags[key]} is for {where} only{hint}")


def json_option(what: str) -> Callable[[Any], Any]:
    """``--json``: print something as JSON instead of a table."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON on stdout.")


def verbose_option(what: str) -> Callable[[Any], Any]:
    """``--verbose``: print more than what most readers need."""
    return click.option("-v", "--verbose", is_flag=True, help=f"Also print {what}.")


class NetworkOrCommand(click.Command):
    """What follows ``--`` is a command, kept as ``meta["command"]``: none of it is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Only what comes before it."""
        if "--" in args:
            place = args.index("--")
            ctx.meta["command"] = tuple(args[place + 1 :])
            args = args[:place]
        ctx.meta["words"] = list(args)
        return super().parse_args(ctx, args)
