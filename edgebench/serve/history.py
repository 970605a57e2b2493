"""Every sweep and trial below the results' root, as rows for the page; nothing is kept in memory.

Sweeps are named by ``device/folder`` and looked up among those that are there, so that no request
can name a path. A trial's samples are read without numpy: of each stretch of rows the lowest and
highest usage are kept, so that no peak is lost.
"""

from __future__ import annotations

import ast
import csv
import io
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.answers.trials import warned, warning_lines
from edgebench.errors import ResultsError
from edgebench.measures.machine.noise import trial_doubts
from edgebench.records import TrialRecord
from edgebench.results.layout import COMPLETE, trials_file
from edgebench.results.live_file import metric_of
from edgebench.results.live_sweep import sweeps_below
from edgebench.results.sweep_reader import Sweep, read_sweep
from edgebench.safe_files import check_unpacked, open_to_read
from edgebench.serve.live import plain_settings
from edgebench.spans import finished_spans
from edgebench.text import csv_cell

#: The fields of a record that become columns beside its settings and limits.
_COLUMNS = (
    *("trial", "point", "block", "repeat", "strategy", "outcome", "reason", "started_utc"),
    *("exit_code", "oom_kills", "killed_with_swap_free"),
    *("wall_s", "cpu_s", "limit_bytes", "peak_bytes", "peak_source", "saturated"),
    *("sampled_peak_bytes", "swap_peak_bytes", "demand_bytes", "base_bytes"),
    *("gnu_time_maxrss_bytes", "major_faults", "minor_faults", "io_read_bytes", "io_write_bytes"),
)
_SPAN_KEYS = ("phase", "network", "layer", "name", "round", "wall_s", "peak_bytes", "major_faults")
#: Of thousands of spans a screen shows so many phases, and so many layers.
_MOST_SPANS = 400
_MOST_METRICS = 1000
#: How many stretches are drawn.
_MOST_POINTS = 1000
_MAGIC = b"\x93NUMPY\x01\x00"


def find_sweep(root: Path, name: str) -> Path:
    """Return the folder of that name.

    Raises:
        ResultsError: there is none of that name.
    """
    for path in sweeps_below(root):
        if sweep_name(path) == name:
            return path
    raise _removed("sweep")


def _removed(what: str) -> ResultsError:
    return ResultsError(f"no such {what} here", remedy="reload the page: it may have been removed")


def sweep_name(path: Path) -> str:
    """``device/folder``, which no other sweep below the root has."""
    return f"{path.resolve().parent.name}/{path.name}"


def recorded_version(path: Path) -> tuple[int, bool]:
    """Return the size of a sweep's records, which grows, and whether it is complete.

    Raises:
        ResultsError: the sweep was removed meanwhile.
    """
    try:
        if file := trials_file(path):
            return file.stat().st_size, (path / COMPLETE).exists()
    except FileNotFoundError:
        pass
    raise _removed("sweep") from None


def sweep_names(root: Path) -> list[str]:
    """Every sweep's name, the newest first."""
    return [sweep_name(path) for path in reversed(sweeps_below(root))]


def sweep_rows(root: Path) -> list[dict[str, Any]]:
    """Every sweep, the newest first; one that can't be read says why."""
    rows = []
    for path in reversed(sweeps_below(root)):
        row: dict[str, Any] = {"sweep": sweep_name(path)}
        rows.append(row)
        try:
            sweep = read_sweep(path)
        except ResultsError as error:
            row["error"] = str(error)
            continue
        records, plan = _records(sweep), sweep.resolved.get("plan")
        unfinished = "running" if sweep.running else "unfinished"
        networks = {str(plain_settings(r.settings).get("network", "")) for r in records}
        row |= {
            "started_utc": min((record.started_utc for record in records), default=None),
            "state": unfinished if sweep.complete is None else "complete",
            "done": len(records),
            "total": len(plan) if isinstance(plan, list) else None,
            "outcomes": dict(Counter(record.outcome for record in records)),
            "networks": sorted(networks),
            "warnings": sweep.warnings,
        }
    return rows


def _records(sweep: Sweep) -> Sequence[TrialRecord]:
    return [*sweep.records, *sweep.strategy_records]


