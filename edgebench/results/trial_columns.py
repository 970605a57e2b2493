"""Every column of a trial, defined once: its name, its type, and how it is taken from the records.

The rows of CSV and the frame of trials are both made from here, so that ``export`` needs neither
numpy nor pandas for CSV. Units are in the names: ``_bytes``, ``_s``, ``_c``.
"""

from __future__ import annotations

import csv
import io
import statistics
from array import array
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.columns import NONE, PARTS, Texts, field_kinds
from edgebench.results.layout import SETTING_TYPES
from edgebench.results.sweep_reader import Sweep, settings_columns
from edgebench.results.workload_key import HELD, WorkloadKey, workloads_of
from edgebench.text import csv_cell

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
ENGINE = (
    *("engine", "arena", "memory_pattern", "optimization", "prepacking", "xnnpack", "onednn"),
    *("xla", "node_times", "accelerator"),
)
#: The workload's settings that every frame has; others follow them in ``trials`` if they occur.
SETTINGS = (
    *("kind", "network", "schedule", "loader", "batch", "image", "rounds", "warm", "threads"),
    *("workers", "page_cache", "gc", "command", *ENGINE, *TRAINING, "prompt", "new_tokens"),
)
#: The limits asked for: the column → the key of a record's limits.
LIMITS = {f"limit_{key}" if key == "label" else key: key for key in field_kinds(LimitSetting)}
#: What sets workloads apart, as columns: their settings, and the limits other than memory.
DISTINCT = (*SETTINGS, *HELD)
_SCALARS = {
    name: kind
    for name, kind in field_kinds(TrialRecord).items()
    if kind in (str, int, float, bool) and name != "schema"
}
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
    *(name for name, key in LIMITS.items() if field_kinds(LimitSetting)[key] is str),
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
            return Texts(limits.codes, [getattr(one, LIMITS[name]) for one in limits.words])
        if name == "workload":
            codes, keys = workloads_of(table)
            return Texts(array("i", codes), [key.id for key in keys])
        if name == "workload_demand_bytes":
            return self._workload_demands()
        if name == "doubts":
            doubts = table.texts["doubts"]
            kinds = ["; ".join(dict.fromkeys(one.kind for one in own)) for own in doubts.words]
            return Texts(array("i", [code + 1 for code in doubts.codes]), ["", *kinds])
        if name == "page_cache":
            # The state in which it was found; else the one that was asked for.
            state, asked = table.texts["page_cache"], len(table.texts["page_cache"].words)
            both = zip(state.codes, self._settings.codes, strict=True)
            codes = [at if at != NONE and state.words[at] else asked + of for at, of in both]
            words = [*state.words, *(one.get("page_cache") for one in self._flat)]
            return Texts(array("i", codes), words)
        if name in _SCALARS and name in table.texts:
            return table.texts[name]
        kept = _ROUND_TIMES.get(name, name)
        if kept in table.numbers:
            return table.numbers[kept]
        return Texts(self._settings.codes, [one.get(name) for one in self._flat])

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
        return Texts(codes, [statistics.median(own) if own else None for own in known])


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
