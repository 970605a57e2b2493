"""A report as Markdown, with its figures beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.answers.table import Table
from edgebench.results.derived import write_derived, write_file

if TYPE_CHECKING:
    from edgebench.report.builder import Report

#: What Markdown or the HTML in it would take for its own.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$!&@]|^[-+=]")
#: A number that would begin a list.
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_FENCE = re.compile(r"`{3,}")


def write_markdown(target: Path, report: Report) -> list[Path]:
    """Write the text, and its figures into the folder ``figures`` beside it; their paths.

    Raises:
        ResultsError: a folder can't be written.
    """
    figures = "figures"
    paths = [write_file(target, as_markdown(report, figures).encode())]
    folder = target.parent / figures
    return paths + [write_derived(folder, f"{p.stem}.png", p.png) for p in report.pictures]


def as_markdown(report: Report, figures: str) -> str:
    """Return the whole text. ``figures`` is the folder of the figures, as seen from the file."""
    return "\n".join(_lines(report, figures)) + "\n"


def escaped(text: str) -> str:
    """Return the text such that Markdown shows just that, on one line."""
    line = " ".join(text.split())
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(lambda match: f"\\{match[0]}", line))


def _lines(report: Report, figures: str) -> Iterator[str]:
    yield from (f"# {escaped(report.title)}", "")
    yield from _listed(report.about)
    if report.overview:
        yield from table_lines(report.overview)
    for chapter in report.chapters:
        yield from (f"## {escaped(chapter.brief)}", "", escaped(chapter.headline), "")
        for table in chapter.tables:
            yield from table_lines(table, "###")
        yield from _listed(chapter.lines)
    if report.pictures:
        yield from ("## Figures", "")
    for picture in report.pictures:
        yield from (f"![{escaped(picture.shows)}]({figures}/{picture.stem}.png)", "")
    if report.warnings:
        yield from ("## Warnings", "")
        yield from _listed(report.warnings)
    for table in report.tables:
        yield from table_lines(table, "##")
    if report.scenario:
        fence = "`" * (1 + max((len(run) for run in _FENCE.findall(report.scenario)), default=2))
        yield from ("## The scenario", "", f"{fence}toml", report.scenario.rstrip(), fence, "")
    yield from _listed(report.left_out)
    yield escaped(report.footer)


def _listed(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"- {escaped(line)}"
    if lines:
        yield ""


def table_lines(table: Table, level: str = "") -> Iterator[str]:
    """Render one table, below its title where there is a level of headings (``##``)."""
    if level and table.title:
        yield from (f"{level} {escaped(table.title)}", "")
    ruler = ["---" if title in table.left else "---:" for title in table.columns]
    for cells in (list(map(escaped, table.columns)), ruler):
        yield f"| {' | '.join(cells)} |"
    for row in table.rows:
        yield f"| {' | '.join(map(escaped, row))} |"
    yield ""
    if table.note:
        yield from (f"*{escaped(table.note)}*", "")
