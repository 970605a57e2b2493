"""The parts of a report as plain data, for HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReportTable:
    """Cells as text. ``numbers``: the columns that are aligned right."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    numbers: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class ReportAnswer:
    """One question and its answer in sentences."""

    question: str
    sentences: list[str]


@dataclass(frozen=True)
class Chapter:
    """One workload; ``brief`` is its name without the words that all workloads share."""

    name: str
    brief: str
    answers: list[ReportAnswer]
    tables: list[ReportTable]


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without an ending, what it shows, and its bytes.

    ``png`` is empty where nothing needs it, ``svg`` where it would be too large. ``small`` is the
    PNG as a page embeds it; empty: not made yet.
    """

    stem: str
    shows: str
    svg: bytes
    png: bytes = b""
    small: bytes = b""


@dataclass(frozen=True)
class Report:
    """The report of one sweep. ``warnings``: what makes numbers uncertain, and what is missing.

    ``in_short``: for each workload what was measured and which layer is the cause, a sentence each;
    of many workloads one sentence for all.
    """

    title: str
    about: list[str]
    in_short: list[list[str]]
    summary: ReportTable
    chapters: list[Chapter]
    pictures: list[Picture]
    warnings: list[str]
    tables: list[ReportTable]
    scenario: str
    footer: str
    left_out: list[str] = field(default_factory=list)
