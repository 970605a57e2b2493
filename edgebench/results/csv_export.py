"""The trials as CSV, made from the sweeps' columns by the standard library alone."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Collection, Sequence
from typing import Any

from edgebench.records import LimitSetting
from edgebench.results.columns import TEXTS
from edgebench.results.frames import LIMITS, ROUND_TIMES, TRIAL_COLUMNS, TRUTHS
from edgebench.results.sweep_reader import Sweep, settings_columns
from edgebench.results.workload_key import WorkloadKey, workloads_of
from edgebench.text import csv_cell

#: The ends of names of columns whose values are no counts, even if all are whole.
FRACTIONS = ("_s", "_share", "_quota", "_c")


def trials_csv(sweeps: Sequence[Sweep], trials: Collection[str] = ()) -> tuple[str, int]:
    """Return the text, with a row a trial and the columns of ``Results.trials``; and its rows.

    Bytes and counts are whole, a missing value is empty.

    Args:
        sweeps: whose trials.
        trials: only these; empty: all.
    """
    rows = [row for sweep in sweeps for row in _rows(sweep)]
    extra = sorted({name for row in rows for name in row} - {*TRIAL_COLUMNS})
    # The median demand of the unlimited trials is of all, also of those that are left out.
    kept = [row for row in rows if not trials or row["trial"] in trials]
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    names = [*TRIAL_COLUMNS, *extra]
    writer.writerow(map(csv_cell, names))
    columns = [_cells(name, [row.get(name) for row in kept]) for name in names]
    writer.writerows(zip(*columns, strict=True))
    return target.getvalue(), len(kept)


def _rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Return each trial's values; those that are missing may have no key."""
    table = sweep.columns
    every = range(len(table))
    texts = {name: table.words(name, every) for name in TEXTS}
    codes, keys = workloads_of(table)
    numbers = {
        name: column for name, column in table.numbers.items() if not name.startswith("times_")
    }
    times = {
        name: table.numbers[kept] for name, kept in ROUND_TIMES.items() if kept in table.numbers
    }
    demands: dict[WorkloadKey, list[float]] = {}
    programs = [WorkloadKey.of(settings, LimitSetting()) for settings in texts["settings"]]
    for program, demand in zip(programs, numbers.get("demand_bytes", ()), strict=False):
        demands.setdefault(program, []).extend([] if math.isnan(demand) else [demand])
    rows = []
    for n in every:
        settings, limits = settings_columns(texts["settings"][n]), texts["limits"][n]
        row = {name: column[n] for name, column in texts.items() if not isinstance(column[n], dict)}
        row |= {name: column[n] for name, column in (numbers | times).items()}
        row |= {name: getattr(limits, key) for name, key in LIMITS.items()}
        row |= settings | {"sweep": sweep.name, "device": sweep.device}
        row["workload"] = keys[codes[n]].id
        row["page_cache"] = texts["page_cache"][n] or settings.get("page_cache")
        row["doubts"] = "; ".join(dict.fromkeys(doubt.kind for doubt in texts["doubts"][n] or ()))
        known = demands.get(programs[n])
        row["workload_demand_bytes"] = statistics.median(known) if known else None
        for name in ("settings", "limits", "ended_in"):
            row.pop(name, None)
        rows.append(row)
    return rows


def _cells(name: str, values: Sequence[Any]) -> list[Any]:
    """Return a column's cells; numbers of one column are all whole or all not."""
    known = [None if value != value else value for value in values]
    if name in TRUTHS:
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
