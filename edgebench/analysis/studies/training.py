"""Studies of training: a part of a network, memory beside inference, and several frameworks.

The experiments of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices": time, memory and accuracy of a part; memory by heap profilers and by
the cgroup. And the comparison of Torres, Barrios and Denneulin, "Computational Resource Consumption
in Convolutional Neural Network Training – A Focus on Memory": memory and time by phase of each
framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.phases import core_frame
from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.text import MIB
from edgebench.workloads.training.names import GRAPH, PYTORCH, SCRATCH, TITLES

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results


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

    rows = []
    for sweep, record in ((s, record) for s in results.sweeps for record in s.records):
        settings, notes = record.settings, record.notes
        if "trained" not in settings:
            continue
        seconds = {f"{phase}_s": step_median(record, phase) for phase in _PHASES}
        rows.append(
            {
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
                "gradient_bytes": (notes.get("held_bytes") or {}).get("gradients"),
                "loss": notes.get("loss"),
                "accuracy": notes.get("test_accuracy"),
            }
        )
    if len({row["trained"] for row in rows}) < 2:
        raise ResultsError('no parts of a network were trained: trained = ["all", "last"]')
    # As the scenario lists them, not as chance ordered the trials.
    return pd.DataFrame(rows).sort_values(["sweep", "point", "trial"], ignore_index=True)


def above_base(record: TrialRecord) -> int | None:
    """Subtract the base from the kernel's highest peak within a round."""
    peaks = [p.peak_bytes for p in record.phases if p.round >= 0 and p.peak_bytes is not None]
    return max(peaks) - record.base_bytes if peaks and record.base_bytes is not None else None


def step_median(record: TrialRecord, phase: str) -> float | None:
    """Take the median of a phase's seconds per step, without the first step."""
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

    sweep = results.sweeps[0]
    heaps = {
        (record.point, record.strategy): sweep.reading(record.trial).peak_bytes
        for record in sweep.strategy_records
        if record.strategy in HEAPS and record.settings["kind"] == KIND
        if record.outcome == "ok" and "reading" not in record.missing
    }
    if not heaps:
        raise ResultsError('no heap profiler ran on a training workload: strategies = ["memray"]')
    timed = pd.DataFrame(
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
        for record in sweep.records
        if record.settings["kind"] == KIND and record.outcome == "ok"
    )
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


#: What is equal in one row; those after the first are shown where they differ.
FRAMEWORK_SHARED = ("network", "data", "shape", "optimizer", "batch", "limit_label")
#: The phases of a step, in their order.
FRAMEWORK_PHASES = ("data", "forward", "backward", "step", GRAPH)
#: Strategies that read a framework's own allocator.
_OWN = ("torch", "tensorflow")


def framework_title(settings: Mapping[str, Any]) -> str:
    """Name the framework as tables do: ``TensorFlow compiled``."""
    name = str(settings.get("framework", PYTORCH))
    # A sweep of a newer version, or of anybody's making, may name another.
    title = TITLES.get(name, name)
    # Missing in a frame, it is NaN.
    return f"{title} compiled" if settings.get("compiled") is True else title


def framework_frame(results: Results) -> pd.DataFrame:
    """Make one row per timed training: settings, its ``framework`` in words, memory and times.

    ``peak_bytes`` is the kernel's, ``own_bytes`` the peak that the framework's own allocator told
    in another trial of the point. ``…_s`` of each phase are medians of the steps after the first,
    seconds an image; ``whole_s`` is their sum. What is unknown is NaN.

    Raises:
        ResultsError: this sweep trained in one framework, or in none.
    """
    import pandas as pd

    own_peaks = {
        (sweep.name, record.point): sweep.reading(record.trial).peak_bytes
        for sweep in results.sweeps
        for record in sweep.strategy_records
        if record.strategy in _OWN and record.outcome == "ok" and "reading" not in record.missing
    }
    rows = []
    for sweep in results.sweeps:
        for record in sweep.records:
            settings = record.settings
            if settings.get("kind") != KIND:
                continue
            medians = {phase: step_median(record, phase) for phase in FRAMEWORK_PHASES}
            seconds = {k: s / settings["batch"] for k, s in medians.items() if s is not None}
            rows.append(
                {
                    **{name: settings.get(name) for name in FRAMEWORK_SHARED},
                    "limit_label": record.limits.label,
                    "framework": framework_title(settings),
                    "outcome": record.outcome,
                    "peak_bytes": record.peak_bytes if record.outcome == "ok" else None,
                    "own_bytes": own_peaks.get((sweep.name, record.point)),
                    **{f"{phase}_s": seconds.get(phase) for phase in FRAMEWORK_PHASES},
                    "whole_s": sum(seconds.values()) or None,
                }
            )
    if len({row["framework"] for row in rows}) < 2:
        raise ResultsError(
            'no two frameworks trained in this sweep: framework = ["pytorch", "tensorflow"]'
        )
    frame = pd.DataFrame(rows)
    figures = [name for name in rows[0] if name.endswith(("_bytes", "_s"))]
    return frame.astype(dict.fromkeys(figures, "float64"))