def trial_rows(root: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Every trial of these sweeps.

    Raises:
        ResultsError: no such sweep, or it can't be read.
    """
    sweeps = {name: read_sweep(find_sweep(root, name)) for name in names}
    return [_trial_row(name, record) for name in names for record in _records(sweeps[name])]


def _trial_row(sweep: str, record: TrialRecord) -> dict[str, Any]:
    limits = structs.asdict(record.limits)
    label = limits.pop("label")
    return {
        "sweep": sweep,
        **{name: getattr(record, name) for name in _COLUMNS},
        "limit": label,
        **{name: value for name, value in limits.items() if value is not None},
        **plain_settings(record.settings),
        "warnings": "; ".join(warning_lines(warned(trial_doubts(record)))),
    }


def trials_csv(root: Path, names: Sequence[str]) -> str:
    """Return the same rows as CSV, with every column that one of them has.

    Raises:
        ResultsError: no such sweep, or it can't be read.
    """
    rows = trial_rows(root, names)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    lines: list[list[Any]] = [columns, *([row.get(key) for key in columns] for row in rows)]
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
    return out.getvalue()


def trial_detail(root: Path, name: str, trial: str) -> dict[str, Any]:
    """One trial: its record, its samples as points, its phases and layers on the same clock.

    What is missing or damaged is named in ``warnings``, and the rest is given.

    Raises:
        ResultsError: no such sweep or trial.
    """
    sweep = read_sweep(find_sweep(root, name))
    record = next((one for one in _records(sweep) if one.trial == trial), None)
    if record is None:
        raise _removed("trial")
    data: dict[str, Any] = {"row": _trial_row(name, record)}
    warnings: list[str] = []
    try:
        data["fast"] = fast_points(sweep.samples_file(trial))
        data["stat"] = stat_points(sweep.samples_file(trial), data["fast"]["start_ns"])
    except ResultsError as error:
        warnings.append(error.what)
    try:
        data |= _from_events(sweep.events(trial), data.get("fast", {}).get("start_ns"))
    except ResultsError as error:
        warnings.append(error.what)
    return {**data, "warnings": warnings}


def _from_events(events: list[dict[str, Any]], start_ns: int | None) -> dict[str, Any]:
    """Return the phases, the longest layers and a training's metrics, on the samples' clock."""
    spans = finished_spans(events)
    start = start_ns if start_ns is not None else min((s.start_ns for s in spans), default=0)
    phases = [span for span in spans if span.layer is None]
    layers = sorted((s for s in spans if s.layer is not None), key=lambda s: -s.wall_s)
    metrics = [m for e in events if e.get("event") == "note" and (m := metric_of(e, start))]
    return {
        "spans": [
            {"t_s": (span.start_ns - start) / 1e9}
            | {name: getattr(span, name) for name in _SPAN_KEYS}
            for span in [*phases[:_MOST_SPANS], *layers[:_MOST_SPANS]]
        ],
        "metrics": [asdict(m) for m in metrics[:: max(1, len(metrics) // _MOST_METRICS)]],
    }


def fast_points(path: Path, points: int = _MOST_POINTS) -> dict[str, Any]:
    """Usage and swap of one trial over time: ``columns``, ``rows`` and how many ``samples``.

    Rows are seconds after the first sample, lowest usage, highest usage, highest swap (None where
    the kernel doesn't tell).

    Raises:
        ResultsError: missing or damaged.
    """
    samples, rows = 0, []
    for stretch in _stretches(path, "fast", points):
        t_ns, usage = stretch["t_ns"], stretch["usage_bytes"]
        samples += len(t_ns)
        rows.append([t_ns[0], min(usage), max(usage), max(stretch["swap_bytes"])])
    start_ns = rows[0][0] if rows else 0
    columns = ["t_s", "low_bytes", "high_bytes", "swap_bytes"]
    return {"samples": samples, "start_ns": start_ns, **_table(columns, rows, start_ns)}


def stat_points(path: Path, start_ns: int, points: int = _MOST_POINTS // 2) -> dict[str, Any]:
    """Usage by kind over time: the last row of each stretch, all columns; seconds after the start.

    Raises:
        ResultsError: missing or damaged.
    """
    last = [
        {name: column[-1] for name, column in s.items()} for s in _stretches(path, "stat", points)
    ]
    names = [name for name in (last[0] if last else ()) if name != "t_ns"]
    rows = [[row["t_ns"], *(row[name] for name in names)] for row in last]
    return _table(["t_s", *names], rows, start_ns)


def _table(columns: list[str], rows: list[list[int]], start_ns: int) -> dict[str, Any]:
    """Return rows with seconds for nanoseconds, and None for what the kernel doesn't tell."""
    timed = [
        [(t_ns - start_ns) / 1e9, *(value if value >= 0 else None for value in rest)]
        for t_ns, *rest in rows
    ]
    return {"columns": columns, "rows": timed}


def _stretches(path: Path, name: str, points: int) -> Iterator[dict[str, array[int]]]:
    """Yield the columns of at most so many stretches of a table (numpy.lib.format, version 1.0)."""
    try:
        with (
            open_to_read(path) as packed,
            zipfile.ZipFile(packed) as archive,
            archive.open(f"{name}.npy") as file,
        ):
            check_unpacked(archive.getinfo(f"{name}.npy"))
            if file.read(8) != _MAGIC:
                raise ValueError("no table")
            text = file.read(int.from_bytes(file.read(2), "little")).decode("latin-1")
            head = ast.literal_eval(text)
            names = [name for name, kind in head["descr"] if kind == "<i8"]
            if len(names) != len(head["descr"]) or "t_ns" not in names or head["fortran_order"]:
                raise ValueError("no table of samples")
            step, rows = len(names), int(head["shape"][0])
            every = max(1, -(-rows // points))
            for first in range(0, rows, every):
                count = min(every, rows - first) * step
                values = array("q", file.read(8 * count))
                if len(values) < count:
                    raise ValueError("they end early")
                yield {name: values[at::step] for at, name in enumerate(names)}
    except (OSError, EOFError, KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
        raise ResultsError(f"damaged samples: {error}", where=str(path)) from None
