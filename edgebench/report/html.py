"""A report as plain data, and as one HTML file without scripts or external files."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from importlib.resources import files

from edgebench.answers.table import Table
from edgebench.extras import need

#: An SVG larger than this is embedded as PNG, which no number of points makes larger.
LARGEST_SVG = 160_000


@dataclass(frozen=True)
class Chapter:
    """One workload: its headline, its tables, and lines below them.

    ``brief`` is its name without the words that all workloads share.
    """

    name: str
    brief: str
    headline: str
    tables: list[Table]
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without an ending, what it shows, and its bytes."""

    stem: str
    shows: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Report:
    """The report of one sweep. ``warnings``: what makes numbers uncertain, and what is missing.

    ``overview`` has a row for each workload; None: there is only one. ``about``: the sweep's
    state and machine.
    """

    title: str
    about: list[str]
    overview: Table | None
    chapters: list[Chapter]
    pictures: list[Picture]
    warnings: list[str]
    tables: list[Table]
    scenario: str
    footer: str
    left_out: list[str] = field(default_factory=list)


def as_html(report: Report) -> str:
    """Return the whole page, figures inside, all text escaped.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    need("jinja2")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_file("report.html"))
    return template.render(report=report, address=picture_address, style=_file("report.css"))


def _file(name: str) -> str:
    return (files("edgebench.report") / "templates" / name).read_text(encoding="utf-8")


def picture_address(picture: Picture) -> str:
    """Return a ``data:`` address that holds the whole image."""
    kind, data = "svg+xml", picture.svg
    if len(data) > LARGEST_SVG:
        kind, data = "png", picture.png
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
