"""TOML files of boards and storage, read once; and the sources of their numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgebench.errors import UsageError
from edgebench.safe_reading import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """Where numbers are from. ``of``: their keys; ``seen``: the day it was read, as 2026-11-22."""

    of: tuple[str, ...]
    title: str
    address: str
    seen: str


def read_toml(path: Path) -> dict[str, Any]:
    """The file's tables.

    Raises:
        UsageError: it can't be read, or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        what = f"the file can't be read: {error.strerror}"
        raise UsageError(
            what, where=str(path), remedy="edgebench boards lists those known"
        ) from None
    except ValueError as error:
        raise UsageError(
            f"not TOML: {error}", where=str(path), remedy="correct that line"
        ) from None


def sources_of(table: Mapping[str, Any], where: str) -> tuple[Source, ...]:
    """The table's ``[[sources]]``.

    Raises:
        UsageError: one lacks a key, or has another.
    """
    names = tuple(f.name for f in fields(Source))
    found = []
    for row in table.get("sources", []):
        if not isinstance(row, dict) or sorted(row) != sorted(names):
            what = f"a source has the keys {', '.join(names)}"
            raise UsageError(what, where=where, remedy="complete each [[sources]]")
        found.append(Source(tuple(row["of"]), *(str(row[name]) for name in names[1:])))
    return tuple(found)
