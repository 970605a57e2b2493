"""``edgebench boards``: the boards and storage that can be emulated, with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.table import Table, headline
from edgebench.cli.options import json_option, offer_boards
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
)
from edgebench.errors import UsageError
from edgebench.text import format_size

if TYPE_CHECKING:
    from edgebench.boards import Board, Source


@click.command()
@click.argument("name", required=False, shell_complete=offer_boards)
@click.option("--storage", is_flag=True, help="List kinds of storage instead, with their speeds.")
@json_option("the boards, or the storage")
def boards(name: str | None, storage: bool, as_json: bool) -> None:
    """List the boards that --board can emulate; with NAME, show all of one and its sources.

    NAME may be the path of a board's file. A board's memory, cores, storage and swap are emulated;
    the speed of its CPU is not.
    """
    from edgebench.boards import find_board, known_boards, storage_presets

    if name and storage:
        raise UsageError("give either NAME or --storage", remedy="edgebench boards --storage")
    if storage:
        presets = list(storage_presets().values())
        if as_json:
            print_json({"storage": [asdict(preset) for preset in presets]})
            return
        rows = [[preset.name, preset.speed.label] for preset in presets]
        print_table(Table(("storage", "speeds"), rows, ("storage", "speeds")))
        for preset in presets:
            print_headline(f"{preset.name}: {preset.title}")
            _print_sources(preset.sources)
        print_next("edgebench measure --storage sd-a1 --swap 2G -- python3 train.py")
    elif name:
        board = find_board(name)
        if as_json:
            print_json({"board": _board_json(board)})
            return
        print_headline(headline(board.title, f"leaves {format_size(board.left_bytes)}"))
        print_fields(_rows(board))
        print_headline("sources")
        _print_sources(board.sources)
        print_next(f"edgebench minimum resnet18 --board {board.name}")
    else:
        every = list(known_boards().values())
        if as_json:
            print_json({"boards": [_board_json(board) for board in every]})
            return
        titles = ("board", "RAM", "left", "cores", "storage", "swap")
        rows = []
        for board in every:
            sizes = [format_size(board.ram_bytes), format_size(board.left_bytes)]
            kept = board.storage[0] if board.storage else "-"
            rows.append([board.name, *sizes, str(board.cores), kept, board.swap or "-"])
        print_table(Table(titles, rows, ("board", "storage", "swap")))
        print_next("edgebench boards raspberry-pi-4-4g")


def _board_json(board: Board) -> dict[str, Any]:
    return {**asdict(board), "left_bytes": board.left_bytes, "storage_held": board.speed.label}


def _rows(board: Board) -> Iterator[tuple[str, str]]:
    gpu = f", {format_size(board.gpu_bytes)} of it the GPU's" if board.gpu_bytes else ""
    kernel = f"Linux {board.kernel}" if board.kernel else ""
    cgroup = f"cgroup version {board.cgroup}" if board.cgroup else ""
    yield "RAM", format_size(board.ram_bytes) + gpu
    yield "left for programs", board.left_words
    yield "cores", f"{board.cores} ({board.core})" if board.core else str(board.cores)
    yield "swap", board.swap or "unknown: emulated without"
    yield "system", ", ".join(filter(None, (board.system, kernel, cgroup))) or "unknown"
    for n, name in enumerate(board.storage):
        use = "" if n else "; emulated with this"
        yield f"storage {name}", board.speed_of(name).label + use


def _print_sources(sources: Sequence[Source]) -> None:
    """Print each source, with the keys that it tells of."""
    for source in sources:
        print_lines([f"{', '.join(source.of)}: {source.title}, seen {source.seen}:"])
        click.echo(f"  {source.address}")
