"""A study's tables as data: rows with full numbers, and how each column is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column: the rows' key, its title, and how a value is written. ``words``: no number."""

    key: str
    title: str
    form: str = "{}"
    unit: float = 1.0
    words: bool = False

    def shown(self, value: Any) -> str:
        """The value as a person reads it; nothing where it is missing."""
        if value is None or value != value:
            return ""
        return str(value) if self.words else self.form.format(value / self.unit)


@dataclass(frozen=True)
class StudyTable:
    """One table: rows are mappings with every column's key, and may have more."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    says: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Name, rows and sentences as plain data; a missing number is None."""
        rows = [{k: _plain(v) for k, v in row.items()} for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "says": list(self.says)}


def _plain(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return None if plain != plain else plain
