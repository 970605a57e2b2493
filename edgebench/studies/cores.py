"""Which cores a workload's phases keep busy (study D's CPU by core)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.measures.cores import ALL_NS, WALL_NS
from edgebench.measures.inside import CORE_NS, CORES, LOOKED_NS
from edgebench.measures.of_time import SEPARATOR
from edgebench.results.reading import settings_columns
from edgebench.studies.tables import Column, StudyTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from edgebench.records.records import TrialRecord
    from edgebench.results.results import Results


#: The settings that a table tells where trials differ in them.
_TOLD = (
    *("network", "schedule", "loader", "data", "shape", "image", "kernel", "channels", "stack"),
    *("batch", "optimizer", "trained", "threads"),
)


def core_frame(results: Results) -> pd.DataFrame:
    """One row per trial that was looked at by core, phase and core.

    ``busy`` is the share of the time between the looks around the phase for which the core worked
    for it; ``wall_s`` the phase's time over all rounds counted; ``cores_busy`` the process's own
    CPU time over that.

    Raises:
        ResultsError: no trial of this sweep was looked at by core.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            readable = record.outcome == "ok" and "reading" not in record.missing
            if record.strategy == CORES and readable:
                rows += _rows(record, sweep.reading(record.trial).parts)
    if not rows:
        raise ResultsError('no trial was looked at by core: strategies = ["cores"]')
    # A convolution has no network.
    return pd.DataFrame(rows).assign(network=lambda frame: frame.get("network"))


def _rows(record: TrialRecord, parts: Mapping[str, int]) -> list[dict[str, Any]]:
    by_phase: dict[str, dict[str, int]] = {}
    for name, value in parts.items():
        phase, _, what = name.partition(SEPARATOR)
        by_phase.setdefault(phase, {})[what] = value
    about = {
        **settings_columns(record.settings),
        "trial": record.trial,
        "limit_label": record.limits.label,
    }
    # A core that no phase used is told as idle in all of them alike.
    told_of = {key for told in by_phase.values() for key in told if key.startswith(CORE_NS)}
    numbers = sorted(int(n) for key in told_of if (n := key.removeprefix(CORE_NS)).isdecimal())
    return [
        {
            **about,
            "phase": phase,
            "core": number,
            "busy": told.get(f"{CORE_NS}{number}", 0) / told[LOOKED_NS],
            "wall_s": told[WALL_NS] / 1e9,
            "cores_busy": told.get(ALL_NS, 0) / told[WALL_NS],
        }
        for phase, told in by_phase.items()
        if told.get(WALL_NS) and told.get(LOOKED_NS)
        for number in numbers
    ]


def core_tables(results: Results) -> list[StudyTable]:
    """How busy each core is in each phase, of each trial that was looked at.

    Raises:
        ResultsError: as :func:`core_frame`.
    """
    frame = core_frame(results)
    numbers = sorted(frame["core"].unique())
    columns = (
        *(Column(key, key, words=True) for key in _set_apart(frame)),
        Column("limit_label", "limit", words=True),
        Column("phase", "phase", words=True),
        Column("cores_busy", "cores busy", "{:.2f}"),
        *(Column(f"core_{number}", f"core {number}", "{:.0%}") for number in numbers),
    )
    rows = [_wide(rows) for _, rows in frame.groupby(["trial", "phase"], sort=False)]
    says = ("share of a phase's time for which each core worked for it, rounds after the first",)
    return [StudyTable("cores", "CPU time by core", columns, rows, says)]


def _set_apart(frame: pd.DataFrame) -> list[str]:
    """The settings in which the trials differ, and always the network."""
    there = [key for key in _TOLD if key in frame]
    return [key for key in there if frame[key].nunique() > (0 if key == "network" else 1)]


def _wide(rows: pd.DataFrame) -> dict[str, Any]:
    """One phase of one trial in a row, a column a core."""
    first = {str(k): v for k, v in rows.iloc[0].items() if k not in ("core", "busy")}
    busy = zip(rows["core"], rows["busy"], strict=True)
    return first | {f"core_{core}": share for core, share in busy}
