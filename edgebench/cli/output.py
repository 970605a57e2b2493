"""What every verb prints: the answer first, then tables, warnings, files, what to type next.

Sentences are wrapped at the terminal's width, but never within a path, or between a number and its
unit. Where stderr goes to a log, each warning is one line of it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from msgspec import Struct, to_builtins

from edgebench.cli.verbs import VERBS
from edgebench.errors import EdgebenchError
from edgebench.extras import no_figure
from edgebench.invocation import program
from edgebench.records import SCHEMA
from edgebench.shipped_files import with_page_paths
from edgebench.text import printable

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.text import Text

#: What a table may take where there is no terminal to fit.
_WIDTH = 80
#: Sentences are no wider on any terminal: longer lines are hard to read.
_WIDEST = 100
#: A last column of sentences is wrapped if at least this much of a line is left to it.
_LEAST_SENTENCE = 24
#: The share of a line's width that the first column may take; longer names are wrapped.
_NAMES = 0.6
#: Of lines that hold a command.
_TYPED = re.compile(
    r"^ {4}|(?:^|: )"
    r"(?:sudo|echo|(?:\S*/)?(?:edgebench|python3? -m)|uvx?|pip|apt-get|systemd-run) \S"
)
#: A call of edgebench that a message says to type; after an extra it is one that uvx makes.
_CALL = re.compile(rf"(?<![\w/.'-])(?<!\]' )edgebench(?= (?:…|(?:{'|'.join(VERBS)})\b))")
_SCRIPT = '"$(command -v edgebench)"'
#: Stands for the words of this call, in a message that says to type it in another way.
_WORDS = " …"
#: In a command that a message says to type. Root needs no such program, and may have none.
_SUDO = re.compile(r"(?:(?<=^ {4})|(?<=remedy: )|(?<=\| )|(?<=&& ))sudo (?=\S)", re.MULTILINE)
#: A block of warnings takes at most this many rows, unless its first warning is longer.
_WARNING_ROWS = 5
#: Spaces at which no line ends: between a number and its unit, within a duration.
_KEPT = re.compile(
    r"(?<=\d) (?=(?:[KMGT]?i?B|h|min|ms|µs|s|%|×|x|MiB/s|GiB/s)(?![\w]))|(?<=\d min) |(?<=\d h) "
)


def print_json(data: Mapping[str, Any]) -> None:
    """One line of JSON on stdout, with the schema's version; paths become texts."""
    click.echo(json.dumps({"schema": SCHEMA, **data}, default=_plain))


def _plain(value: Any) -> Any:
    return to_builtins(value) if isinstance(value, Struct) else os.fspath(value)


def print_answer(sentences: Iterable[str]) -> None:
    """What answers the user's question: the first thing on stdout, a paragraph each sentence."""
    for sentence in sentences:
        click.secho(_fitted(sentence, sys.stdout), bold=True)


def print_lines(lines: Iterable[str], indent: str = "") -> None:
    """Each line on stdout, wrapped to the terminal; its later rows are indented two more."""
    for line in lines:
        click.echo(_fitted(line, sys.stdout, indent) if line else "")


def print_fields(fields: Iterable[tuple[str, str]], width: int | None = None) -> None:
    """Names and values, one below the other; a long value is wrapped beside its name.

    ``width`` is that of the names; None: of the longest. A name may be coloured if it is padded.
    """
    fields = list(fields)
    width = width or max(len(name) for name, _ in fields) + 2
    room = min(_line_width(sys.stdout), _WIDEST) - width
    for name, value in fields:
        first, *others = _wrapped(_shown(value), max(room, _LEAST_SENTENCE)) or [""]
        click.echo(f"{name:<{width}}{first}".rstrip())
        for row in others:
            click.echo(" " * width + row)


def print_title(title: str) -> None:
    """The title of a part of the output."""
    click.echo("\n" + click.style(_fitted(title, sys.stdout), bold=True))


def print_warnings(warnings: Iterable[str], others: str | None = None) -> None:
    """Each warning once, on stderr.

    Args:
        warnings: those that matter most first.
        others: what shows the warnings that five rows don't hold, such as ``--verbose``; None:
            all are printed here.
    """
    rows = [_message_rows(f"warning: {warning}") for warning in dict.fromkeys(warnings)]
    shown = len(rows) if others is None else _fitting(rows)
    for row in (row for message in rows[:shown] for row in message):
        click.echo(row, err=True)
    if left := len(rows) - shown:
        click.echo(f"warning: {left} more, shown by {others}", err=True)


def _fitting(messages: Sequence[Sequence[str]]) -> int:
    """How many messages, from the first, a block holds; its last row may be that of the others."""
    used = list(itertools.accumulate(map(len, messages)))
    if not used or used[-1] <= _WARNING_ROWS:
        return len(messages)
    return max(1, sum(rows < _WARNING_ROWS for rows in used))


def print_message(text: str) -> None:
    """A warning or error on stderr: its lines wrapped to the terminal, but for what is typed."""
    for row in _message_rows(text):
        click.echo(row, err=True)


