"""What of the tables is shown: which workloads, which limits, which layers first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError
from edgebench.units import parse_share, parse_size

if TYPE_CHECKING:
    from edgebench.blame.table import BlameTable, LayerRow, PassCost

SORTS = ("blame", "time", "parameters", "peak", "order")


def choose(
    tables: Sequence[BlameTable], network: str | None, settings: Mapping[str, Any]
) -> list[BlameTable]:
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


def shown_costs(tables: Sequence[BlameTable], memory: Sequence[str]) -> list[list[PassCost]]:
    """For each table the limits of which a table is shown: those named, else the tightest.

    Raises:
        UsageError: a limit that no table has; names those that there are.
    """
    if not memory:
        return [table.costs[-1:] for table in tables]
    places = [(cost.at.label, cost.at.limit_bytes) for table in tables for cost in table.costs]
    places += [(lost.label, lost.limit_bytes) for table in tables for lost in table.lost]
    for word in memory:
        if word != "max" and not any(_means(word, *place) for place in places):
            there = ", ".join(dict.fromkeys(label for label, _ in places)) or "none"
            what = f"no limit {word!r} in these results"
            raise UsageError(what, remedy=f"they have: {there}")
    return [
        [c for c in table.costs if any(_means(w, c.at.label, c.at.limit_bytes) for w in memory)]
        for table in tables
    ]


def ordered(table: BlameTable, sort: str | None, label: str | None) -> list[LayerRow]:
    """Its layers, those first that matter most; ties in the order of their calls.

    Args:
        table: whose layers.
        sort: one of :data:`SORTS`; None is blame, or without a limit time.
        label: the limit whose blame counts.
    """
    cost_known = label is not None
    sort = sort or ("blame" if cost_known else "time")

    def key(row: LayerRow) -> float:
        if sort == "blame" and label is not None:
            return -row.at[label].extra_s
        if sort == "parameters":
            return -(row.parameter_bytes or 0.0)
        if sort == "peak":
            return -(row.unlimited.peak_bytes or 0.0)
        return 0.0 if sort == "order" else -row.unlimited.pass_s

    return sorted(table.layers, key=key)


def _means(word: str, label: str, limit_bytes: float | None) -> bool:
    """Whether a limit as typed is this one: ``200M`` is also ``204800K``."""
    if word == label:
        return True
    return parse_share(word) is None and parse_size(word) == limit_bytes
