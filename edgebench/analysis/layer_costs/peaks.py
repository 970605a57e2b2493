"""Peaks of a workload's layers, unlimited, by each strategy that measures memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgebench.analysis.layer_costs.passes import number_or_none

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.analysis.layer_costs.table import LayerCostTable
    from edgebench.results.results import Results

#: The first time a layer is loaded and executed: what strategies' own trials are compared by.
_PHASES = ("load", "first")


@dataclass(frozen=True)
class PeakMethod:
    """How a strategy measured a layer's peak, and its error (None: unknown)."""

    strategy: str
    method: str
    error_bytes: float | None
    error_source: str


@dataclass(frozen=True)
class LayerPeakTable:
    """Strategies, the one with the largest peak first, and each layer's peaks.

    ``peaks``: (network, layer) → strategy → bytes, the larger of its first load's and execution's
    peak; of timed trials the median. A strategy that did not measure a layer is missing there.
    """

    methods: list[PeakMethod]
    peaks: dict[tuple[str, int], dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "strategies": {
                m.strategy: {
                    "method": m.method,
                    "error_bytes": m.error_bytes,
                    "error_source": m.error_source,
                }
                for m in self.methods
            },
            "layers": [
                {"network": network, "layer": layer, "peak_bytes": peaks}
                for (network, layer), peaks in self.peaks.items()
            ],
        }


def layer_peak_tables(
    results: Results, tables: Sequence[LayerCostTable]
) -> list[LayerPeakTable | None]:
    """For each workload its table; None where no strategy had a trial of its own."""
    if not any(sweep.strategy_records for sweep in results.sweeps):
        return [None] * len(tables)
    return [_table(results.memory, _points(results.trials, table)) for table in tables]


def _points(trials: pd.DataFrame, table: LayerCostTable) -> list[tuple[str, str]]:
    """The sweep and the unlimited points of a workload."""
    own = (trials["sweep"] == table.sweep) & trials["memory_bytes"].isna()
    for name, value in table.settings.items():
        own &= trials[name] == value
    return list(trials.loc[own, ["sweep", "point"]].itertuples(index=False, name=None))


def _table(memory: pd.DataFrame, points: list[tuple[str, str]]) -> LayerPeakTable | None:
    rows = memory.set_index(["sweep", "point"])
    rows = rows[rows.index.isin(points) & (rows["outcome"] == "ok")]
    first = (rows["round"] == rows["round"].min()) & (rows["pass_number"] == 0)
    rows = rows[first & rows["phase"].isin(_PHASES)]
    if not rows["own_trial"].any():
        return None
    # The kernel's marks of a strategy's own trial count what the strategy adds.
    timed = set(rows.loc[~rows["own_trial"], "strategy"])
    rows = rows[~rows["own_trial"] | ~rows["strategy"].isin(timed)]
    spans = rows.groupby(["network", "layer", "strategy", "trial"], sort=False)["peak_bytes"].max()
    medians = spans.groupby(level=["network", "layer", "strategy"], sort=False).median().dropna()
    peaks: dict[tuple[str, int], dict[str, float]] = {}
    for (network, layer, strategy), size in medians.items():
        peaks.setdefault((str(network), int(layer)), {})[str(strategy)] = float(size)
    highest = medians.groupby(level="strategy").max().sort_values(ascending=False)
    once = rows.drop_duplicates("strategy").set_index("strategy")
    methods = [
        PeakMethod(
            name,
            str(once.at[name, "method"]),
            number_or_none(once.at[name, "error_bytes"]),
            str(once.at[name, "error_source"]),
        )
        for name in map(str, highest.index)
    ]
    return LayerPeakTable(methods, peaks)
