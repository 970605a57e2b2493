"""Studies of training: only a part of a network, and memory in training and in inference.

The experiments of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices": time, memory and accuracy of a part; memory by heap profilers and by
the cgroup.
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
    """Make one row a trial: ``step_s`` (median after the first), memory, losses and accuracy.

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
    """Subtract the base from the kernel's highest peak within a round."""
    peaks = [p.peak_bytes for p in record.phases if p.round >= 0 and p.peak_bytes is not None]
    return max(peaks) - record.base_bytes if peaks and record.base_bytes is not None else None


def step_median(record: TrialRecord, phase: str) -> float | None:
    """Take the median of a phase's seconds per step, without the first step."""
    from statistics import median

    times = [span.wall_s for span in record.phases if span.phase == phase and span.round > 0]
    return median(times) if times else None


def partial_tables(results: Results) -> list[StudyTable]:
    """Make a table for each setting: each part beside the whole network.

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
    """Say where training started: the checkpoint without its folder."""
    return "from scratch" if start == SCRATCH else f"from {Path(str(start)).name}"


KIND, INFERENCE = "training", "none"
#: Heap profilers, as strategies are named.
HEAPS = ("memray", "tcmalloc", "massif")
#: The peak of an accelerator's allocator.
ACCELERATOR = "accelerator_bytes"


def training_memory_frame(results: Results) -> pd.DataFrame:
    """Make one row per network, mode, batch: the cgroup's figures, each heap profiler's peak.

    ``mode`` is ``training`` or ``inference``. Bytes: ``demand_bytes`` (median of timed trials),
    ``base_bytes``, ``above_bytes`` (the kernel's peak within a step less the base), each
    profiler's peak, as ``memray_bytes``, and ``accelerator_bytes``, where one computed: the peak
    of torch's allocator there.

    Raises:
        ResultsError: no heap profiler ran on a training workload in this sweep.
    """
    import pandas as pd

    heaps = _heaps(results)
    if not heaps:
        raise ResultsError('no heap profiler ran on a training workload: strategies = ["memray"]')
    timed = pd.DataFrame(_timed_rows(results))
    keys = ["point", "network", "mode", "batch", "accelerator"]
    figures = ["demand_bytes", "base_bytes", "above_bytes"]
    if timed[ACCELERATOR].notna().any():
        timed = timed.astype({ACCELERATOR: "float64"})
        figures.append(ACCELERATOR)
    frame = timed.groupby(keys, as_index=False)[figures].median()
    for name in HEAPS:
        peaks = {point: peak for (point, strategy), peak in heaps.items() if strategy == name}
        if peaks:
            frame[f"{name}_bytes"] = frame["point"].map(peaks)
    return frame


def _timed_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "point": record.point,
            "network": record.settings["network"],
            "mode": "inference" if record.settings.get("trained") == INFERENCE else "training",
            "batch": record.settings["batch"],
            "demand_bytes": record.demand_bytes,
            "base_bytes": record.base_bytes,
            "above_bytes": above_base(record),
            "accelerator": record.settings.get("accelerator", ""),
            ACCELERATOR: record.accelerator and record.accelerator.peak_allocated_bytes,
        }
        for record in results.sweeps[0].records
        if record.settings["kind"] == KIND and record.outcome == "ok"
    ]


def _heaps(results: Results) -> dict[tuple[str, str], int | None]:
    sweep = results.sweeps[0]
    return {
        (record.point, record.strategy): sweep.reading(record.trial).peak_bytes
        for record in sweep.strategy_records
        if record.strategy in HEAPS
        and record.settings["kind"] == KIND
        and record.outcome == "ok"
        and "reading" not in record.missing
    }


def training_memory_tables(results: Results) -> list[StudyTable]:
    """Make the table of networks side by side in training and in inference.

    Raises:
        ResultsError: as :func:`training_memory_frame`.
    """
    frame = training_memory_frame(results).sort_values(["mode", "network", "batch"], kind="stable")
    heaps = [name for name in HEAPS if f"{name}_bytes" in frame]
    columns = (
        Column("network", "network", words=True),
        Column("mode", "", words=True),
        Column("batch", "batch", "{:g}"),
        Column("demand_bytes", "cgroup's demand", "{:.1f}", MIB),
        Column("base_bytes", "base", "{:.1f}", MIB),
        Column("above_bytes", "above base", "{:.1f}", MIB),
        *(Column(f"{name}_bytes", f"heap ({name})", "{:.1f}", MIB) for name in heaps),
    )
    if ACCELERATOR in frame:
        where = Column("accelerator", "accelerator", words=True)
        columns += (where, Column(ACCELERATOR, "its peak", "{:.1f}", MIB))
    title = "Memory of training and inference, MiB"
    return [StudyTable("memory", title, columns, frame_rows(frame))]
