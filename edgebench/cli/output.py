"""What every verb prints: a headline, tables, warnings, and what to type next.

Answers go to stdout, warnings and the next command to stderr. Rich fits tables and warnings to the
width of a terminal; elsewhere each row and each warning is one line.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, to_builtins

from edgebench.answers.table import Table
from edgebench.cli.verbs import VERBS
from edgebench.errors import EdgebenchError
from edgebench.installation import no_figure, program, with_page_paths
from edgebench.records import SCHEMA
from edgebench.text import printable

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

#: No table or text is wider where there is no terminal.
_ENDLESS = 100_000
#: So many warnings are shown without --verbose.
_MOST_WARNINGS = 5
#: A call of edgebench that a message says to type; after an extra it is one that uvx makes.
_CALL = re.compile(rf"(?<![\w/.'-])(?<!\]' )edgebench(?= (?:…|(?:{'|'.join(VERBS)})\b))")
_SCRIPT = '"$(command -v edgebench)"'
#: Stands for the words of this call, in a message that says to type it in another way.
_WORDS = " …"
#: In a command that a message says to type. Root needs no such program, and may have none.
_SUDO = re.compile(r"(?:(?<=^ {4})|(?<=remedy: )|(?<=\| )|(?<=&& ))sudo (?=\S)", re.MULTILINE)
_COLOURS = {
    **dict.fromkeys(("slower", "more", "lost", "no"), "red"),
    **dict.fromkeys(("warn", "unsure"), "yellow"),
    **dict.fromkeys(("faster", "less", "gained", "ok"), "green"),
}


def print_json(data: Mapping[str, Any]) -> None:
    """One line of JSON on stdout, with the schema's version; paths become texts."""
    click.echo(json.dumps({"schema": SCHEMA, **data}, default=_plain))


def _plain(value: Any) -> Any:
    return to_builtins(value) if isinstance(value, Struct) else os.fspath(value)


def make_console(*, err: bool = False) -> Console:
    """Return a console that prints texts as they are, and wraps none where there is no terminal."""
    from rich.console import Console

    console = Console(stderr=err, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _ENDLESS
    return console


def print_headline(text: str) -> None:
    """Print the answer's first line, in bold."""
    _print(text, make_console(), style="bold")


def print_lines(lines: Iterable[str]) -> None:
    """Print each line on stdout."""
    console = make_console()
    for line in lines:
        _print(line, console)


def _print(text: str, console: Console, style: str | None = None) -> None:
    first, *others = shown(text).split("\n")
    console.print(first, style=style, soft_wrap=not console.is_terminal)
    for line in others:
        # What to type stands there.
        console.print(line, style=style, soft_wrap=True)


def print_table(table: Table, indent: int = 2) -> None:
    """Print a table below its title, with its note."""
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for title in table.columns:
        is_left = title in table.left
        # A column of words is wrapped where a table is too wide, numbers are not.
        side: JustifyMethod = "left" if is_left else "right"
        grid.add_column(justify=side, no_wrap=not is_left, overflow="fold")
    if any(table.columns):
        grid.add_row(*(Text.assemble((printable(title), "dim")) for title in table.columns))
    for row in table.rows:
        grid.add_row(*(Text.assemble((printable(cell), _COLOURS.get(cell, ""))) for cell in row))
    if table.title:
        print_headline(table.title)
    console = make_console()
    with console.capture() as printed:
        console.print(Padding(grid, (0, 0, 0, indent)))
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))
    print_lines(filter(None, [table.note]))


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one below the other."""
    print_table(Table(("", ""), [list(field) for field in fields], left=("",)))


def print_warnings(warnings: Iterable[str], others: str | None = None) -> None:
    """Print each warning once, on stderr, after ``!``.

    Args:
        warnings: those that matter most first.
        others: what shows those beyond the first five, such as ``--verbose``; None: all are
            printed here.
    """
    lines = list(dict.fromkeys(warnings))
    console = make_console(err=True)
    most = len(lines) if others is None or len(lines) <= _MOST_WARNINGS else _MOST_WARNINGS - 1
    for line in lines[:most]:
        _print(f"! {line}", console)
    if left := len(lines) - most:
        click.echo(f"! {left} more: {others}", err=True)


def print_message(text: str) -> None:
    """Print a message or an error on stderr: its lines are never divided, for some are typed."""
    click.echo(shown(text), err=True)


def shown(text: str) -> str:
    """Return printable text, with pages where they lie and commands as they are typed here."""
    return with_page_paths(as_typed(printable(text)))


def as_typed(text: str) -> str:
    """Return the text with calls of edgebench as this one was made."""
    if os.geteuid() == 0:
        text = _SUDO.sub("", text)
    words = f" {shlex.join(sys.argv[1:])}"
    for name in ("edgebench", _SCRIPT):
        text = text.replace(name + _WORDS, name + words)
    if (called := program()) == "edgebench":
        return text
    return _CALL.sub(lambda _: called, text).replace(_SCRIPT, shlex.quote(sys.argv[0]))


def shown_path(path: Path) -> str:
    """Return the path as short as it can be typed: from the current folder, if it lies in it."""
    try:
        return printable(os.fspath(path.absolute().relative_to(Path.cwd())))
    except ValueError:
        return printable(os.fspath(path))


def typed_path(path: Path) -> str:
    """:func:`shown_path` for a command that is typed in a shell."""
    return shlex.quote(shown_path(path))


def print_figures(paths: Iterable[Path]) -> None:
    """Print the figures' PNG files; each lies beside an SVG of the same name."""
    for path in paths:
        if path.suffix == ".png":
            click.echo(f"figure: {shown_path(path)}")


def figures_or_reason(draw: Callable[[], list[Path]]) -> tuple[list[Path], list[str]]:
    """Return the figures that a verb draws beside its answer; or without any, the reason."""
    try:
        return draw(), []
    except ModuleNotFoundError as error:
        return [], [no_figure(error)]
    except EdgebenchError as error:
        where = f" ({error.where})" if error.where else ""
        return [], [f"no figure: {error.what}{where}"]


def print_next(command: str) -> None:
    """Print the one best command to type next, on stderr: never wrapped, so it can be copied."""
    click.echo(f"next: {as_typed(printable(command))}", err=True)
