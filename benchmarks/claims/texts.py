"""Numbers in a page of Markdown: found by the words around them, compared, written anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: A number as pages write it: the sign and thousands' commas belong to it, its unit doesn't.
NUMBER = r"[+\-−]?\d+(?:,\d{3})*(?:\.\d+)?"


class UnheldError(Exception):
    """The words of a claim are not on its page, or more than once."""


@dataclass(frozen=True)
class Says:
    """Words of a page in which each ``{}`` is a number, and those numbers.

    Line breaks count as spaces. The words must be on the page exactly once. Numbers among the words
    themselves are settings and thresholds that what computes the others goes by.
    """

    words: str
    numbers: tuple[str, ...]

    def found(self, text: str) -> list[Edit]:
        """Where they stand, as one piece.

        Raises:
            UnheldError: the words are not there once.
        """
        if self.words.count("{}") != len(self.numbers):
            raise UnheldError(f"{len(self.numbers)} numbers for the words: {self.words}")
        parts = [spaced(part) for part in self.words.split("{}")]
        matches = list(re.finditer(f"({NUMBER})".join(parts), text))
        if len(matches) != 1:
            raise UnheldError(f"{len(matches)} times on the page: {self.words}")
        match = matches[0]
        numbers = [Edit(*match.span(n), number) for n, number in enumerate(self.numbers, 1)]
        inside = [
            replace(e, start=e.start - match.start(), end=e.end - match.start()) for e in numbers
        ]
        return [Edit(*match.span(), written(match[0], inside))]


@dataclass(frozen=True)
class Table:
    """The rows, without their head, of the first table after some words that are there once."""

    after: str
    rows: tuple[tuple[str, ...], ...]

    def found(self, text: str) -> list[Edit]:
        """Where the words and the rows stand.

        Raises:
            UnheldError: the words are not there once, or no table follows.
        """
        if text.count(self.after) != 1:
            raise UnheldError(f"{text.count(self.after)} times on the page: {self.after}")
        head = re.compile(r"^\|.*\|\n\|[ :\-|]+\|\n((?:\|.*\|\n)*)", re.MULTILINE)
        match = head.search(text, text.index(self.after))
        if match is None:
            raise UnheldError(f"no table after: {self.after}")
        made = "".join(f"| {' | '.join(row)} |\n" for row in self.rows)
        start = text.index(self.after)
        return [Edit(start, start + len(self.after), self.after), Edit(*match.span(1), made)]


@dataclass(frozen=True)
class Box:
    """What stands in the first box of code after some words that are there once."""

    after: str
    text: str

    def found(self, text: str) -> list[Edit]:
        """Where the box's inside stands.

        Raises:
            UnheldError: the words are not there once, or no box follows.
        """
        if text.count(self.after) != 1:
            raise UnheldError(f"{text.count(self.after)} times on the page: {self.after}")
        box = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
        match = box.search(text, text.index(self.after))
        if match is None:
            raise UnheldError(f"no box after: {self.after}")
        return [Edit(*match.span(1), self.text)]


Claim = Says | Table | Box


@dataclass(frozen=True)
class Edit:
    """What shall stand from one place of a page to another."""

    start: int
    end: int
    new: str


def says(words: str, *numbers: object) -> Says:
    """A claim of a sentence; numbers as they shall be printed."""
    return Says(words, tuple(str(number) for number in numbers))


def table(after: str, rows: Iterable[Sequence[object]]) -> Table:
    """A claim of a table; cells as they shall be printed."""
    return Table(after, tuple(tuple(str(cell) for cell in row) for row in rows))


def box(after: str, lines: Iterable[str]) -> Box:
    """A claim of a box of printed output."""
    return Box(after, "".join(f"{line.rstrip()}\n" for line in lines))


def written(text: str, edits: Iterable[Edit]) -> str:
    """The page with all edits made."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def blanked(text: str, edits: Iterable[Edit], others: Iterable[str]) -> str:
    """The page with spaces for what claims hold and for whatever the patterns match."""
    for edit in edits:
        text = text[: edit.start] + _blank(text[edit.start : edit.end]) + text[edit.end :]
    for pattern in others:
        text = re.sub(pattern, lambda match: _blank(match[0]), text, flags=re.MULTILINE)
    return text


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def spaced(words: str) -> str:
    """A pattern for the words, however they are broken into lines."""
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", words))
