"""Training only a part of a network: time, memory and accuracy.

The experiment of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.units import MIB
from edgebench.workloads.training.names import SCRATCH

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results
    from edgebench.results.sweep_reader import Sweep

WHOLE = "all"
#: Settings that are equal in one table.
SHARED = ("network", "data", "start", "batch", "optimizer", "limit_label")
_PHASES = ("data", "forward", "backward", "step")


def partial_frame(results: Results) -> pd.DataFrame:
    """One row a trial: ``step_s`` (median step after the first), memory, losses and accuracy.

    ``own_bytes`` is the kernel's highest peak within a step, above the base; ``gradient_bytes`` is
    the size of gradients before the last update, as the workload reports it. ``…_s`` of each phase
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
    seconds = {f"{phase}_s": step_median(record, phase) for phase in _PHASES}
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
    """The kernel's highest peak within a round, minus the base."""
    peaks = [p.peak_bytes for p in record.phases if p.round >= 0 and p.peak_bytes is not None]
    return max(peaks) - record.base_bytes if peaks and record.base_bytes is not None else None


def step_median(record: TrialRecord, phase: str) -> float | None:
    """The median of a phase's seconds per step, without the first step."""
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
        shared = dict(zip(SHARED, tuple(values), strict=True))
        medians = rows.groupby("trained", sort=False)[figures].median().reset_index()
        whole = medians[medians["trained"] == WHOLE]
        for name in ("step_s", "own_bytes"):
            share = medians[name] / whole[name].iloc[0] if len(whole) else float("nan")
            medians[f"{name}_share"] = share
        setting = f"{shared['network']} on {shared['data']}, batch {shared['batch']:g}"
        title = f"{setting}, {start_label(shared['start'])}"
        tables.append(StudyTable("partial", title, _COLUMNS, frame_rows(medians)))
    return tables


_COLUMNS = (
    Column("trained", "trained", words=True),
    Column("step_s", "ms per step", "{:.2f}", 1e-3),
    Column("step_s_share", "of all", "{:.0%}"),
    Column("backward_s", "ms backward", "{:.2f}", 1e-3),
    Column("own_bytes", "MiB above base", "{:.1f}", MIB),
    Column("own_bytes_share", "of all", "{:.0%}"),
    Column("gradient_bytes", "MiB gradients", "{:.3f}", MIB),
    Column("loss", "last loss", "{:.3f}"),
    Column("accuracy", "test accuracy", "{:.1%}"),
)


def start_label(start: object) -> str:
    """Where training started: the checkpoint without its folder."""
    return "from scratch" if start == SCRATCH else f"from {Path(str(start)).name}"
