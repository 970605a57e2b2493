"""What the shell offers at Tab, beside verbs and flags: networks, scenarios and kept sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import click

#: The newest sweeps are offered; there may be hundreds.
_MOST_SWEEPS = 20


def offer_networks(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The known networks, with a file's name where the word begins like a path."""
    from edgebench.layers.names import NETWORKS

    found = [CompletionItem(name) for name in NETWORKS if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def offer_boards(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The boards' names; a file's name where none begins so."""
    from edgebench.boards.board import board_names

    found = [CompletionItem(name) for name in board_names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def offer_scenarios(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of shipped scenarios; a file's name where none begins so."""
    from edgebench.scenario.shipped import shipped_names

    found = [CompletionItem(name) for name in shipped_names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def offer_sweeps(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest sweeps at or below ``results`` or the folder typed so far, newest first."""
    from edgebench.errors import ResultsError
    from edgebench.results.sweep_reader import sweep_folders

    typed = Path(incomplete)
    below = typed if typed.is_dir() else typed.parent
    try:
        newest = reversed(sweep_folders(Path("results") if below == Path() else below))
    except ResultsError:
        newest = iter(())
    found = [str(path) for path in newest if str(path).startswith(incomplete)]
    if not found:
        return [CompletionItem(incomplete, type="dir")]
    return [CompletionItem(path) for path in found[:_MOST_SWEEPS]]
