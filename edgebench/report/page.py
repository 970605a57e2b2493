"""What a report is made of, as plain data: the same for HTML and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Cells as text. ``numbers`` are the columns whose cells stand at the right."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    numbers: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """One question and what the data say to it."""

    question: str
    sentences: list[str]


@dataclass(frozen=True)
class Chapter:
    """All that is told of one workload; ``brief`` is its name without what all of them share."""

    name: str
    brief: str
    answers: list[Answer]
    tables: list[Table]


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without an ending, what it shows, and its bytes.

    ``png`` is empty where nothing needs it, ``svg`` where it would be too large.
    """

    stem: str
    shows: str
    svg: bytes
    png: bytes = b""


@dataclass(frozen=True)
class Report:
    """A sweep as it is told. ``doubts`` is what puts numbers in doubt or is lacking."""

    title: str
    about: list[str]
    summary: Table
    chapters: list[Chapter]
    pictures: list[Picture]
    doubts: list[str]
    tables: list[Table]
    scenario: str
    footer: str
    left_out: list[str] = field(default_factory=list)
