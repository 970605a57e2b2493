"""Frames of training: loss and accuracy step by step, and memory by category."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.measures.categories import IN_MARK
from edgebench.measures.inside import CATEGORIES
from edgebench.records.records import TrialRecord
from edgebench.results.frames import TRAINING, typed
from edgebench.results.reading import Sweep, settings_columns

_ABOUT = ("sweep", "device", "trial", "point", "limit_label", "limit_bytes", "outcome")
_SETTINGS = ("network", "batch", "image", *TRAINING)
STEP_COLUMNS = (*_ABOUT, *_SETTINGS, "step", "loss", "accuracy")
CATEGORY_COLUMNS = (*_ABOUT, *_SETTINGS, "phase", "category", "held_bytes")


def steps_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per timed trial and step of training, also of trials that were killed in one.

    A trial whose events can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    for sweep in sweeps:
        for record in _training(sweep.records):
            try:
                events = sweep.events(record.trial)
            except ResultsError as error:
                warnings.append(f"steps: {error.what} ({error.where})")
                continue
            rows += [{**_about(sweep, record), **step} for step in _steps(events)]
    return typed(rows, STEP_COLUMNS).astype({"step": "int64"})


def categories_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per strategy's trial of memory by category, phase and category.

    What a phase held when it held most; ``peak`` is the whole trial's; ``mark`` is the kernel's
    highest mark, whose rows add up to it. A trial whose figures can't
    be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    for sweep in sweeps:
        for record in _training(sweep.strategy_records):
            if record.strategy != CATEGORIES or record.outcome != "ok":
                continue
            try:
                parts = sweep.reading(record.trial).parts
            except ResultsError as error:
                warnings.append(f"categories: {error.what} ({error.where})")
                continue
            about = _about(sweep, record)
            for name, size in parts.items():
                phase, _, category = name.partition(".")
                rows.append({**about, "phase": phase, "category": category, "held_bytes": size})
    frame = typed(rows, CATEGORY_COLUMNS)
    return frame[frame["category"].isin(IN_MARK)].reset_index(drop=True)


def _training(records: Iterable[TrialRecord]) -> Iterator[TrialRecord]:
    return (record for record in records if record.settings.get("kind") == "training")


def _about(sweep: Sweep, record: TrialRecord) -> dict[str, Any]:
    return {
        **settings_columns(record.settings),
        "sweep": sweep.name,
        "device": sweep.device,
        "trial": record.trial,
        "point": record.point,
        "limit_label": record.limits.label,
        "limit_bytes": record.limit_bytes,
        "outcome": record.outcome,
    }


def _steps(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        told = event.get("data")
        if isinstance(told, dict) and isinstance(told.get("step"), int) and "loss" in told:
            yield {"step": told["step"], "loss": told["loss"], "accuracy": told.get("accuracy")}
