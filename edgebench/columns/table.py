"""Lines as columns: numbers side by side, and each text once with a code for every line."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec import Raw

from edgebench.columns.line import is_limit, is_list, is_outcome, is_table
from edgebench.records.records import LimitSetting, SamplerReport, TrialRecord
from edgebench.records.shapes import is_number
from edgebench.results.times import TIMES, trial_times

#: The code of a text that is missing.
NONE = -1
#: Texts that are not just any, and what tells a good one. All but the last are JSON.
GOOD: dict[str, Callable[[str], bool]] = {
    "settings": is_table,
    "limits": is_limit,
    "warnings": is_list,
    "outcome": is_outcome,
}
JSON_TEXTS = ("settings", "limits", "warnings")
TEXTS = (
    *(*GOOD, "trial", "point", "started_utc", "strategy", "reason", "peak_source"),
    *("demand_source", "page_cache"),
)
_FIELDS = tuple(f.name for f in fields(TrialRecord))
_ELSEWHERE = {*TEXTS, "schema", "gnu_time", "notes", "missing", "sampler", "phases", "noise"}
#: A record's own numbers; a truth is 0 or 1.
NUMBERS = tuple(name for name in _FIELDS if name not in _ELSEWHERE)
SAMPLER = tuple(f.name for f in fields(SamplerReport))
#: No trial tells a tenth of it; a file that does would fill the memory with columns.
_MOST_NOISE = 100


@dataclass
class Texts:
    """One column: for each line the code of its text, :data:`NONE` where there is none."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    words: list[str] = field(default_factory=list)


@dataclass
class Table:
    """The columns of so many whole lines.

    ``numbers`` has :data:`NUMBERS`, ``sampler_…``, ``noise_…`` and ``times_…`` (the keys of
    :data:`~edgebench.results.times.TIMES`): NaN where missing, and no column where all are.
    ``places`` is where each line begins in its file.
    """

    places: array[int] = field(default_factory=lambda: array("q"))
    numbers: dict[str, array[float]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=lambda: {name: Texts() for name in TEXTS})

    def __len__(self) -> int:
        return len(self.places)

    def chosen(self, rows: Sequence[int]) -> Table:
        """These lines alone."""
        if len(rows) == len(self):
            return self
        return Table(
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


class _Codes(dict[str | None, int]):
    """Text → code; a new text gets the next one, if it is a good one."""

    def __init__(self, words: Iterable[str], is_good: Callable[[str], bool] | None = None) -> None:
        super().__init__({None: NONE})
        self._is_good = is_good
        for word in words:
            self[word] = len(self) - 1

    def __missing__(self, word: str) -> int:
        if self._is_good and not self._is_good(word):
            raise ValueError(word)
        code = self[word] = len(self) - 1
        return code


class TableMaker:
    """A table that grows line by line, from records or from what :mod:`.line` decodes."""

    def __init__(self, grown: Table | None = None) -> None:
        self._table = grown or Table()
        self._codes = {
            name: _Codes(texts.words, GOOD.get(name)) for name, texts in self._table.texts.items()
        }

    def add(self, rows: Sequence[Any], places: Iterable[int]) -> None:
        """Some lines more, with where they begin.

        Raises:
            ValueError: settings or limits that are none; nothing was added.
        """
        codes = self._coded(rows)
        for name, texts in self._table.texts.items():
            texts.codes.extend(codes[name])
        for name in NUMBERS:
            self._number(name, list(map(attrgetter(name), rows)))
        self._sampler([row.sampler for row in rows])
        self._noise([row.noise for row in rows])
        self._times(rows)
        self._table.places.extend(places)

    def check(self, row: Any) -> None:
        """Whether the line can be added.

        Raises:
            ValueError: settings or limits that are none.
        """
        self._coded([row])

    def _coded(self, rows: Sequence[Any]) -> dict[str, list[int]]:
        codes = self._codes
        return {name: list(map(codes[name].__getitem__, _texts(name, rows))) for name in TEXTS}

    def table(self) -> Table:
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

    def _sampler(self, reports: Sequence[Any]) -> None:
        if reports.count(None) < len(reports):
            for name in SAMPLER:
                self._number(f"sampler_{name}", [getattr(r, name, None) for r in reports])

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
            for name in TIMES:
                self._number(f"times_{name}", [one.get(name) for one in times])
        else:
            totals = [row.wall_s if row.outcome == "ok" else None for row in rows]
            self._number("times_total", totals)


def table_of(records: Sequence[TrialRecord]) -> Table:
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
