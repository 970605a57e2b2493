"""The flags that searches share, as their requests have them."""

from __future__ import annotations

import shlex
from typing import Any

import click

from edgebench.cli.board_option import with_board
from edgebench.errors import UsageError
from edgebench.units import parse_swap

_RESET = "--reset 'rm -f out.bin'"


def search_settings(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """With the board's where nothing else was given, one word for no swap, and words of a command.

    Raises:
        UsageError: no such board or swap, or no command.
    """
    settings = with_board(context, given)
    if parse_swap(settings["swap"])[0] == "none":
        settings["swap"] = "none"
    return {**settings, "reset": _words(settings["reset"])}


def _words(reset: str | None) -> tuple[str, ...]:
    if reset is None:
        return ()
    try:
        words = tuple(shlex.split(reset))
    except ValueError as error:
        raise UsageError(f"--reset: {error}", remedy=_RESET) from None
    if not words:
        raise UsageError("--reset: no command", remedy=_RESET)
    return words
