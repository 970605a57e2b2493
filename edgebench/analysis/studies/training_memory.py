"""Memory of training and of inference, by heap profilers and by the cgroup.

The comparison of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.partial_training import above_base
from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.units import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

KIND, INFERENCE = "training", "none"
#: Heap profilers, as strategies are named.
HEAPS = ("memray", "tcmalloc", "massif")
#: The peak of an accelerator's allocator.
ACCELERATOR = "accelerator_bytes"


def training_memory_frame(results: Results) -> pd.DataFrame:
    """One row per network, mode and batch: the cgroup's figures and each heap profiler's peak.

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
        found = {point: peak for (point, strategy), peak in heaps.items() if strategy == name}
        if found:
            frame[f"{name}_bytes"] = frame["point"].map(found)
    return frame


def _timed_rows(results: Results) -> list[dict[str, Any]]:
    """The figures of each timed training that finished."""
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
    """Point and profiler → its peak."""
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
    """Networks side by side in training and in inference.

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
