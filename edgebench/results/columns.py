"""Trials as columns: numbers side by side, and each text once with a code for every record.

Each column of a trial is defined here, once: its name, its type, and how it is taken from the
records. The rows of CSV and the frame of trials are both made from here. Units are in the names:
``_bytes``, ``_s``, ``_c``. Standard library alone: ``show`` and ``export`` work without numpy.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from edgebench.measures.machine.noise import trial_doubts
from edgebench.records import LimitSetting, TrialRecord, WorkingSet, is_number
from edgebench.results.layout import SETTING_TYPES
from edgebench.results.times import TRIAL_TIMES, Spread, rounds_of, spread_of, trial_times
from edgebench.results.workload_key import HELD, WorkloadKey, settings_columns
from edgebench.text import csv_cell

if TYPE_CHECKING:
    from edgebench.results.sweep_reader import Sweep

#: The code of a text that is missing.
_NONE = -1


def field_kinds(struct: type[msgspec.Struct]) -> dict[str, type]:
    """Each field's type without its bounds and None: ``int``, ``str``, ``list`` or a report."""
    kinds: dict[str, type] = {}
    for key in msgspec.structs.fields(struct):
        kind: Any = key.type
        if get_origin(kind) in (Union, UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        plain = get_origin(kind) or kind
        kinds[key.name] = str if plain is Literal else plain
    return kinds


_NUMBER_KINDS = (int, float, bool)
_KINDS = field_kinds(TrialRecord)
#: Columns that hold values other than texts, None where they are empty. Doubts are all of a trial.
_VALUES = ("settings", "limits", "doubts", "ended_in")
_SCALARS = {
    name: kind
    for name, kind in _KINDS.items()
    if kind in (str, *_NUMBER_KINDS) and name != "schema"
}
#: A record's own numbers; a bool is 0 or 1.
_NUMBERS = tuple(name for name, kind in _SCALARS.items() if kind is not str)
_TEXTS = (*_VALUES, *(name for name, kind in _SCALARS.items() if kind is str))
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
    """One column: the code of each record's value, :data:`_NONE` where there is none."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    words: list[Any] = field(default_factory=list)


@dataclass
class ColumnTable:
    """The columns of so many records.

    ``numbers`` has :data:`_NUMBERS`, those of :data:`PARTS`, ``noise_…``, ``times_…`` (those of
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
    texts = {name: _texts(name, list(map(attrgetter(name), records))) for name in _TEXTS}
    texts["doubts"] = _texts("doubts", list(map(trial_doubts, records)))
    table = ColumnTable(len(records), texts=texts)
    for name in _NUMBERS:
        table.add_number(name, list(map(attrgetter(name), records)))
    for part, names in PARTS.items():
        reports = list(map(attrgetter(part), records))
        if reports.count(None) < len(reports):
            for name in names:
                values = [getattr(report, name, None) for report in reports]
                table.add_number(f"{part}_{name}", values)
    for key in islice(dict.fromkeys(chain.from_iterable(r.noise for r in records)), _MOST_NOISE):
        noise = [record.noise.get(key) for record in records]
        table.add_number(f"noise_{key}", [value if is_number(value) else None for value in noise])
    rounds = list(map(rounds_of, records))
    times = list(map(trial_times, records, rounds))
    for name in TRIAL_TIMES:
        table.add_number(f"times_{name}", [seconds.get(name) for seconds in times])
    table.add_number("rounds_repeat", [trial.repeat for trial in rounds])
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
    codes = map({**numbers, None: _NONE}.__getitem__, keys)
    return Texts(array("i", codes), [firsts[key] for key in numbers])


def workloads_of(table: ColumnTable) -> tuple[list[int], list[WorkloadKey]]:
    """For each record of a sweep's columns which of these keys it has; and the keys."""
    settings, limits = table.texts["settings"], table.texts["limits"]
    # Many records, few pairs.
    pairs: dict[tuple[int, int], int] = {}
    both = zip(settings.codes, limits.codes, strict=True)
    codes = [pairs.setdefault(pair, len(pairs)) for pair in both]
    return codes, [WorkloadKey.of(settings.words[place], limits.words[at]) for place, at in pairs]


#: Columns whose sum it is; what is only cached is no part of it.
COLUMNS = tuple(
    f"working_set_{name}" for name in WorkingSet.__struct_fields__ if name != "cached_bytes"
)


def working_sets(columns: ColumnTable, rows: Sequence[int]) -> Spread | None:
    """Bytes, of those of these trials that were watched; None if none was."""
    parts = [columns.values(name, rows) for name in COLUMNS]
    return spread_of(map(sum, zip(*parts, strict=True)))


#: Which trial it is. ``workload`` is :attr:`edgebench.results.workload_key.WorkloadKey.id`.
IDENTITY = ("sweep", "device", "workload", "trial", "point", "block", "repeat")
#: Settings of training alone.
TRAINING = (
    *("framework", "compiled", "data", "shape", "depth", "width", "activation", "optimizer"),
    *("learning_rate", "accumulation", "precision", "checkpointing", "trained", "start"),
    *("steps", "epochs"),
)
#: The engine and its options; missing of torch, and where an option is the engine's own. The
#: accelerator is missing where torch computes on the processor.
_ENGINE = (
    *("engine", "arena", "memory_pattern", "optimization", "prepacking", "xnnpack", "onednn"),
    *("xla", "node_times", "accelerator"),
)
#: The workload's settings that every frame has; others follow them in ``trials`` if they occur.
SETTINGS = (
    *("kind", "network", "schedule", "loader", "batch", "image", "rounds", "warm", "threads"),
    *("workers", "page_cache", "gc", "command", *_ENGINE, *TRAINING, "prompt", "new_tokens"),
)
#: The limits asked for: the column → the key of a record's limits.
_LIMIT_KINDS = field_kinds(LimitSetting)
LIMITS = {f"limit_{key}" if key == "label" else key: key for key in _LIMIT_KINDS}
#: What sets workloads apart, as columns: their settings, and the limits other than memory.
DISTINCT = (*SETTINGS, *HELD)
#: What a trial's rounds come to → the column of :class:`~edgebench.results.columns.ColumnTable`.
_ROUND_TIMES = {
    "start_s": "times_start",
    "steady_s": "times_steady",
    "rounds_repeat": "rounds_repeat",
}
#: Columns of bools, any of which may be missing.
BOOLS = {*(name for name, kind in _SCALARS.items() if kind is bool), "rounds_repeat"}
TEXTS = {
    *(name for name, kind in _SCALARS.items() if kind is str),
    *(name for name, key in LIMITS.items() if _LIMIT_KINDS[key] is str),
    *(name for name in SETTINGS if SETTING_TYPES.get(name) is str),
    *("sweep", "device", "workload", "command", "doubts", "pipeline", "phase", "stage", "domain"),
    *("name", "type", "part"),
}
TRIAL_COLUMNS = tuple(
    dict.fromkeys(
        (
            *(*IDENTITY, *SETTINGS, *LIMITS, *_SCALARS, *_ROUND_TIMES, "workload_demand_bytes"),
            *(f"{of}_{name}" for of, names in PARTS.items() for name in names),
            "doubts",
        )
    )
)
#: The ends of names of columns whose values are no counts, even if all are whole.
FRACTIONS = ("_s", "_share", "_quota", "_c")
Column: TypeAlias = "Texts | array[float]"


class TrialColumns:
    """The columns of one sweep's trials; a column that nothing is known of has no words."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._table = sweep.columns
        self._settings = self._table.texts["settings"]
        self._flat = [settings_columns(settings) for settings in self._settings.words]

    def names(self) -> set[str]:
        """Return the columns that not all sweeps have: further settings, and ``noise_…``."""
        noise = {name for name in self._table.numbers if name.startswith("noise_")}
        return {name for settings in self._flat for name in settings} | noise

    def column(self, name: str) -> Column:
        """Return a column, by its name in the frame of trials."""
        table, rows = self._table, len(self._table)
        if name in ("sweep", "device"):
            value = self._sweep.name if name == "sweep" else self._sweep.device
            return Texts(array("i", [0]) * rows, [value])
        if name in LIMITS:
            limits = table.texts["limits"]
            return Texts(limits.codes, [getattr(limit, LIMITS[name]) for limit in limits.words])
        if name == "workload":
            codes, keys = workloads_of(table)
            return Texts(array("i", codes), [key.id for key in keys])
        if name == "workload_demand_bytes":
            return self._workload_demands()
        if name == "doubts":
            doubts = table.texts["doubts"]
            kinds = (dict.fromkeys(doubt.kind for doubt in trial) for trial in doubts.words)
            shown = ["", *map("; ".join, kinds)]
            return Texts(array("i", [code + 1 for code in doubts.codes]), shown)
        if name == "page_cache":
            # The state in which it was found; else the one that was asked for.
            state, asked = table.texts["page_cache"], len(table.texts["page_cache"].words)
            both = zip(state.codes, self._settings.codes, strict=True)
            codes = [at if at != _NONE and state.words[at] else asked + of for at, of in both]
            words = [*state.words, *(settings.get("page_cache") for settings in self._flat)]
            return Texts(array("i", codes), words)
        if name in _SCALARS and name in table.texts:
            return table.texts[name]
        kept = _ROUND_TIMES.get(name, name)
        if kept in table.numbers:
            return table.numbers[kept]
        return Texts(self._settings.codes, [settings.get(name) for settings in self._flat])

    def _workload_demands(self) -> Texts:
        """Return the median demand of the trials that ran the same, whatever their limits."""
        nothing = LimitSetting()
        keys = [WorkloadKey.of(settings, nothing) for settings in self._settings.words]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        program = [numbers[key] for key in keys]
        codes = array("i", [program[code] for code in self._settings.codes])
        known: list[list[float]] = [[] for _ in numbers]
        for code, demand in zip(codes, self._table.numbers.get("demand_bytes", ()), strict=False):
            if demand == demand:
                known[code].append(demand)
        return Texts(codes, [statistics.median(sizes) if sizes else None for sizes in known])


def trial_names(sweeps: Sequence[TrialColumns]) -> list[str]:
    """Return the names of all columns of these sweeps' trials, in their order."""
    return [*TRIAL_COLUMNS, *sorted({n for one in sweeps for n in one.names()} - {*TRIAL_COLUMNS})]


def trials_csv(sweeps: Sequence[Sweep], trials: Collection[str] = ()) -> tuple[str, int]:
    """Return the text, with a row a trial and the columns of ``Results.trials``; and its rows.

    Bytes and counts are whole, a missing value is empty.

    Args:
        sweeps: whose trials.
        trials: only these; empty: all.
    """
    sources = [TrialColumns(sweep) for sweep in sweeps]
    ids = trial_values("trial", sources)
    kept = [row for row, trial in enumerate(ids) if not trials or trial in trials]
    names = trial_names(sources)
    columns = []
    for name in names:
        values = trial_values(name, sources)
        columns.append(_cells(name, [values[row] for row in kept]))
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(map(csv_cell, names))
    writer.writerows(zip(*columns, strict=True))
    return target.getvalue(), len(kept)


def trial_values(name: str, sources: Sequence[TrialColumns]) -> list[Any]:
    """Return a column of all these sweeps; None or NaN where a value is missing."""
    values: list[Any] = []
    for column in (source.column(name) for source in sources):
        if isinstance(column, Texts):
            # The last one is for those without.
            values += map([*column.words, None].__getitem__, column.codes)
        else:
            values += column
    return values


def _cells(name: str, values: Sequence[Any]) -> list[Any]:
    """Return a column's cells; numbers of one column are all whole or all not."""
    known = [None if value != value else value for value in values]
    if name in BOOLS:
        return ["" if value is None else bool(value) for value in known]
    numbers = [value for value in known if isinstance(value, (int, float))]
    whole = not name.endswith(FRACTIONS) and all(float(value).is_integer() for value in numbers)
    cells: list[Any] = []
    for value in known:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            cells.append(int(value) if whole else float(value))
        else:
            cells.append("" if value is None else csv_cell(value))
    return cells