def _message_rows(text: str) -> list[str]:
    rows = []
    for line in _shown(text).splitlines():
        words = line.lstrip()
        indent = line[: len(line) - len(words)]
        fitted = line if is_typed(line) else _fitted(words, sys.stderr, indent)
        rows += fitted.split("\n")
    return rows


def is_typed(line: str) -> bool:
    """Whether it holds a command: wrapped, it could not be copied."""
    return _TYPED.search(line) is not None


def _shown(text: str) -> str:
    """The text, printable, with the pages that it names where they lie, and what to type here."""
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


def _fitted(line: str, stream: TextIO, indent: str = "") -> str:
    """The line, printable, as rows that fit the stream's terminal."""
    line = _shown(line)
    if stream is sys.stderr and not stream.isatty():
        return indent + line
    rows = _wrapped(line, min(_line_width(stream), _WIDEST), indent, indent + "  ")
    return "\n".join(rows)


def _wrapped(line: str, width: int, first: str = "", later: str = "") -> list[str]:
    rows = textwrap.wrap(
        _KEPT.sub("\xa0", line),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [row.replace("\xa0", " ") for row in rows]


def _line_width(stream: TextIO) -> int:
    return shutil.get_terminal_size().columns if stream.isatty() else _WIDTH


def shown_path(path: Path) -> str:
    """The path as short as it can be typed: from the current folder, if it lies in it."""
    try:
        return printable(os.fspath(path.absolute().relative_to(Path.cwd())))
    except ValueError:
        return printable(os.fspath(path))


def typed_path(path: Path) -> str:
    """:func:`shown_path` for a command that is typed in a shell."""
    return shlex.quote(shown_path(path))


def print_figures(paths: Iterable[Path]) -> None:
    """The figures' PNG files; each lies beside an SVG of the same name."""
    pictures = [path for path in paths if path.suffix == ".png"]
    if len(pictures) == 1:
        line = f"figure: {shown_path(pictures[0])}"
        if sys.stdout.isatty() and len(line) > _line_width(sys.stdout):
            line = f"figure in {shown_path(pictures[0].parent)}:\n  {pictures[0].name}"
        click.echo(line)
    for folder in dict.fromkeys(path.parent for path in pictures if len(pictures) > 1):
        click.echo(f"figures in {shown_path(folder)}:")
        click.echo(_columns([path.name for path in pictures if path.parent == folder]))


def _columns(names: Sequence[str]) -> str:
    """The names in as many columns as a line holds, read downwards."""
    widest = max(map(len, names)) + 2
    count = max((_line_width(sys.stdout) - 2) // widest, 1)
    rows = -(-len(names) // count)
    lines = ("".join(f"{name:<{widest}}" for name in names[n::rows]) for n in range(rows))
    return "\n".join(f"  {line}".rstrip() for line in lines)


def figures_or_reason(draw: Callable[[], list[Path]]) -> tuple[list[Path], list[str]]:
    """The figures that a verb draws beside its answer; or without any, the reason."""
    try:
        return draw(), []
    except ModuleNotFoundError as error:
        return [], [no_figure(error)]
    except EdgebenchError as error:
        where = f" ({error.where})" if error.where else ""
        return [], [f"no figure: {error.what}{where}"]


def print_next(command: str) -> None:
    """The one best command to type next, on stderr: never wrapped, so that it can be copied."""
    click.echo(f"next: {as_typed(printable(command))}", err=True)


def make_console() -> Console:
    """A console that prints texts as they are; at least 80 columns where there is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    return console


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    words: Collection[str] = (),
    keys: int = 1,
    gap: int = 2,
) -> None:
    """A table; one wider than the terminal is printed in parts, each with the key columns.

    Args:
        titles: of the columns, over several lines where they hold newlines.
        rows: a cell for each column.
        words: the titles of columns of text, which are aligned to the left.
        keys: how many columns, from the first, name a row.
        gap: spaces between two columns.
    """
    from rich.table import Table

    console = make_console()
    for part in _parts(titles, rows, words, keys, gap, console.width):
        grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
        for n in part:
            side: JustifyMethod = "left" if titles[n] in words else "right"
            wraps = side == "left" and n in (0, len(titles) - 1)
            widest = int(console.width * _NAMES) if n == 0 else None
            grid.add_column(
                titles[n], justify=side, no_wrap=not wraps, overflow="fold", max_width=widest
            )
        for row in rows:
            cells = (row[n] for n in part)
            grid.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells))
        console.print(grid)


def _parts(
    titles: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    words: Collection[str],
    keys: int,
    gap: int,
    width: int,
) -> Iterator[list[int]]:
    """The columns of each part of a table, so that no part is wider than the terminal."""
    widths = [max(map(_width, column)) + gap for column in zip(titles, *rows, strict=True)]
    widths[0] = min(widths[0], int(width * _NAMES) + gap)
    part, used = list(range(keys)), sum(widths[:keys])
    for n in range(keys, len(titles)):
        wanted = widths[n]
        if n == len(titles) - 1 and titles[n] in words:
            wanted = min(wanted, _LEAST_SENTENCE)
        if used + wanted - gap > width and len(part) > keys:
            yield part
            part, used = list(range(keys)), sum(widths[:keys])
        part.append(n)
        used += wanted
    yield part


def _width(cell: str | Text) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, str(cell).split("\n")))
