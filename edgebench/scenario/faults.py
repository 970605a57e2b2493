"""Faults of a scenario: what is wrong, at which key and line, and how to correct it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from edgebench.scenario.keys import tag_of
from edgebench.text import did_you_mean

#: pydantic's error type → what the value should have been, in words.
_SHOULD_BE = {
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "string_type": "should be text in quotes",
    "bool_type": "should be true or false",
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "string_pattern_mismatch": "names folders: only a-z, 0-9 and '-', 64 at most",
    "finite_number": "should be a finite number",
}
_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_"'-]+)*)\s*=""")

Path = tuple["str | int", ...]


@dataclass(frozen=True)
class Fault:
    """One thing wrong. ``key`` is its path in the file, as ``limits.memory[2]``."""

    key: str
    line: int | None
    says: str

    def __str__(self) -> str:
        line = f"line {self.line}, " if self.line else ""
        return f"{line}{self.key}: {self.says}"


def faults_of(error: ValidationError, model: type[BaseModel], data: Any, text: str) -> list[Fault]:
    """Every fault of a refused scenario, in the file's order."""
    lines = _Lines(text)
    faults = []
    for details in error.errors(include_url=False):
        path = _path(details["loc"], data)
        says = _says(details, model)
        words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        key = words.lstrip(".") or "the file"
        faults.append(Fault(key, lines.of(path, details.get("input")), says))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _path(loc: Sequence[str | int], data: Any) -> Path:
    """The path in the file: without tags of unions, nor the index into a lone value."""
    path: list[str | int] = []
    for part in loc:
        tag = isinstance(part, str) and part.startswith("<")
        lone = isinstance(part, int) and not isinstance(data, list)
        if tag or lone or part == "[key]":
            continue
        path.append(part)
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
    return tuple(path)


def _says(details: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value = details["type"], details.get("input")
    fields = _fields_of(model, details["loc"])
    name = str(details["loc"][-1]) if details["loc"] else ""
    if kind == "extra_forbidden":
        guess = did_you_mean(name, fields)
        return "no such key; " + (
            f"did you mean {guess!r}?" if guess else f"the keys here are {', '.join(fields)}"
        )
    if kind == "missing":
        wanted = f"{name} = {fields[name]}" if fields.get(name) else f"a [{name}] table"
        return f"is missing; write {wanted}"
    if kind == "value_error":
        return str(details["ctx"]["error"])
    should = _SHOULD_BE.get(kind) or details["msg"].replace("Input should", "should", 1)
    example = fields.get(next((p for p in reversed(details["loc"]) if p in fields), ""))
    return f"{value!r} {should}" + (f"; for example {example}" if example else "")


def _fields_of(model: type[BaseModel], loc: Sequence[str | int]) -> dict[str, str]:
    """Key → example of the table that holds the location's last key."""
    tables = [model]
    for part in loc[:-1]:
        tables = _tables_at(tables, part) or tables
    fields = [item for table in tables for item in table.model_fields.items()]
    return {info.alias or name: str((info.examples or [""])[0]) for name, info in fields}


def _tables_at(tables: list[type[BaseModel]], part: str | int) -> list[type[BaseModel]]:
    """Where a key, or the tag of one table of a union, leads from these tables."""
    if tagged := [table for table in tables if part == tag_of(table)]:
        return tagged
    infos = [item for table in tables for item in table.model_fields.items()]
    return [
        inner
        for name, info in infos
        if part == (info.alias or name)
        for inner in _tables_in(info.annotation)
    ]


def _tables_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for part in get_args(annotation) for table in _tables_in(part)]


class _Lines:
    """Where each key of a TOML text stands; good enough for pointing at, not a parser."""

    def __init__(self, text: str) -> None:
        self._text = text.splitlines()
        self._keys: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._text, start=1):
            if header := _HEADER.match(line):
                table = _parts(header[1])
                self._keys.setdefault(table, number)
            elif key := _KEY.match(line):
                self._keys.setdefault((*table, *_parts(key[1])), number)

    def of(self, path: Path, value: object) -> int | None:
        """The line of the path's last part, or of the nearest key that holds it."""
        for length in range(len(path), 0, -1):
            if number := self._keys.get(tuple(str(part) for part in path[:length])):
                return self._within(number, path[length:], value)
        return None

    def _within(self, first: int, rest: Path, value: object) -> int:
        """The line, from the key's own to before the next key, that shows what is meant."""
        if not rest:
            return first
        last = min((n for n in self._keys.values() if n > first), default=len(self._text) + 1)
        shown = re.escape(str(value if isinstance(rest[-1], int) else rest[-1]))
        whole = re.compile(rf"(?<![\w.%-]){shown}(?![\w.%-])")
        lines = range(first, last)
        return next((n for n in lines if whole.search(self._text[n - 1])), first)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
