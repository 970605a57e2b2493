"""Where training steps spend their time, by torch's operator (study E.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.measures.inside import OPERATORS
from edgebench.measures.of_time import SEPARATOR
from edgebench.measures.operators import CALLS
from edgebench.studies.tables import Column, StudyTable

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records.records import TrialRecord
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


def family_of(operator: str) -> str:
    """``aten::mkldnn_convolution`` → ``convolution``."""
    name = operator.lower()
    return next((family for word, family in _FAMILIES.items() if word in name), OTHER)


def operator_frame(results: Results) -> pd.DataFrame:
    """One row per network, phase and operator: ``calls`` and ``own_s`` a step, ``share`` of all.

    Raises:
        ResultsError: no trial of this sweep was looked at by operator.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            if record.strategy == OPERATORS and record.outcome == "ok":
                rows += _rows(record, sweep.reading(record.trial).parts)
    if not rows:
        raise ResultsError('no trial was looked at by operator: strategies = ["operators"]')
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
            "family": family_of(operator),
            "operator": operator,
            "calls": one.get(CALLS, 0) / steps,
            "own_s": one.get("own_ns", 0) / 1e9 / steps,
            "share": one.get("own_ns", 0) / total_ns,
        }
        for (phase, operator), one in found.items()
    ]


def operator_tables(results: Results) -> list[StudyTable]:
    """The operators that take most, of each trial that was looked at; and their families.

    Raises:
        ResultsError: as :func:`operator_frame`.
    """
    tables = []
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        title = (
            f"{first['network']}, batch {first['batch']:g}, trained {first['trained']}: time over "
            f"{first['steps']:g} steps (trial {trial})"
        )
        families = _summed(rows, ["family"])
        operators = _summed(rows, ["family", "operator"]).head(_SHOWN)
        columns = (
            Column("calls", "calls a step", "{:.1f}"),
            Column("own_s", "ms a step", "{:.3f}", 1e-3),
            Column("share", "share", "{:.1%}"),
        )
        words = (Column("family", "family", words=True), Column("operator", "operator", words=True))
        says = ("shares of the operators' own time, without Python between them",)
        tables += [
            StudyTable("families", title, (words[0], *columns), _dicts(families)),
            StudyTable(
                "operators", f"its {_SHOWN} largest", (*words, *columns), _dicts(operators), says
            ),
        ]
    return tables


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    summed = rows.groupby(keys, as_index=False)[["calls", "own_s", "share"]].sum()
    return summed.sort_values("share", ascending=False, kind="stable")


def _dicts(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
