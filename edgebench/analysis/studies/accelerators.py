"""Phases on an accelerator: their time, copies to it and back, and its memory.

The measurement of Torres, Barrios and Denneulin, "Computational Resource Consumption in
Convolutional Neural Network Training – A Focus on Memory", for each phase of a steady round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.records import is_count, is_number
from edgebench.results.rounds import START, STEADY, round_stages
from edgebench.results.sweep_reader import settings_columns
from edgebench.spans import NO_ROUND
from edgebench.units import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results

_KEYS = ("point", "network", "batch", "limit_label", "accelerator_bytes", "phase")
_FIGURES = (
    *("to_bytes", "to_s", "from_bytes", "from_s", "peak_allocated_bytes", "peak_reserved_bytes"),
)
_BEFORE_ROUNDS = "init"


def accelerator_frame(results: Results) -> pd.DataFrame:
    """One row per point, network and phase: medians of its trials' steady rounds.

    ``wall_s`` is the phase's time, ``copy_share`` the part of it in which something was copied.
    Where only one round was run, it is that of the start. ``init`` is the one before all rounds.

    Raises:
        ResultsError: nothing in this sweep computed on an accelerator.
    """
    import pandas as pd

    rows = [row for record in results.sweeps[0].records for row in _rows(record)]
    if not rows:
        raise ResultsError('nothing here computed on an accelerator: accelerator = "cuda"')
    frame = pd.DataFrame(rows)
    columns = ["wall_s", *_FIGURES]
    made = frame.groupby(list(_KEYS), as_index=False, sort=False, dropna=False)[columns].median()
    made["copy_share"] = (made["to_s"] + made["from_s"]) / made["wall_s"]
    return made


def _rows(record: TrialRecord) -> Iterator[dict[str, Any]]:
    """One per phase of a round that counts, where both its time and its copies are known."""
    if record.accelerator is None or record.outcome != "ok":
        return
    stages = round_stages(record)
    wanted = STEADY if STEADY in stages.values() else START
    walls = {(p.phase, p.round, p.network): p.wall_s for p in record.phases}
    settings = settings_columns(record.settings)
    for one in record.accelerator.phases:
        phase, told = str(one.get("phase")), one.get("round")
        number = int(told) if told is not None and is_count(told) else NO_ROUND
        named = one.get("network")
        wall_s = walls.get((phase, number, named if isinstance(named, str) else None))
        counts = stages.get(number) == wanted or phase == _BEFORE_ROUNDS
        if wall_s is None or not counts or not all(is_number(one.get(name)) for name in _FIGURES):
            continue
        yield {
            "point": record.point,
            "network": settings.get("network"),
            "batch": settings.get("batch"),
            "limit_label": record.limits.label,
            "accelerator_bytes": record.limits.accelerator_bytes,
            "phase": phase,
            "wall_s": wall_s,
            **{name: one[name] for name in _FIGURES},
        }


def accelerator_tables(results: Results) -> list[StudyTable]:
    """Each phase's time, copies and memory.

    Raises:
        ResultsError: as :func:`accelerator_frame`.
    """
    frame = accelerator_frame(results)
    columns = (
        Column("network", "network", words=True),
        Column("batch", "batch", "{:g}"),
        Column("limit_label", "limit", words=True),
        Column("accelerator_bytes", "accelerator's\nlimit, MiB", "{:.0f}", MIB),
        Column("phase", "phase", words=True),
        Column("wall_s", "ms", "{:.3f}", 1e-3),
        Column("to_bytes", "to it\nMiB", "{:.2f}", MIB),
        Column("to_s", "to it\nms", "{:.3f}", 1e-3),
        Column("from_bytes", "back\nMiB", "{:.2f}", MIB),
        Column("from_s", "back\nms", "{:.3f}", 1e-3),
        Column("copy_share", "copying", "{:.0%}"),
        Column("peak_allocated_bytes", "peak\nMiB", "{:.1f}", MIB),
    )
    says = ("medians of steady rounds; the peak is that of torch's allocator within the phase",)
    title = "Phases on an accelerator"
    return [StudyTable("accelerator", title, columns, frame_rows(frame), says)]
