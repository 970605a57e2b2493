"""Frames of phases, and what all frames share: their columns and types.

Identity columns are strings and ``int64``; whatever may be missing is ``float64`` with NaN (exact
up to 2**53), so that arithmetic, fits and figures need no special case. pandas is imported where a
frame is made: the columns' names are also those of CSV, which needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.records import LimitSetting, PhaseSum, TrialRecord, field_kinds
from edgebench.results.columns import PARTS
from edgebench.results.rounds import STEADY, round_stages
from edgebench.results.sweep_reader import Sweep, settings_columns
from edgebench.results.trial_lines import SETTING_TYPES
from edgebench.results.workload_key import HELD

if TYPE_CHECKING:
    import pandas as pd

#: Which trial it is.
#: ``workload`` is :attr:`edgebench.results.workload_key.WorkloadKey.id`.
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
#: Settings of text generation.
GENERATION = ("prompt", "new_tokens")
#: The workload's settings that every frame has; others follow them in ``trials`` if they occur.
SETTINGS = (
    *("kind", "network", "schedule", "loader", "batch", "image", "rounds", "warm", "threads"),
    *("workers", "page_cache", "gc", "command", *ENGINE, *TRAINING),
    *GENERATION,
)
#: The limits asked for: the column → the key of a record's limits.
LIMITS = {f"limit_{key}" if key == "label" else key: key for key in field_kinds(LimitSetting)}
#: What sets workloads apart, as columns: their settings, and the limits other than memory.
DISTINCT = (*SETTINGS, *HELD)
#: Settings, limits and outcome that rows of phases and layers carry over from their trial.
CARRIED = (*LIMITS, "limit_bytes", "outcome", "saturated", "demand_bytes", "workload_demand_bytes")
_SCALARS = {
    name: kind
    for name, kind in field_kinds(TrialRecord).items()
    if kind in (str, int, float, bool) and name != "schema"
}
_PHASE = tuple(name for name in field_kinds(PhaseSum) if name not in ("round", "network", "phase"))
#: What a trial's rounds come to, and the columns of lines that have it.
ROUND_TIMES = {
    "start_s": "times_start",
    "steady_s": "times_steady",
    "rounds_repeat": "rounds_repeat",
}
#: Columns of bools, any of which may be missing.
TRUTHS = {*(name for name, kind in _SCALARS.items() if kind is bool), "rounds_repeat"}
INTEGERS = {"block", "repeat", "round", "passes"}
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
            *(*IDENTITY, *SETTINGS, *LIMITS, *_SCALARS, *ROUND_TIMES, "workload_demand_bytes"),
            *(f"{of}_{name}" for of, names in PARTS.items() for name in names),
            "doubts",
        )
    )
)
PHASE_COLUMNS = (*IDENTITY, *SETTINGS, "pipeline", *CARRIED, "round", "stage", "phase", *_PHASE)


def phases_frame(sweeps: Iterable[Sweep], trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, round, network and phase."""
    rows: list[tuple[str, str, str | None, PhaseSum]] = []
    for sweep in sweeps:
        for record in sweep.records:
            stages = round_stages(record)
            rows += [(sweep.name, record.trial, stages.get(p.round), p) for p in record.phases]
    of_trial = {
        name: [row[at] for row in rows] for at, name in enumerate(("sweep", "trial", "stage"))
    }
    own = {name: [getattr(row[3], name) for row in rows] for name in field_kinds(PhaseSum)}
    return with_trial(typed_columns({**of_trial, **own}), trials, PHASE_COLUMNS)


def with_trial(rows: pd.DataFrame, trials: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Rows with their own ``network`` beside their trial's settings, limits and outcome.

    ``pipeline`` is all of the trial's networks; a row of no network (``import``) gets that too.
    """
    carried = trials[[*IDENTITY, *SETTINGS, *CARRIED]].rename(columns={"network": "pipeline"})
    frame = rows.merge(carried, on=["sweep", "trial"], how="left", validate="many_to_one")
    frame["network"] = frame["network"].where(frame["network"].notna(), frame["pipeline"])
    return frame[list(columns)]


def answering_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of phases or layers that answer: of steady rounds, else a trial's every row."""
    steady = rows["stage"] == STEADY
    has_steady = steady.groupby([rows["sweep"], rows["trial"]]).transform("any")
    return rows[steady | ~has_steady]


def typed(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Rows as a frame with exactly these columns, each of its one type, also when empty."""
    return typed_columns({name: [row.get(name) for row in rows] for name in columns})


def typed_columns(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Columns as a frame, each of its one type, also when empty."""
    import pandas as pd

    frame = pd.DataFrame({name: _column(name, values) for name, values in columns.items()})
    return frame.reset_index(drop=True)


def _column(name: str, values: list[Any]) -> pd.Series[Any]:
    import pandas as pd

    if name in INTEGERS:
        return pd.Series(values, dtype="int64")
    kinds = set(map(type, values))
    if name in TEXTS or any(issubclass(kind, str) for kind in kinds):
        return pd.Series([float("nan") if v is None else v for v in values], dtype="object")
    if bool in kinds or name in TRUTHS:
        return pd.Series(values, dtype="boolean")
    return pd.Series(values, dtype="float64")


def about_trial(sweep: Sweep, record: TrialRecord) -> dict[str, Any]:
    """Return a trial's settings, identity, limit and outcome, as columns of its rows."""
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
