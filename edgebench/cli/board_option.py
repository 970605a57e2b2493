"""``--board`` of the verbs that measure: what it sets, what was given besides, and both said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgebench.cli.completion import offer_boards
from edgebench.text import printable
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.boards.board import Board

board_option = click.option(
    "--board",
    metavar="NAME",
    shell_complete=offer_boards,
    help="Board to emulate, as raspberry-pi-4-4g: its memory, cores, storage and swap, but for "
    "those given; see edgebench boards.",
)


def with_board(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a verb with the board's where nothing else was given; says it on stderr.

    Raises:
        UsageError: no such board.
    """
    from edgebench.boards.board import find_board

    if given["board"] is None:
        return given
    board = find_board(given["board"])
    own = _settings(board, given)
    unset = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    kept = [name for name in own if context.get_parameter_source(name) not in unset]
    # Whoever asks for a batch's least memory gives no limit.
    kept += ["memory"] if given.get("size") is not None else []
    for line in _sentences(board, given, own, kept):
        click.echo(printable(line), err=True)
    return {**given, **{name: value for name, value in own.items() if name not in kept}}


def _settings(board: Board, given: dict[str, Any]) -> dict[str, Any]:
    """What the board sets, of what the verb has."""
    many = isinstance(given.get("memory"), tuple)
    own = {
        "memory": (board.memory_label,) if many else board.memory_label,
        "cores": board.cores_here,
        "storage": board.speed.label,
        "swap": board.used_swap,
    }
    return {name: value for name, value in own.items() if name in given}


def _sentences(
    board: Board, given: dict[str, Any], own: dict[str, Any], kept: list[str]
) -> Iterator[str]:
    """What is emulated, what was given instead, and what is not emulated."""
    words = [f"{_WORDS[name].format(own[name])}" for name in own if name not in kept]
    if "memory" in own and "memory" not in kept:
        words[0] = f"memory {format_size(board.left_bytes)}"
    words += [] if "cores" in own else [f"cores {board.cores_here}"]
    yield f"emulates {board.title} on this machine: {', '.join(words)}"
    for name in kept:
        if name in given and given[name] is not None:
            yield f"as given, not the board's: {name} {_text(given[name])}"
    yield board.not_emulated(given["swap"] if "swap" in kept else board.used_swap)


_WORDS = {"memory": "memory {}", "cores": "cores {}", "storage": "storage {}", "swap": "swap {}"}


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
