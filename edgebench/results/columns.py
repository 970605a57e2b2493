"""Records as columns: numbers side by side, and each text once with a code for every record.

Standard library alone: ``show`` works on a board without numpy.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from edgebench.accelerator_report import ACCELERATOR_COLUMNS
from edgebench.boards.storage import StorageSpeed
from edgebench.records import KillReport, LimitSetting, SamplerReport, TrialRecord, is_number
from edgebench.results.stages import rounds_repeat
from edgebench.results.trial_lines import TRIAL_TIMES, trial_times
from edgebench.working_set import WorkingSet

#: The code of a text that is missing.
NONE = -1
#: Texts that are JSON.
JSON_TEXTS = ("settings", "limits", "warnings")
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
_encode = json.JSONEncoder(separators=(",", ":")).encode
#: No trial has a tenth of it; a file with more would fill the memory with columns.
_MOST_NOISE = 100


@dataclass
class Texts:
    """One column: the code of each record's text, :data:`NONE` where there is none."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    words: list[str] = field(default_factory=list)


@dataclass
class ColumnTable:
    """The columns of so many records.

    ``numbers`` has :data:`NUMBERS`, those of :data:`PARTS`, ``noise_…``, ``times_…`` (those of
    :data:`~edgebench.results.trial_lines.TRIAL_TIMES`) and ``rounds_repeat``: NaN where missing,
    and no column where all are.
    """

    rows: int = 0
    numbers: dict[str, array[float]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.rows

    def values(self, name: str, rows: Iterable[int]) -> list[float]:
        """A number of these records, where it is known; bytes are whole."""
        column = self.numbers.get(name)
        if column is None:
            return []
        known = [value for value in map(column.__getitem__, rows) if value == value]
        return list(map(int, known)) if name.endswith("_bytes") else known

    def words(self, name: str, rows: Iterable[int]) -> list[str | None]:
        """A text of these records."""
        column = self.texts[name]
        # The last one is for those without.
        return list(map([*column.words, None].__getitem__, map(column.codes.__getitem__, rows)))

    def add_number(self, name: str, values: Sequence[float | None]) -> None:
        """Add a column unless all its values are missing."""
        if values.count(None) < len(values):
            self.numbers[name] = array("d", [math.nan if v is None else v for v in values])


def columns_of(records: Sequence[TrialRecord]) -> ColumnTable:
    """Records as columns, in their order."""
    table = ColumnTable(len(records), texts={name: _texts(name, records) for name in TEXTS})
    for name in NUMBERS:
        table.add_number(name, list(map(attrgetter(name), records)))
    for part, names in PARTS.items():
        reports = list(map(attrgetter(part), records))
        if reports.count(None) < len(reports):
            for name in names:
                values = [getattr(report, name, None) for report in reports]
                table.add_number(f"{part}_{name}", values)
    for key in islice(dict.fromkeys(chain.from_iterable(r.noise for r in records)), _MOST_NOISE):
        noise = [record.noise.get(key) for record in records]
        table.add_number(f"noise_{key}", [one if is_number(one) else None for one in noise])
    times = [trial_times(record) for record in records]
    for name in TRIAL_TIMES:
        table.add_number(f"times_{name}", [one.get(name) for one in times])
    table.add_number("rounds_repeat", list(map(rounds_repeat, records)))
    return table


def _texts(name: str, records: Sequence[TrialRecord]) -> Texts:
    values = map(attrgetter(name), records)
    codes: dict[str, int] = {}
    texts = Texts()
    for text in map(_as_json, values) if name in JSON_TEXTS else values:
        texts.codes.append(NONE if text is None else codes.setdefault(text, len(codes)))
    texts.words = list(codes)
    return texts


def _as_json(value: Any) -> str | None:
    if isinstance(value, LimitSetting):
        value = vars(value)
    return _encode(value) if value or value == {} else None
