"""The frame of memory layer by layer: what every strategy saw of each load and execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.reconciling.observed import Observed, SpanKey, observed
from edgebench.results.frames import typed
from edgebench.results.reading import Sweep, settings_columns

_LAYER = ("round", "network", "phase", "layer", "name", "pass_number", "type", "parameter_bytes")
_SETTINGS = ("schedule", "loader", "batch", "limit_label", "limit_bytes", "outcome")
_SEEN = ("before_bytes", "peak_bytes", "after_bytes", "method", "error_bytes", "error_source")
MEMORY_COLUMNS = (
    *("sweep", "device", "point", "trial", "own_trial", "strategy", *_SETTINGS, *_LAYER, *_SEEN),
)
_WHOLE_NUMBERS = ("round", "layer", "pass_number")


def memory_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per trial, layer's span and strategy; timed trials and strategies' own.

    A trial that can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    for sweep in sweeps:
        for record in (*sweep.records, *sweep.strategy_records):
            try:
                trial = observed(sweep, record)
            except ResultsError as error:
                warnings.append(f"memory: trial {record.trial}: {error.what}")
                continue
            about = _about(sweep, trial)
            rows += [{**about, **row} for row in _rows(trial)]
    frame = typed(rows, MEMORY_COLUMNS)
    return frame.astype(dict.fromkeys(_WHOLE_NUMBERS, "int64"))


def _about(sweep: Sweep, trial: Observed) -> dict[str, Any]:
    record = trial.record
    return {
        **settings_columns(record.settings),
        "sweep": sweep.name,
        "device": sweep.device,
        "point": record.point,
        "trial": record.trial,
        "own_trial": record.strategy is not None,
        "limit_label": record.limits.label,
        "limit_bytes": record.limit_bytes,
        "outcome": record.outcome,
    }


def _rows(trial: Observed) -> Iterator[dict[str, Any]]:
    for key in trial.spans:
        if key.layer is None:
            continue
        about = _layer(trial, key)
        for name, reading in trial.readings.items():
            seen = trial.span_reading(name, key)
            if seen is not None:
                yield {
                    **about,
                    "strategy": name,
                    "before_bytes": seen.before_bytes,
                    "peak_bytes": seen.peak_bytes,
                    "after_bytes": seen.after_bytes,
                    "method": reading.span_method,
                    "error_bytes": reading.span_error.size_bytes,
                    "error_source": reading.span_error.source,
                }


def _layer(trial: Observed, key: SpanKey) -> dict[str, Any]:
    table = trial.seen.tables.get(key.network or "", ())
    row = table[key.layer] if key.layer is not None and key.layer < len(table) else {}
    return {
        "round": key.round,
        "network": key.network,
        "phase": key.phase,
        "layer": key.layer,
        "name": trial.spans[key].name,
        "pass_number": key.time,
        "type": row.get("type"),
        "parameter_bytes": row.get("parameter_bytes"),
    }
