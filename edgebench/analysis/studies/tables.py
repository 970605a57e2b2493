"""The tables of a study as data: rows with full numbers, and how each column is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgebench.answers.table import Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column: its key in the rows, its title, and its format. ``words``: text, not numbers."""

    key: str
    title: str
    form: str = "{}"
    unit: float = 1.0
    words: bool = False

    def shown(self, value: Any) -> str:
        """Format a value; empty where it is missing."""
        if value is None or value != value:
            return ""
        return str(value) if self.words else self.form.format(value / self.unit)


@dataclass(frozen=True)
class StudyTable:
    """One table: rows are mappings with every column's key, and may have more.

    ``says`` explains its columns.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    says: tuple[str, ...] = ()

    def as_table(self, rows: list[dict[str, Any]]) -> Table:
        """Format some of its rows."""
        cells = [[column.shown(row[column.key]) for column in self.columns] for row in rows]
        left = tuple(column.title for column in self.columns if column.words)
        titles = tuple(column.title for column in self.columns)
        return Table(titles, cells, left, note="; ".join(self.says))

    def to_json(self) -> dict[str, Any]:
        """Name, rows and sentences as plain data; a missing number is None."""
        rows = [{k: plain_value(v) for k, v in row.items()} for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "says": list(self.says)}


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert the rows of a frame to mappings."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def plain_value(value: Any) -> Any:
    """Convert a number of numpy's to Python's, which JSON knows; a missing one to None."""
    plain = value.item() if hasattr(value, "item") else value
    return None if plain != plain else plain
