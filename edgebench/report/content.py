"""The parts of a report as plain data, for HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.answers.table import Table


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
