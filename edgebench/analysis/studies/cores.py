"""CPU time by core and phase.

The measurement of Torres, Barrios and Denneulin, "Computational Resource Consumption in
Convolutional Neural Network Training – A Focus on Memory".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.tables import Column, StudyTable
from edgebench.errors import ResultsError
from edgebench.measures.strategies.cores import ALL_NS, CORE_NS, LOOKED_NS, WALL_NS, Cores
from edgebench.measures.strategy import SEPARATOR
from edgebench.results.sweep_reader import settings_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results


#: The settings that get a column where trials differ in them.
_SHOWN = (
    *("network", "schedule", "loader", "data", "shape", "image", "kernel", "channels", "stack"),
    *("framework", "compiled", "batch", "optimizer", "trained", "threads"),
)


def core_frame(results: Results) -> pd.DataFrame:
    """One row per trial that measured cores, phase and core.

    ``busy`` is the share of the time between the looks around the phase for which the core worked
    for it; ``wall_s`` the phase's time over all rounds counted; ``cores_busy`` the process's own
    CPU time over that.

    Raises:
        ResultsError: no trial of this sweep measured cores.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            readable = record.outcome == "ok" and "reading" not in record.missing
            if record.strategy == Cores.name and readable:
                rows += _rows(record, sweep.reading(record.trial).parts)
    if not rows:
        raise ResultsError('no trial measured cores: strategies = ["cores"]')
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
    # A core that one phase did not use is idle in it, not missing.
    used = {key for values in by_phase.values() for key in values if key.startswith(CORE_NS)}
    numbers = sorted(int(n) for key in used if (n := key.removeprefix(CORE_NS)).isdecimal())
    return [
        {
            **about,
            "phase": phase,
            "core": number,
            "busy": values.get(f"{CORE_NS}{number}", 0) / values[LOOKED_NS],
            "wall_s": values[WALL_NS] / 1e9,
            "cores_busy": values.get(ALL_NS, 0) / values[WALL_NS],
        }
        for phase, values in by_phase.items()
        if values.get(WALL_NS) and values.get(LOOKED_NS)
        for number in numbers
    ]


def core_tables(results: Results) -> list[StudyTable]:
    """How busy each core is in each phase, for each trial that measured cores.

    Raises:
        ResultsError: as :func:`core_frame`.
    """
    frame = core_frame(results)
    numbers = sorted(frame["core"].unique())
    # The network is always shown.
    counts = {key: frame[key].nunique() for key in _SHOWN if key in frame}
    differing = [key for key, n in counts.items() if n > (0 if key == "network" else 1)]
    columns = (
        *(Column(key, key, words=True) for key in differing),
        Column("limit_label", "limit", words=True),
        Column("phase", "phase", words=True),
        Column("cores_busy", "cores busy", "{:.2f}"),
        *(Column(f"core_{number}", f"core {number}", "{:.0%}") for number in numbers),
    )
    rows = [_wide(rows) for _, rows in frame.groupby(["trial", "phase"], sort=False)]
    says = ("share of a phase's time during which each core worked for it, rounds after the first",)
    return [StudyTable("cores", "CPU time by core", columns, rows, says)]


def _wide(rows: pd.DataFrame) -> dict[str, Any]:
    """One phase of one trial in a row, a column a core."""
    first = {str(k): v for k, v in rows.iloc[0].items() if k not in ("core", "busy")}
    busy = zip(rows["core"], rows["busy"], strict=True)
    return first | {f"core_{core}": share for core, share in busy}
