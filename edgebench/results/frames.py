"""Frames of phases, and what all frames share: their columns and types.

Identity columns are strings and ``int64``; whatever may be missing is ``float64`` with NaN (exact
up to 2**53), so that arithmetic, fits and figures need no special case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd

from edgebench.records.records import PhaseSum, SamplerReport, TrialRecord
from edgebench.results.reading import Sweep

#: Which trial it is.
IDENTITY = ("sweep", "device", "trial", "point", "block", "repeat")
#: Settings of training alone.
TRAINING = (
    *("framework", "data", "shape", "depth", "width", "activation", "optimizer", "learning_rate"),
    *("accumulation", "precision", "checkpointing", "trained", "start", "steps", "epochs"),
)
#: The workload's settings that every frame has; others follow them in ``trials`` if they occur.
SETTINGS = (
    *("kind", "network", "schedule", "loader", "batch", "image", "rounds", "warm", "threads"),
    *("workers", "page_cache", "command", *TRAINING),
)
#: The limits asked for.
LIMITS = ("limit_label", "memory_bytes", "swap_kind", "swap_bytes", "cores", "cpu_quota")
#: Settings, limits and outcome that rows of phases and layers carry over from their trial.
CARRIED = (*LIMITS, "limit_bytes", "outcome", "saturated", "demand_bytes", "workload_demand_bytes")
_NOT_COLUMNS = {
    *("settings", "limits", "sampler", "phases", "notes", "noise", "missing", "gnu_time"),
    *("schema", "warnings"),
}
_SCALARS = tuple(f.name for f in fields(TrialRecord) if f.name not in _NOT_COLUMNS)
_SAMPLER = tuple(f.name for f in fields(SamplerReport))
_PHASE = ("wall_s", "cpu_s", "peak_bytes", "major_faults", "passes")
INTEGERS = {"block", "repeat", "round", "passes"}
TEXTS = {
    *("sweep", "device", "trial", "point", "limit_label", "swap_kind", "outcome", "reason"),
    *("peak_source", "demand_source", "warnings", "pipeline", "phase"),
    *("kind", "network", "schedule", "loader", "page_cache", "command", "name", "type", "part"),
    *("framework", "data", "shape", "activation", "optimizer", "precision", "trained", "start"),
}
TRIAL_COLUMNS = tuple(
    dict.fromkeys(
        (
            *(*IDENTITY, *SETTINGS, *LIMITS, *_SCALARS, "workload_demand_bytes"),
            *(f"sampler_{name}" for name in _SAMPLER),
            "warnings",
        )
    )
)
PHASE_COLUMNS = (*IDENTITY, *SETTINGS, "pipeline", *CARRIED, "round", "phase", *_PHASE)


def phases_frame(sweeps: Iterable[Sweep], trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, round, network and phase."""
    rows: list[dict[str, Any]] = []
    for sweep in sweeps:
        for record in sweep.records:
            rows += [
                {"sweep": sweep.name, "trial": record.trial, **asdict(phase)}
                for phase in record.phases
            ]
    own = ("sweep", "trial", *(f.name for f in fields(PhaseSum)))
    return with_trial(typed(rows, own), trials, PHASE_COLUMNS)


def with_trial(rows: pd.DataFrame, trials: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Rows with their own ``network`` beside their trial's settings, limits and outcome.

    ``pipeline`` is all of the trial's networks; a row of no network (``import``) gets that too.
    """
    carried = trials[[*IDENTITY, *SETTINGS, *CARRIED]].rename(columns={"network": "pipeline"})
    frame = rows.merge(carried, on=["sweep", "trial"], how="left", validate="many_to_one")
    frame["network"] = frame["network"].where(frame["network"].notna(), frame["pipeline"])
    return frame[list(columns)]


def typed(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Rows as a frame with exactly these columns, each of its one type, also when empty."""
    frame = pd.DataFrame({name: _column(name, [row.get(name) for row in rows]) for name in columns})
    return frame.reset_index(drop=True)


def _column(name: str, values: list[Any]) -> pd.Series[Any]:
    if name in INTEGERS:
        return pd.Series(values, dtype="int64")
    if name in TEXTS or any(isinstance(value, str) for value in values):
        return pd.Series([np.nan if v is None else v for v in values], dtype="object")
    if any(isinstance(value, bool) for value in values) or name == "saturated":
        return pd.Series(values, dtype="boolean")
    return pd.Series(values, dtype="float64")
