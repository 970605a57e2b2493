"""Lines as columns: numbers side by side, and each text once with a code for every line."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import Any, get_args

from msgspec import Raw

from edgebench.accelerator_report import ACCELERATOR_COLUMNS
from edgebench.records import (
    KillReport,
    LimitSetting,
    Outcome,
    SamplerReport,
    TrialRecord,
    is_number,
)
from edgebench.results.record_types import are_whole_settings, is_whole_limit
from edgebench.results.stages import rounds_repeat
from edgebench.results.trial_lines import TRIAL_TIMES, trial_times
from edgebench.storage_speed import StorageSpeed
from edgebench.text import safe_json
from edgebench.working_set import WorkingSet

#: The code of a text that is missing.
NONE = -1
#: Texts that are JSON → whether its data are what such a text has.
_JSON_CHECKS: dict[str, Callable[[Any], bool]] = {
    "settings": are_whole_settings,
    "limits": is_whole_limit,
    "warnings": lambda data: isinstance(data, list) and all(isinstance(x, str) for x in data),
}
JSON_TEXTS = tuple(_JSON_CHECKS)
TEXTS = (
    *(*JSON_TEXTS, "outcome", "trial", "point", "started_utc", "strategy", "reason"),
    *("peak_source", "demand_source", "page_cache", "direction", "energy_domain", "machine"),
)
_FIELDS = tuple(f.name for f in fields(TrialRecord))
#: Parts of a record, and what of each is a column: ``sampler_…``, ``storage_…``.
PARTS = {
    "sampler": tuple(f.name for f in fields(SamplerReport)),
    "watched": ("stat_interval_s", "flushes"),
    "kill": tuple(f.name for f in fields(KillReport)),
    "storage": tuple(f.name for f in fields(StorageSpeed)),
    "walk": ("step", "reference_s"),
    "energy": ("j", "error_j", "round_j", "round_error_j", "execution_j", "execution_error_j"),
    "sensors": ("readings", "cpu_s", "temperature_max_c", "clock_least_hz"),
    "accelerator": ACCELERATOR_COLUMNS,
    "working_set": tuple(f.name for f in fields(WorkingSet)),
}
_ELSEWHERE = {*TEXTS, *PARTS, "schema", "gnu_time", "notes", "missing", "phases", "noise"}
#: A record's own numbers; a truth is 0 or 1.
NUMBERS = tuple(name for name in _FIELDS if name not in _ELSEWHERE)
#: No trial has a tenth of it; a file with more would fill the memory with columns.
_MOST_NOISE = 100


@dataclass
class Texts:
    """One column: for each line the code of its text, :data:`NONE` where there is none."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    words: list[str] = field(default_factory=list)


@dataclass
class ColumnTable:
    """The columns of so many whole lines.

    ``numbers`` has :data:`NUMBERS`, those of :data:`PARTS`, ``noise_…``, ``times_…`` (those of
    :data:`~edgebench.results.trial_lines.TRIAL_TIMES`) and ``rounds_repeat``: NaN where missing,
    and no column where all are. ``places`` is where each line begins in its file.
    """

    places: array[int] = field(default_factory=lambda: array("q"))
    numbers: dict[str, array[float]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=lambda: {name: Texts() for name in TEXTS})

    def __len__(self) -> int:
        return len(self.places)

    def chosen(self, rows: Sequence[int]) -> ColumnTable:
        """These lines alone."""
        if len(rows) == len(self):
            return self
        return ColumnTable(
            array("q", map(self.places.__getitem__, rows)),
            {k: array("d", map(v.__getitem__, rows)) for k, v in self.numbers.items()},
            {
                k: Texts(array("i", map(v.codes.__getitem__, rows)), v.words)
                for k, v in self.texts.items()
            },
        )

    def values(self, name: str, rows: Iterable[int]) -> list[float]:
        """A number of these lines, where it is known; bytes are whole."""
        column = self.numbers.get(name)
        if column is None:
            return []
        known = [value for value in map(column.__getitem__, rows) if value == value]
        return list(map(int, known)) if name.endswith("_bytes") else known

    def words(self, name: str, rows: Iterable[int]) -> list[str | None]:
        """A text of these lines."""
        column = self.texts[name]
        # The last one is for those without.
        return list(map([*column.words, None].__getitem__, map(column.codes.__getitem__, rows)))


