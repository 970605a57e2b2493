"""Arguments and options that several verbs share, and what the shell offers for them at Tab."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from edgebench.boards import board_names, find_board
from edgebench.errors import UsageError
from edgebench.scenario.flags import FLAGS, NETWORK_KEYS, PLACE_KEYS
from edgebench.text import format_size, parse_swap, printable

if TYPE_CHECKING:
    from edgebench.results.results import Results

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_RESET = "--reset 'rm -f out.bin'"


def _offer(known: Callable[[], Iterable[str]]) -> _Offer:
    """Return what a shell offers: known names, or a file's where none begins so."""

    def offer(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in known() if name.startswith(incomplete)]
        return items or [CompletionItem(incomplete, type="file")]

    return offer


def _networks() -> Iterable[str]:
    from edgebench.layers.names import NETWORKS

    return NETWORKS


def _scenarios() -> Iterable[str]:
    from edgebench.installation import shipped_names

    return shipped_names()


offer_networks, offer_boards, offer_scenarios = map(_offer, (_networks, board_names, _scenarios))


def _split(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def _described(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> object:
    from edgebench.layers.input_specs import named_inputs

    return named_inputs(texts)


_READ: dict[str, dict[str, Any]] = {
    "memory": {"callback": _split},
    "input": {"callback": _described},
    "board": {"shell_complete": offer_boards},
}


def flag(key: str, **changes: Any) -> Callable[[_Command], _Command]:
    """Return the option of a scenario's key; ``changes``: what the verb has of its own."""
    known = FLAGS[key]
    settings: dict[str, Any] = {"metavar": known.metavar, "type": known.kind, "help": known.help}
    settings |= {"multiple": known.repeated, "default": known.default, **_READ.get(key, {})}
    return click.option(known.option, known.name, **{**settings, **changes})


def read_newest(path: Path) -> Results:
    """Read the newest sweep at or below a path.

    Raises:
        ResultsError: nothing readable there, or made by a newer version.
    """
    # Lazy: help is quick.
    from edgebench.results.results import latest, load

    return load(latest(path))


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
fresh_option = click.option(
    "--fresh", is_flag=True, help="Measure anew: neither show a finished search nor go on with one."
)
#: What a sweep's folder, or a folder of several, is called on the command line.
results_argument = click.argument(
    "results", type=click.Path(path_type=Path), default=Path("results")
)
read_results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    help="Folder of a sweep, of a device's sweeps, or of all devices.",
)
memory_option = flag("memory")


def network_options(command: _Command) -> _Command:
    """Return the command with the options of how a network is run."""
    return _with(map(flag, NETWORK_KEYS), command)


def place_options(command: _Command) -> _Command:
    """Return the command with the options of where a trial runs."""
    return _with(map(flag, PLACE_KEYS), command)


def search_options(command: _Command) -> _Command:
    """Return the command with where a search is kept, which it gets as ``where``."""

    @functools.wraps(command)
    def called(results: Path, device: str | None, fresh: bool, **settings: Any) -> Any:
        from edgebench.run.sweep.sweep import SweepOptions

        return command(where=SweepOptions(results, device, fresh, again=True), **settings)

    return _with((results_option, device_option, fresh_option), cast("_Command", called))


def _with(added: Iterable[Callable[[_Command], _Command]], command: _Command) -> _Command:
    # As decorators one below the other are: the help has the first one first.
    for option in reversed([*added]):
        command = option(command)
    return command


def is_given(context: click.Context, name: str) -> bool:
    """Whether it was typed, and is not the verb's default."""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def with_board(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Add the board's settings where nothing else was given, and say so on stderr.

    Raises:
        UsageError: no such board.
    """
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
