"""Selects the workloads, limits and layers of the tables that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError
from edgebench.units import parse_share, parse_size

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable, LayerRow, PassCost

SORTS = ("cost", "time", "parameters", "peak", "order")


def matching_tables(
    tables: Sequence[LayerCostTable], network: str | None, settings: Mapping[str, Any]
) -> list[LayerCostTable]:
    """The tables of a network (alone or in a pipeline) with these settings.

    Raises:
        UsageError: there is none; names those that there are.
    """
    chosen = [
        table
        for table in tables
        if network in (None, table.network, *table.network.split("+"))
        and all(table.settings.get(name) == value for name, value in settings.items())
    ]
    if not chosen:
        names = ("schedule", "loader", "batch")
        there = [
            " ".join([table.network, *(f"--{n} {table.settings.get(n)}" for n in names)])
            for table in tables
        ]
        words = [network or "any network", *(f"--{k} {v}" for k, v in settings.items())]
        raise UsageError(
            f"no layers of {' '.join(words)} in these results",
            remedy="they have:\n    " + "\n    ".join(there),
        )
    return chosen


def costs_at_limits(
    tables: Sequence[LayerCostTable], memory: Sequence[str]
) -> list[list[PassCost]]:
    """For each table the limits of which a table is shown: those named, else the tightest.

    Raises:
        UsageError: a limit that no table has; names those that there are.
    """
    if not memory:
        return [table.costs[-1:] for table in tables]
    places = [(cost.at.label, cost.at.limit_bytes) for table in tables for cost in table.costs]
    places += [(at.label, at.limit_bytes) for table in tables for at in table.unfinished]
    for word in memory:
        if word != "max" and not any(_means(word, *place) for place in places):
            there = ", ".join(dict.fromkeys(label for label, _ in places)) or "none"
            what = f"no limit {word!r} in these results"
            raise UsageError(what, remedy=f"they have: {there}")
    return [
        [c for c in table.costs if any(_means(w, c.at.label, c.at.limit_bytes) for w in memory)]
        for table in tables
    ]


def sorted_layers(table: LayerCostTable, sort: str | None, label: str | None) -> list[LayerRow]:
    """Its layers, sorted; ties in the order of their calls.

    Args:
        table: whose layers.
        sort: one of :data:`SORTS`; None means ``cost``, or ``time`` without a limit.
        label: the limit whose extra time is sorted by.
    """
    cost_known = label is not None
    sort = sort or ("cost" if cost_known else "time")

    def key(row: LayerRow) -> float:
        if sort == "cost" and label is not None:
            return -row.at[label].extra_s
        if sort == "parameters":
            return -(row.parameter_bytes or 0.0)
        if sort == "peak":
            return -(row.unlimited.peak_bytes or 0.0)
        return 0.0 if sort == "order" else -row.unlimited.pass_s

    return sorted(table.layers, key=key)


def _means(word: str, label: str, limit_bytes: float | None) -> bool:
    """Whether a limit as typed is this one: ``200M`` is also ``204800K``, ``23%`` ``23.0%``."""
    if word == label:
        return True
    share = parse_share(word)
    if share is None:
        return parse_size(word) == limit_bytes
    return label.endswith("%") and parse_share(label) == share
