"""What training a part of a network saves, and what it costs in accuracy (study E.4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.studies.tables import Column, StudyTable
from edgebench.training.names import SCRATCH

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records.records import TrialRecord
    from edgebench.results.reading import Sweep
    from edgebench.results.results import Results

WHOLE = "all"
#: What is compared only within itself.
SHARED = ("network", "data", "start", "batch", "optimizer", "limit_label")
_MIB = 1 << 20
_PHASES = ("data", "forward", "backward", "step")


def partial_frame(results: Results) -> pd.DataFrame:
    """One row a trial: ``step_s`` (median step after the first), memory, losses and accuracy.

    ``own_bytes`` is the kernel's highest peak within a step, above the base; ``gradient_bytes`` is
    what gradients held before the last update, told by the workload itself. ``…_s`` of each phase
    are medians a step.

    Raises:
        ResultsError: no trial of this sweep trained a part of a network.
    """
    import pandas as pd

    rows = [_row(sweep, record) for sweep in results.sweeps for record in sweep.records]
    known = [row for row in rows if row is not None]
    if len({row["trained"] for row in known}) < 2:
        raise ResultsError('no parts of a network were trained: trained = ["all", "last"]')
    # As the scenario lists them, not as chance ordered the trials.
    return pd.DataFrame(known).sort_values(["sweep", "point", "trial"], ignore_index=True)


def _row(sweep: Sweep, record: TrialRecord) -> dict[str, Any] | None:
    settings = record.settings
    if "trained" not in settings:
        return None
    held = record.notes.get("held_bytes") or {}
    seconds = {f"{phase}_s": _median(record, phase) for phase in _PHASES}
    return {
        "sweep": sweep.name,
        "trial": record.trial,
        "point": record.point,
        "trained": settings["trained"],
        **{name: settings.get(name) for name in SHARED},
        "limit_label": record.limits.label,
        "outcome": record.outcome,
        **seconds,
        "step_s": sum(s for s in seconds.values() if s is not None) or None,
        "peak_bytes": record.peak_bytes,
        "own_bytes": above_base(record),
        "gradient_bytes": held.get("gradients"),
        "loss": record.notes.get("loss"),
        "accuracy": record.notes.get("test_accuracy"),
    }


def above_base(record: TrialRecord) -> int | None:
    """The kernel's highest peak within a round, less the base: both are all that is charged."""
    peaks = [p.peak_bytes for p in record.phases if p.round >= 0 and p.peak_bytes is not None]
    return max(peaks) - record.base_bytes if peaks and record.base_bytes is not None else None


def _median(record: TrialRecord, phase: str) -> float | None:
    """Of a phase's seconds a step; the first step, which warms everything up, is left out."""
    from statistics import median

    times = [one.wall_s for one in record.phases if one.phase == phase and one.round > 0]
    return median(times) if times else None


def partial_tables(results: Results) -> list[StudyTable]:
    """Each part beside the whole network, in the same setting.

    Raises:
        ResultsError: as :func:`partial_frame`.
    """
    frame = partial_frame(results)
    done = frame[frame["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the parts finished", where=str(results.path))
    figures = ["step_s", "backward_s", "own_bytes", "gradient_bytes", "loss", "accuracy"]
    tables = []
    for values, rows in done.groupby(list(SHARED), dropna=False, sort=True):
        told = dict(zip(SHARED, tuple(values), strict=True))
        medians = rows.groupby("trained", sort=False)[figures].median().reset_index()
        whole = medians[medians["trained"] == WHOLE]
        for name in ("step_s", "own_bytes"):
            share = medians[name] / whole[name].iloc[0] if len(whole) else float("nan")
            medians[f"{name}_share"] = share
        setting = f"{told['network']} on {told['data']}, batch {told['batch']:g}"
        title = f"{setting}, {start_of(told['start'])}"
        rows_ = [{str(k): v for k, v in row.items()} for row in medians.to_dict("records")]
        tables.append(StudyTable("partial", title, _COLUMNS, rows_))
    return tables


_COLUMNS = (
    Column("trained", "trained", words=True),
    Column("step_s", "ms a step", "{:.2f}", 1e-3),
    Column("step_s_share", "of all's", "{:.0%}"),
    Column("backward_s", "ms backward", "{:.2f}", 1e-3),
    Column("own_bytes", "MiB above base", "{:.1f}", _MIB),
    Column("own_bytes_share", "of all's", "{:.0%}"),
    Column("gradient_bytes", "MiB gradients", "{:.3f}", _MIB),
    Column("loss", "last loss", "{:.3f}"),
    Column("accuracy", "test accuracy", "{:.1%}"),
)


def start_of(start: object) -> str:
    """Where training began, in words: the checkpoint without its folder."""
    return "from scratch" if start == SCRATCH else f"from {Path(str(start)).name}"
