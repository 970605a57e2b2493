"""Arguments and options that several verbs share, and what the shell offers for them at Tab."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from edgebench.boards.board import AS_IS
from edgebench.errors import UsageError
from edgebench.text import printable
from edgebench.units import format_size, parse_swap

#: The newest sweeps are offered; there may be hundreds.
_MOST_SWEEPS = 20

_Command = TypeVar("_Command", bound=Callable[..., Any])
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    help="Folder that holds the results of all devices.",
)
device_option = click.option(
    "--device",
    metavar="NAME",
    help="Name of this device in the results folder [default: its host name and board].",
)
swap_option = click.option(
    "--swap",
    metavar="SWAP",
    default="none",
    help="Swap it may use: none, a size as 2G (a temporary swap file), zram:1G, or system.",
)
storage_option = click.option(
    "--storage",
    metavar="SPEED",
    default=AS_IS,
    help="Speed to hold swap and weights to, as read=90MB/s,read_iops=2000; a kind of storage, as "
    "sd-a1; or as-is. With disk=ram they are on a disk in memory, whatever the machine's own does.",
)
other_storage_option = click.option(
    "--storage",
    metavar="SPEED",
    help="Hold swap and weights to this speed instead of the scenario's, as read=50MB/s; or as-is.",
)
other_plan_option = click.option(
    "--plan",
    metavar="PLAN",
    help="Follow this plan instead of the scenario's: grid (fresh trials at all limits), or walk.",
)


def _split(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


memory_option = click.option(
    "--memory",
    multiple=True,
    metavar="LIMITS",
    callback=_split,
    help="Limits, as 200M,75% (of demand); may be repeated.",
)
schedule_option = click.option(
    "--schedule",
    metavar="NAME",
    help="Order of loading and executing layers [default: bulk; of a file of another engine than "
    "torch, whole].",
)
loader_option = click.option(
    "--loader",
    metavar="NAME",
    help="How weights are loaded: copy or mmap [default: copy; of a .tflite file mmap, as its "
    "model_path does].",
)
batch_option = click.option("--batch", type=int, default=1, help="Images in one input.")
image_option = click.option(
    "--image", type=int, help="Width and height of the input in pixels [default: the network's]."
)
files_option = click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Weights that a program reads: evicted from the page cache before each trial; may be "
    "repeated. Those that its command names are evicted anyway.",
)
reset_option = click.option(
    "--reset", metavar="COMMAND", help="Run this before each trial, to undo what the last changed."
)
fresh_option = click.option(
    "--fresh", is_flag=True, help="Measure anew: neither show a finished search nor go on with one."
)
_OF_SEARCHES = (results_option, device_option, fresh_option)
_RESET = "--reset 'rm -f out.bin'"


def offer_networks(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the known networks, with a file's name where the word begins like a path."""
    from edgebench.layers.names import NETWORKS

    items = [CompletionItem(name) for name in NETWORKS if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def offer_boards(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the boards' names; a file's name where none begins so."""
    from edgebench.boards.board import board_names

    items = [CompletionItem(name) for name in board_names() if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def offer_scenarios(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of shipped scenarios; a file's name where none begins so."""
    from edgebench.shipped_files import shipped_names

    items = [CompletionItem(name) for name in shipped_names() if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def offer_sweeps(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the newest sweeps at or below ``results`` or the folder typed so far, newest first."""
    from edgebench.errors import ResultsError
    from edgebench.results.sweep_reader import sweep_folders

    typed = Path(incomplete)
    below = typed if typed.is_dir() else typed.parent
    try:
        newest = reversed(sweep_folders(Path("results") if below == Path() else below))
    except ResultsError:
        newest = iter(())
    items = [str(path) for path in newest if str(path).startswith(incomplete)]
    if not items:
        return [CompletionItem(incomplete, type="dir")]
    return [CompletionItem(path) for path in items[:_MOST_SWEEPS]]


board_option = click.option(
    "--board",
    metavar="NAME",
    shell_complete=offer_boards,
    help="Board to emulate, as raspberry-pi-4-4g: its memory, cores, storage and swap, but for "
    "those given; see edgebench boards.",
)


def is_given(context: click.Context, name: str) -> bool:
    """Whether it was typed, and is not the verb's default."""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def with_board(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Add the board's settings where nothing else was given, and say so on stderr.

    Raises:
        UsageError: no such board.
    """
    from edgebench.boards.board import find_board

    if given["board"] is None:
        return given
    board = find_board(given["board"])
    many = isinstance(given.get("memory"), tuple)
    known = {
        "memory": (board.memory_label,) if many else board.memory_label,
        "cores": board.cores_here,
        "storage": board.speed.label,
        "swap": board.used_swap,
    }
    emulated = {name: value for name, value in known.items() if name in given}
    kept = [name for name in emulated if is_given(context, name)]
    words = {name: f"{name} {value}" for name, value in known.items()}
    words["memory"] = f"memory {format_size(board.left_bytes)}"
    shown = [words[name] for name in emulated if name not in kept]
    shown += [] if "cores" in emulated else [words["cores"]]
    lines = [f"emulates {board.title} on this machine: {', '.join(shown)}"]
    for name in kept:
        if given[name] is not None:
            text = ", ".join(given[name]) if isinstance(given[name], tuple) else given[name]
            lines.append(f"as given, not the board's: {name} {text}")
    swap = given["swap"] if "swap" in kept else board.used_swap
    lines.append(board.not_emulated(swap, walks=given.get("plan") == "walk"))
    for line in lines:
        click.echo(printable(line), err=True)
    return {**given, **{name: value for name, value in emulated.items() if name not in kept}}


#: What a sweep's folder, or a folder of several, is called on the command line.
results_argument = click.argument(
    "results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    shell_complete=offer_sweeps,
)
read_results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    shell_complete=offer_sweeps,
    help="Folder of a sweep, of a device's sweeps, or of all devices.",
)


def _described(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> object:
    from edgebench.layers.input_specs import named_inputs

    return named_inputs(texts)


input_option = click.option(
    "--input",
    metavar="SPEC",
    multiple=True,
    callback=_described,
    help="What the network takes: 'NAME=int64 1x128 <1000'; repeat for several "
    "[default: as the model says, or one image].",
)


_OF_NETWORKS = (
    schedule_option,
    loader_option,
    batch_option,
    image_option,
    click.option(
        "--prompt", type=click.IntRange(min=1), help="Tokens that a language model is given."
    ),
    click.option(
        "--new-tokens", type=click.IntRange(min=2), help="Tokens of text that it generates."
    ),
    input_option,
)


def network_options(command: _Command) -> _Command:
    """Return the flags of :data:`~edgebench.scenario.flags.NETWORK_KEYS`."""
    return _with(_OF_NETWORKS, command)


def place_options(command: _Command) -> _Command:
    """Where a trial runs: its swap, its storage, the board that is emulated."""
    return _with((swap_option, storage_option, board_option), command)


def search_options(command: _Command) -> _Command:
    """Where a search is kept, and ``--fresh``; the verb gets them as ``where``."""

    @functools.wraps(command)
    def called(results: Path, device: str | None, fresh: bool, **settings: Any) -> Any:
        from edgebench.run.sweep.sweep import SweepOptions

        return command(where=SweepOptions(results, device, fresh, again=True), **settings)

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
        if is_given(context, key):
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


def search_settings(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Return the board's where nothing else was given, one word for no swap, words of a command.

    Raises:
        UsageError: no such board or swap, or no command.
    """
    settings = with_board(context, given)
    if parse_swap(settings["swap"])[0] == "none":
        settings["swap"] = "none"
    reset = settings["reset"]
    try:
        words = tuple(shlex.split(reset or ""))
    except ValueError as error:
        raise UsageError(f"--reset: {error}", remedy=_RESET) from None
    if reset is not None and not words:
        raise UsageError("--reset: no command", remedy=_RESET)
    return {**settings, "reset": words}
