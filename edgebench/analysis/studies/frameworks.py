"""The same training in several frameworks: memory and time by phase of each.

The comparison of Torres, Barrios and Denneulin, "Computational Resource Consumption in
Convolutional Neural Network Training – A Focus on Memory".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.phases import core_frame
from edgebench.analysis.studies.tables import Column, StudyTable
from edgebench.analysis.studies.training import step_median
from edgebench.errors import ResultsError
from edgebench.units import MIB
from edgebench.workloads.training.names import GRAPH, PYTORCH, TITLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from edgebench.results.results import Results


KIND = "training"
#: What is equal in one row; those after the first are shown where they differ.
SHARED = ("network", "data", "shape", "optimizer", "batch", "limit_label")
#: The phases of a step, in their order.
PHASES = ("data", "forward", "backward", "step", GRAPH)
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
            medians = {phase: step_median(record, phase) for phase in PHASES}
            seconds = {k: s / settings["batch"] for k, s in medians.items() if s is not None}
            rows.append(
                {
                    **{name: settings.get(name) for name in SHARED},
                    "limit_label": record.limits.label,
                    "framework": framework_title(settings),
                    "outcome": record.outcome,
                    "peak_bytes": record.peak_bytes if record.outcome == "ok" else None,
                    "own_bytes": own_peaks.get((sweep.name, record.point)),
                    **{f"{phase}_s": seconds.get(phase) for phase in PHASES},
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
    phases = [phase for phase in (*PHASES, "whole") if frame[f"{phase}_s"].notna().any()]
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
        cores = cores[cores["phase"].isin(PHASES)]
        cores = cores.assign(
            framework=[framework_title(dict(row)) for _, row in cores.iterrows()],
            place=cores["phase"].map(PHASES.index),
            phase=cores["phase"].map(lambda phase: _NAMES.get(phase, phase)),
        )
        busy = _by_framework(cores, "cores_busy", "{:.2f}", 1.0, by_phase)
        tables.append(StudyTable("framework cores", "Cores busy by framework", *busy))
    return [table for table in tables if table.rows]


def _by_framework(
    frame: pd.DataFrame, value: str, form: str, unit: float, more: Sequence[str] = ()
) -> tuple[tuple[Column, ...], list[dict[str, Any]]]:
    """Take medians of one value: rows share settings (and ``more``), a column is a framework."""
    keys = [*SHARED, *more]
    medians = frame.groupby([*keys, "framework"], dropna=False)[value].median().unstack("framework")
    medians = medians.dropna(how="all").reset_index()
    frameworks = [name for name in dict.fromkeys(frame["framework"]) if name in medians]
    shown = [key for key in SHARED if key in _SHOWN or frame[key].nunique() > 1]
    columns = (
        *(Column(key, key.removesuffix("_label"), "{:g}", words=key != "batch") for key in shown),
        *(Column(key, key, words=True) for key in more if key != "place"),
        *(Column(name, name, form, unit) for name in sorted(frameworks)),
    )
    rows = [{str(k): v for k, v in row.items()} for row in medians.to_dict("records")]
    return columns, rows
