"""Every sweep and trial below the results' root, as rows for the page; nothing is kept in memory.

Sweeps are named by ``device/folder`` and looked up among those that are there, so that no request
can name a path.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.live.events import metric_of
from edgebench.live.sweep import sweeps_below
from edgebench.records.phases import finished_spans
from edgebench.records.records import TrialRecord
from edgebench.results.layout import TRIALS
from edgebench.results.reading import Sweep, read_sweep
from edgebench.serve.drawn import fast_points, stat_points
from edgebench.serve.shown import plain_settings

#: What of a record becomes a column beside its settings and limits.
_COLUMNS = (
    *("trial", "point", "block", "repeat", "strategy", "outcome", "reason", "started_utc"),
    *("wall_s", "cpu_s", "limit_bytes", "peak_bytes", "peak_source", "saturated"),
    *("sampled_peak_bytes", "swap_peak_bytes", "demand_bytes", "base_bytes"),
    *("gnu_time_maxrss_bytes", "major_faults", "minor_faults", "io_read_bytes", "io_write_bytes"),
)
#: Layers' spans are thousands; a screen shows the phases, and these many of the layers' at most.
_MOST_SPANS = 400


def find_sweep(root: Path, name: str) -> Path:
    """The folder of that name.

    Raises:
        ResultsError: there is none of that name.
    """
    found = next((path for path in sweeps_below(root) if name_of(path) == name), None)
    if found is None:
        raise ResultsError("no such sweep here", remedy="reload the page: it may be gone")
    return found


def name_of(path: Path) -> str:
    """``device/folder``, which no other sweep below the root has."""
    return f"{path.resolve().parent.name}/{path.name}"


def size_of(path: Path) -> int:
    """How much is recorded of a sweep, in bytes: it grows with each trial."""
    return (path / TRIALS).stat().st_size


def sweep_rows(root: Path) -> list[dict[str, Any]]:
    """Every sweep, the newest first; one that can't be read says why."""
    return [_sweep_row(path) for path in reversed(sweeps_below(root))]


def _sweep_row(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"sweep": name_of(path)}
    try:
        sweep = read_sweep(path)
    except ResultsError as error:
        return {**row, "error": str(error)}
    records = [*sweep.records, *sweep.strategy_records]
    plan = sweep.resolved.get("plan")
    started = [record.started_utc for record in records]
    return {
        **row,
        "device": sweep.device,
        "scenario": _scenario_name(sweep),
        "started_utc": min(started, default=None),
        "state": _state(sweep),
        "done": len(records),
        "total": len(plan) if isinstance(plan, list) else None,
        "outcomes": dict(Counter(record.outcome for record in records)),
        "networks": sorted({str(plain_settings(r.settings).get("network", "")) for r in records}),
        "warnings": sweep.warnings,
    }


def _scenario_name(sweep: Sweep) -> str | None:
    scenario = sweep.resolved.get("scenario")
    name = scenario.get("name") if isinstance(scenario, dict) else None
    return name if isinstance(name, str) else None


def _state(sweep: Sweep) -> str:
    if sweep.complete is not None:
        return "complete"
    return "running" if sweep.running else "unfinished"


def trial_rows(root: Path, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Every trial of these sweeps.

    Raises:
        ResultsError: no such sweep, or it can't be read.
    """
    for name in names:
        sweep = read_sweep(find_sweep(root, name))
        for record in (*sweep.records, *sweep.strategy_records):
            yield _trial_row(name, record)


def _trial_row(sweep: str, record: TrialRecord) -> dict[str, Any]:
    limits = asdict(record.limits)
    label = limits.pop("label")
    return {
        "sweep": sweep,
        **{name: getattr(record, name) for name in _COLUMNS},
        "limit": label,
        **{name: value for name, value in limits.items() if value is not None},
        **plain_settings(record.settings),
        "warnings": "; ".join(record.warnings),
    }


def trials_csv(root: Path, names: Iterable[str]) -> str:
    """The same rows as CSV, with every column that one of them has.

    Raises:
        ResultsError: no such sweep, or it can't be read.
    """
    rows = list(trial_rows(root, names))
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns)
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    # A spreadsheet would take such a text for a formula.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def trial_detail(root: Path, name: str, trial: str) -> dict[str, Any]:
    """One trial: its record, its samples thinned out, its phases and layers on the same clock.

    What is missing or damaged is named in ``warnings``, and the rest is given.

    Raises:
        ResultsError: no such sweep or trial.
    """
    sweep = read_sweep(find_sweep(root, name))
    records = (*sweep.records, *sweep.strategy_records)
    record = next((one for one in records if one.trial == trial), None)
    if record is None:
        raise ResultsError("no such trial here", remedy="reload the page: it may be gone")
    data: dict[str, Any] = {"row": _trial_row(name, record), "missing": record.missing}
    warnings: list[str] = []
    try:
        data["fast"] = fast_points(sweep.samples_file(trial))
        data["stat"] = stat_points(sweep.samples_file(trial))
    except ResultsError as error:
        warnings.append(error.what)
    try:
        start_ns = data.get("fast", {}).get("start_ns")
        data |= _from_events(sweep.events(trial), start_ns)
    except ResultsError as error:
        warnings.append(error.what)
    return {**data, "warnings": warnings}


def _from_events(events: list[dict[str, Any]], start_ns: int | None) -> dict[str, Any]:
    spans = finished_spans(events)
    start = start_ns if start_ns is not None else min((s.start_ns for s in spans), default=0)
    whole = [span for span in spans if span.layer is None]
    longest = sorted((s for s in spans if s.layer is not None), key=lambda s: -s.wall_s)
    metrics = [m for e in events if e.get("event") == "note" and (m := metric_of(e, start))]
    every = max(1, len(metrics) // 1000)
    return {
        "spans": [
            {
                "phase": span.phase,
                "network": span.network,
                "layer": span.layer,
                "name": span.name,
                "round": span.round,
                "t_s": (span.start_ns - start) / 1e9,
                "wall_s": span.wall_s,
                "peak_bytes": span.peak_bytes,
                "major_faults": span.major_faults,
            }
            for span in (*whole[:_MOST_SPANS], *longest[:_MOST_SPANS])
        ],
        "metrics": [asdict(metric) for metric in metrics[::every]],
    }