def check_text(name: str, text: str) -> None:
    """Check a text of a column.

    Raises:
        ValueError: it is not what a record has there, or not safe to print.
    """
    if name == "outcome" and text not in get_args(Outcome):
        raise ValueError(text)
    if name in _JSON_CHECKS:
        data = safe_json(text.encode())
        if not _JSON_CHECKS[name](data) or json.dumps(data) != json.dumps(json.loads(text)):
            raise ValueError(text)


class _Codes(dict[str | None, int]):
    """Text → code; a new text gets the next one once it is checked."""

    def __init__(self, name: str, words: Iterable[str]) -> None:
        super().__init__({None: NONE})
        self._name = name
        for word in words:
            self[word] = len(self) - 1

    def __missing__(self, word: str) -> int:
        check_text(self._name, word)
        code = self[word] = len(self) - 1
        return code


class TableMaker:
    """A table that grows line by line, from records or from decoded lines."""

    def __init__(self, grown: ColumnTable | None = None) -> None:
        self._table = grown or ColumnTable()
        self._codes = {name: _Codes(name, text.words) for name, text in self._table.texts.items()}

    def add(self, rows: Sequence[Any], places: Iterable[int]) -> None:
        """Some lines more, with where they begin.

        Raises:
            ValueError: settings or limits of a wrong type; nothing was added.
        """
        codes = self._coded(rows)
        for name, texts in self._table.texts.items():
            texts.codes.extend(codes[name])
        for name in NUMBERS:
            self._number(name, list(map(attrgetter(name), rows)))
        for part in PARTS:
            self._part(part, list(map(attrgetter(part), rows)))
        self._noise([row.noise for row in rows])
        self._times(rows)
        self._table.places.extend(places)

    def check(self, row: Any) -> None:
        """Whether the line can be added.

        Raises:
            ValueError: settings or limits of a wrong type.
        """
        self._coded([row])

    def _coded(self, rows: Sequence[Any]) -> dict[str, list[int]]:
        codes = self._codes
        return {name: list(map(codes[name].__getitem__, _texts(name, rows))) for name in TEXTS}

    def table(self) -> ColumnTable:
        """All that was added."""
        for name, codes in self._codes.items():
            self._table.texts[name].words = [word for word in codes if word is not None]
        for column in self._table.numbers.values():
            self._fill(column)
        return self._table

    def _number(self, name: str, values: Sequence[float | None]) -> None:
        if values[0] is None and values.count(None) == len(values):
            return
        column = self._table.numbers.setdefault(name, array("d"))
        self._fill(column)
        before = len(column)
        try:
            column.extend(values)  # type: ignore[arg-type]
        except TypeError:
            del column[before:]
            column.extend([math.nan if value is None else value for value in values])

    def _fill(self, column: array[float]) -> None:
        """Say of the lines before that it is missing."""
        column.extend(array("d", [math.nan]) * (len(self._table.places) - len(column)))

    def _part(self, part: str, made: Sequence[Any]) -> None:
        if made.count(None) < len(made):
            for name in PARTS[part]:
                self._number(f"{part}_{name}", [getattr(one, name, None) for one in made])

    def _noise(self, tables: Sequence[dict[str, Any]]) -> None:
        for key in dict.fromkeys(chain.from_iterable(tables)):
            values = [table.get(key) for table in tables]
            name = f"noise_{key}"
            if name in self._table.numbers or self._noises() < _MOST_NOISE:
                self._number(name, [value if is_number(value) else None for value in values])

    def _noises(self) -> int:
        return sum(name.startswith("noise_") for name in self._table.numbers)

    def _times(self, rows: Sequence[Any]) -> None:
        if any(row.phases for row in rows):
            times = [trial_times(row) for row in rows]
            for name in TRIAL_TIMES:
                self._number(f"times_{name}", [one.get(name) for one in times])
            self._number("rounds_repeat", [rounds_repeat(row) for row in rows])
        else:
            totals = [row.wall_s if row.outcome == "ok" else None for row in rows]
            self._number("times_total", totals)


def columns_from(records: Sequence[TrialRecord]) -> ColumnTable:
    """Records that are at hand as columns; their places are unknown, 0."""
    maker = TableMaker()
    if records:
        maker.add(records, [0] * len(records))
    return maker.table()


def _texts(name: str, rows: Sequence[Any]) -> Iterable[str | None]:
    values = map(attrgetter(name), rows)
    if name not in JSON_TEXTS:
        return values
    return [str(one, "ascii") if type(one) is Raw else _as_json(one) for one in values]


def _as_json(value: Any) -> str | None:
    if isinstance(value, LimitSetting):
        value = asdict(value)
    return json.dumps(value, separators=(",", ":")) if value or value == {} else None
