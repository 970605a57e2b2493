"""Records as columns: numbers side by side, and each text once with a code for every record.

Which columns there are follows from the types of the record. Standard library alone: ``show``
works on a board without numpy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from edgebench.measures.machine.noise import trial_doubts
from edgebench.records import LimitSetting, TrialRecord, WorkingSet, is_number
from edgebench.results.times import TRIAL_TIMES, Spread, rounds_of, spread_of, trial_times

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The code of a text that is missing.
NONE = -1


def field_kinds(struct: type[msgspec.Struct]) -> dict[str, type]:
    """Each field's type without its bounds and None: ``int``, ``str``, ``list`` or a report."""
    return {one.name: _plain_kind(one.type) for one in msgspec.structs.fields(struct)}


def _plain_kind(kind: Any) -> type:
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    plain = get_origin(kind) or kind
    return str if plain is Literal else plain


_NUMBER_KINDS = (int, float, bool)
_KINDS = field_kinds(TrialRecord)
#: Columns that hold values other than texts, None where they are empty. Doubts are all of a trial.
_VALUES = ("settings", "limits", "doubts", "ended_in")
TEXTS = (*_VALUES, *(name for name, kind in _KINDS.items() if kind is str))
#: A record's own numbers; a bool is 0 or 1.
NUMBERS = tuple(name for name, kind in _KINDS.items() if kind in _NUMBER_KINDS and name != "schema")
#: Numbers of reports that are no columns: what the harness was set to, what a trial ended with.
_LEFT_OUT = {
    *("watched_usage_interval_s", "watched_slow_interval_s", "watched_quiet_interval_s"),
    *("watched_quiet_slow_interval_s", "watched_marks_reset_at_boundaries"),
    *("accelerator_allocated_bytes", "accelerator_reserved_bytes", "accelerator_process_readings"),
}


#: Reports of a record, and what of each is a column: ``sampler_…``, ``storage_…``.
PARTS = {
    part: tuple(
        name
        for name, inner in field_kinds(kind).items()
        if inner in _NUMBER_KINDS and f"{part}_{name}" not in _LEFT_OUT
    )
    for part, kind in _KINDS.items()
    if issubclass(kind, msgspec.Struct) and kind is not LimitSetting
}
_encode = msgspec.json.Encoder().encode
#: No trial has a tenth of it; a file with more would fill the memory with columns.
_MOST_NOISE = 100


@dataclass
class Texts:
    """One column: the code of each record's value, :data:`NONE` where there is none."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    words: list[Any] = field(default_factory=list)


@dataclass
class ColumnTable:
    """The columns of so many records.

    ``numbers`` has :data:`NUMBERS`, those of :data:`PARTS`, ``noise_…``, ``times_…`` (those of
    :data:`~edgebench.results.times.TRIAL_TIMES`) and ``rounds_repeat``: NaN where missing,
    and no column where all are.
    """

    rows: int = 0
    numbers: dict[str, array[float]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.rows

    def values(self, name: str, rows: Iterable[int]) -> list[float]:
        """Return a number of these records, where it is known; bytes are whole."""
        column = self.numbers.get(name)
        if column is None:
            return []
        known = [value for value in map(column.__getitem__, rows) if value == value]
        return list(map(int, known)) if name.endswith("_bytes") else known

    def words(self, name: str, rows: Iterable[int]) -> list[Any]:
        """Return a text of these records, or one of their other values.

        None where there is none.
        """
        column = self.texts[name]
        # The last one is for those without.
        return list(map([*column.words, None].__getitem__, map(column.codes.__getitem__, rows)))

    def add_number(self, name: str, values: Sequence[float | None]) -> None:
        """Add a column unless all its values are missing."""
        if values.count(None) < len(values):
            self.numbers[name] = array("d", [math.nan if v is None else v for v in values])


def columns_of(records: Sequence[TrialRecord]) -> ColumnTable:
    """Return records as columns, in their order."""
    texts = {name: _texts(name, list(map(attrgetter(name), records))) for name in TEXTS}
    texts["doubts"] = _texts("doubts", list(map(trial_doubts, records)))
    table = ColumnTable(len(records), texts=texts)
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
    rounds = list(map(rounds_of, records))
    times = list(map(trial_times, records, rounds))
    for name in TRIAL_TIMES:
        table.add_number(f"times_{name}", [one.get(name) for one in times])
    table.add_number("rounds_repeat", [one.repeat for one in rounds])
    return table


def _texts(name: str, values: Sequence[Any]) -> Texts:
    """Return the column of a text, or of values told apart by their JSON."""
    keys: Sequence[Any] = values
    if name in _VALUES:
        keys = [_encode(value) if value or value == {} else None for value in values]
    unique = dict.fromkeys(keys)
    unique.pop(None, None)
    numbers = {key: number for number, key in enumerate(unique)}
    firsts = dict(zip(reversed(keys), reversed(values), strict=True))
    codes = map({**numbers, None: NONE}.__getitem__, keys)
    return Texts(array("i", codes), [firsts[key] for key in numbers])


#: Columns whose sum it is; what is only cached is no part of it.
COLUMNS = tuple(
    f"working_set_{name}" for name in WorkingSet.__struct_fields__ if name != "cached_bytes"
)


def working_sets(columns: ColumnTable, rows: Sequence[int]) -> Spread | None:
    """Bytes, of those of these trials that were watched; None if none was."""
    parts = [columns.values(name, rows) for name in COLUMNS]
    return spread_of(map(sum, zip(*parts, strict=True)))
