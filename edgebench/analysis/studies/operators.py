"""Time of training steps by torch's operator.

The breakdown of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model
Training on Low Power Devices".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.measures.strategies.engines import CALLS, Operators
from edgebench.measures.strategy import SEPARATOR

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results

#: A word in an operator's name → the family it belongs to; the first that fits.
_FAMILIES = {
    "conv": "convolution",
    "batch_norm": "batch normalisation",
    "native_layer_norm": "layer normalisation",
    "pool": "pooling",
    "threshold": "activation",
    "relu": "activation",
    "clamp": "activation",
    "hardtanh": "activation",
    "mm": "linear",
    "linear": "linear",
    "lstm": "recurrence",
    "softmax": "loss",
    "nll_loss": "loss",
    "foreach": "optimizer",
    "optimizer": "optimizer",
    "dropout": "dropout",
    "copy": "copying",
    "clone": "copying",
    "fill": "filling",
    "zero": "filling",
    "add": "addition",
}
OTHER = "other"
_SHOWN = 12


def operator_family(operator: str) -> str:
    """``aten::mkldnn_convolution`` → ``convolution``."""
    name = operator.lower()
    return next((family for word, family in _FAMILIES.items() if word in name), OTHER)


def operator_frame(results: Results) -> pd.DataFrame:
    """One row per network, phase and operator: ``calls`` and ``own_s`` a step, ``share`` of all.

    Raises:
        ResultsError: no trial of this sweep timed operators.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            if record.strategy == Operators.name and record.outcome == "ok":
                rows += _rows(record, sweep.reading(record.trial).parts)
    if not rows:
        raise ResultsError('no trial timed operators: strategies = ["operators"]')
    return pd.DataFrame(rows)


def _rows(record: TrialRecord, parts: Mapping[str, int]) -> list[dict[str, Any]]:
    steps = len({phase.round for phase in record.phases if phase.round >= 0}) or 1
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for name, value in parts.items():
        phase, operator, what = name.split(SEPARATOR)
        found[phase, operator][what] = value
    total_ns = sum(one.get("own_ns", 0) for one in found.values()) or 1
    named = {k: record.settings.get(k) for k in ("network", "data", "batch", "trained")}
    return [
        {
            "trial": record.trial,
            **named,
            "limit_label": record.limits.label,
            "steps": steps,
            "phase": phase,
            "family": operator_family(operator),
            "operator": operator,
            "calls": one.get(CALLS, 0) / steps,
            "own_s": one.get("own_ns", 0) / 1e9 / steps,
            "share": one.get("own_ns", 0) / total_ns,
        }
        for (phase, operator), one in found.items()
    ]


def operator_tables(results: Results) -> list[StudyTable]:
    """The families of operators and the slowest operators, for each trial that timed them.

    Raises:
        ResultsError: as :func:`operator_frame`.
    """
    tables = []
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        workload = f"{first['network']}, batch {first['batch']:g}, trained {first['trained']}"
        title = f"{workload}: time over {first['steps']:g} steps (trial {trial})"
        families = _summed(rows, ["family"])
        operators = _summed(rows, ["family", "operator"]).head(_SHOWN)
        columns = (
            Column("calls", "calls per step", "{:.1f}"),
            Column("own_s", "ms per step", "{:.3f}", 1e-3),
            Column("share", "share", "{:.1%}"),
        )
        words = (Column("family", "family", words=True), Column("operator", "operator", words=True))
        says = ("share: of all operators' own time, without the Python code between them",)
        tables += [
            StudyTable(
                "families",
                title,
                (words[0], *columns),
                frame_rows(families),
            ),
            StudyTable(
                "operators",
                f"The {_SHOWN} slowest operators",
                (*words, *columns),
                frame_rows(operators),
                says,
            ),
        ]
    return tables


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    summed = rows.groupby(keys, as_index=False)[["calls", "own_s", "share"]].sum()
    return summed.sort_values("share", ascending=False, kind="stable")
