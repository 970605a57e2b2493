"""Frames of memory by layer, and of training's steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from edgebench.records import TrialRecord
from edgebench.results.frames import TRAINING, about_trial, typed
from edgebench.results.sweep_reader import Sweep, events_of, read_each
from edgebench.results.trial_readings import SpanKey, TrialReadings, read_trial

_LAYER = ("round", "network", "phase", "layer", "name", "pass_number", "type", "parameter_bytes")
_SETTINGS = ("schedule", "loader", "batch", "limit_label", "limit_bytes", "outcome")
_SEEN = ("before_bytes", "peak_bytes", "after_bytes", "method", "error_bytes", "error_source")
MEMORY_COLUMNS = (
    *("sweep", "device", "point", "trial", "own_trial", "strategy", *_SETTINGS, *_LAYER, *_SEEN),
)
_ABOUT = ("sweep", "device", "trial", "point", "limit_label", "limit_bytes", "outcome")
_TRAINING_SETTINGS = ("network", "batch", "image", *TRAINING)
STEP_COLUMNS = (*_ABOUT, *_TRAINING_SETTINGS, "step", "loss", "accuracy")
_WHOLE_NUMBERS = ("round", "layer", "pass_number")


def strategies_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per trial, layer's span and strategy; timed trials and strategies' own.

    A trial that can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    trials = ((s, record) for s in sweeps for record in (*s.records, *s.strategy_records))
    for sweep, record, trial in read_each("memory", trials, read_trial, warnings):
        about = {**about_trial(sweep, record), "own_trial": record.strategy is not None}
        rows += [{**about, **row} for row in _rows(trial)]
    frame = typed(rows, MEMORY_COLUMNS)
    return frame.astype(dict.fromkeys(_WHOLE_NUMBERS, "int64"))


def _rows(trial: TrialReadings) -> Iterator[dict[str, Any]]:
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


def _layer(trial: TrialReadings, key: SpanKey) -> dict[str, Any]:
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


def steps_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per timed trial and step of training, also of trials that were killed in one.

    A trial whose events can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    trials = ((sweep, record) for sweep in sweeps for record in _training(sweep.records))
    for sweep, record, events in read_each("steps", trials, events_of, warnings):
        rows += [{**about_trial(sweep, record), **step} for step in _steps(events)]
    return typed(rows, STEP_COLUMNS).astype({"step": "int64"})


def _training(records: Iterable[TrialRecord]) -> Iterator[TrialRecord]:
    return (record for record in records if record.settings.get("kind") == "training")


def _steps(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        data = event.get("data")
        if isinstance(data, dict) and isinstance(data.get("step"), int) and "loss" in data:
            yield {"step": data["step"], "loss": data["loss"], "accuracy": data.get("accuracy")}