#: Phases as a table names them, where that is another word.
_NAMES = {"step": "update", GRAPH: "as one graph", "whole": "whole step"}
#: Always shown; the other settings only where they differ.
_SHOWN = ("network", "batch", "limit_label")
_LOST = ["outcome", "network", "framework", "batch", "shape", "limit_label"]


def framework_tables(results: Results) -> list[StudyTable]:
    """Make the tables of memory, the frameworks' own view of it, time by phase, busy cores.

    Raises:
        ResultsError: as :func:`framework_frame`.
    """
    import pandas as pd

    frame = framework_frame(results)
    lost = frame[frame["outcome"] != "ok"].drop_duplicates(_LOST)[_LOST]
    unfinished = tuple(
        f"{outcome}: {network} in {framework}, batch {batch:g}, images of {shape}, limit {limit}"
        for outcome, network, framework, batch, shape, limit in lost.itertuples(index=False)
    )
    phases = [phase for phase in (*FRAMEWORK_PHASES, "whole") if frame[f"{phase}_s"].notna().any()]
    times = pd.concat(
        [
            frame.assign(phase=_NAMES.get(phase, phase), place=place, seconds=frame[f"{phase}_s"])
            for place, phase in enumerate(phases)
        ]
    )
    per_image = ("medians of the steps after the first, divided by the batch",)
    by_phase = ("place", "phase")
    kernels = "Memory by framework: the kernel's peak, MiB"
    allocators = "Memory by framework: the peak of its own allocator, MiB"
    tables = [
        StudyTable(
            "framework memory",
            kernels,
            *_by_framework(frame, "peak_bytes", "{:.0f}", MIB),
            unfinished,
        ),
        StudyTable("framework view", allocators, *_by_framework(frame, "own_bytes", "{:.0f}", MIB)),
        StudyTable(
            "framework time",
            "Time by framework, ms per image",
            *_by_framework(times, "seconds", "{:.2f}", 1e-3, by_phase),
            per_image,
        ),
    ]
    # Without a trial that measured cores there is no such table.
    with suppress(ResultsError):
        cores = core_frame(results)
        cores = cores[cores["phase"].isin(FRAMEWORK_PHASES)]
        cores = cores.assign(
            framework=[framework_title(dict(row)) for _, row in cores.iterrows()],
            place=cores["phase"].map(FRAMEWORK_PHASES.index),
            phase=cores["phase"].map(lambda phase: _NAMES.get(phase, phase)),
        )
        busy = _by_framework(cores, "cores_busy", "{:.2f}", 1.0, by_phase)
        tables.append(StudyTable("framework cores", "Cores busy by framework", *busy))
    return [table for table in tables if table.rows]


def _by_framework(
    frame: pd.DataFrame, value: str, form: str, unit: float, more: Sequence[str] = ()
) -> tuple[tuple[Column, ...], list[dict[str, Any]]]:
    """Take medians of one value: rows share settings (and ``more``), a column is a framework."""
    keys = [*FRAMEWORK_SHARED, *more]
    medians = frame.groupby([*keys, "framework"], dropna=False)[value].median().unstack("framework")
    medians = medians.dropna(how="all").reset_index()
    frameworks = [name for name in dict.fromkeys(frame["framework"]) if name in medians]
    shown = [key for key in FRAMEWORK_SHARED if key in _SHOWN or frame[key].nunique() > 1]
    columns = (
        *(Column(key, key.removesuffix("_label"), "{:g}", words=key != "batch") for key in shown),
        *(Column(key, key, words=True) for key in more if key != "place"),
        *(Column(name, name, form, unit) for name in sorted(frameworks)),
    )
    rows = [{str(k): v for k, v in row.items()} for row in medians.to_dict("records")]
    return columns, rows
