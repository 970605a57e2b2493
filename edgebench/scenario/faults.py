"""Faults of a scenario: what is wrong, at which key and line or flag, and how to correct it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from edgebench.errors import UsageError
from edgebench.scenario.flags import TYPED
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
#: Where a fault of several keys is: on the command line there is no such place.
_TABLES = ("the file", "workload", "limits")
_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_"'-]+)*)\s*=""")

Path = tuple["str | int", ...]


@dataclass(frozen=True)
class Named:
    """A key that a sentence names; with a value, how to write it."""

    key: str
    value: object = None

    def __str__(self) -> str:
        shown = json.dumps(self.value)
        return self.key if self.value is None else f"{self.key} = {shown}"

    def typed(self, flags: Mapping[str, str]) -> str:
        """Return the same on the command line, with the flags by the keys' names."""
        if (flag := flags.get(self.key)) is None or self.value is None:
            return flag or str(self)
        values = self.value if isinstance(self.value, list) else [self.value]
        return " ".join(f"{flag} {shlex.quote(str(one))}" for one in values)


class KeysError(ValueError):
    """What is wrong with several keys together, in words and the keys that they name."""

    def __init__(self, *parts: str | Named) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts


def refuse_both(one: str, other: str) -> KeysError:
    """Two keys of which only one can be given."""
    return KeysError(Named(one), " and ", Named(other), " can't both be given; leave one out")


@dataclass(frozen=True)
class Fault:
    """One thing wrong. ``key`` is its path in the file, as ``limits.memory[2]``.

    ``corrected``: whether the sentence says what to write instead.
    """

    key: str
    line: int | None
    parts: tuple[str | Named, ...]
    corrected: bool

    @property
    def says(self) -> str:
        """The sentence, in the words of a file."""
        return "".join(map(str, self.parts))

    def __str__(self) -> str:
        line = f"line {self.line}, " if self.line else ""
        return f"{line}{self.key}: {self.says}"

    def typed(self, flags: Mapping[str, str] = TYPED) -> str:
        """Return the sentence with the flags that set the keys."""
        names = {key.rpartition(".")[2]: flag for key, flag in flags.items() if flag[0] == "-"}
        says = "".join(p.typed(names) if isinstance(p, Named) else p for p in self.parts)
        # Of a list's item the list's flag.
        place = flags.get(self.key.partition("[")[0], self.key)
        return says if place in _TABLES else f"{place}: {says}"


def flag_error(faults: Iterable[Fault], verb: str, flags: Mapping[str, str] = TYPED) -> UsageError:
    """Return the error that says them in flags.

    The help is named unless each says what to write.
    """
    found = list(faults)
    remedy = None if all(one.corrected for one in found) else f"edgebench {verb} --help"
    return UsageError("\n".join(one.typed(flags) for one in found), remedy=remedy)


def file_error_words(faults: Sequence[Fault], path: object) -> str:
    """All faults of a file, a line each."""
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([f"{count} in {path}", *(f"  {fault}" for fault in faults)])


def faults_of(error: ValidationError, model: type[BaseModel], data: Any, text: str) -> list[Fault]:
    """Every fault of a refused scenario, in the file's order."""
    lines, faults = _key_lines(text), []
    for details in error.errors(include_url=False):
        path = _path(details["loc"], data)
        words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        # That of the last part, or of the nearest key that holds it.
        keys = (tuple(map(str, path[:length])) for length in range(len(path), 0, -1))
        line = next((lines[key] for key in keys if key in lines), None)
        faults.append(Fault(words.lstrip(".") or "the file", line, *_says(details, model)))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _path(loc: Sequence[str | int], data: Any) -> Path:
    """Return the path in the file: without tags of unions, nor the index into a lone value."""
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


def _says(details: ErrorDetails, model: type[BaseModel]) -> tuple[tuple[str | Named, ...], bool]:
    """Return the parts of the sentence, and whether it says what to write."""
    kind, value = details["type"], details.get("input")
    fields = _fields_of(model, details["loc"])
    name = str(details["loc"][-1]) if details["loc"] else ""
    if kind == "value_error":
        error = details["ctx"]["error"]
        return error.parts if isinstance(error, KeysError) else (str(error),), True
    if kind == "extra_forbidden":
        guess = did_you_mean(name, fields)
        known = f"did you mean {guess!r}?" if guess else f"the keys here are {', '.join(fields)}"
        return (f"no such key; {known}",), True
    if kind == "missing":
        wanted = f"{name} = {fields[name]}" if fields.get(name) else f"a [{name}] table"
        return (f"is missing; write {wanted}",), True
    should = _SHOULD_BE.get(kind) or details["msg"].replace("Input should", "should", 1)
    example = fields.get(next((p for p in reversed(details["loc"]) if p in fields), ""))
    return (f"{value!r} {should}" + (f"; for example {example}" if example else ""),), bool(example)


def message_of(details: ErrorDetails) -> str:
    """Return what is wrong, in the words of a check of ours, else of pydantic."""
    ours = details["type"] == "value_error"
    return str(details["ctx"]["error"] if ours else details["msg"])


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
        for inner in tables_in(info.annotation)
    ]


def tables_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the tables that a key of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for part in get_args(annotation) for table in tables_in(part)]


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return where each key of a TOML text stands; good enough to point at, not a parser."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
