"""The layers to blame for a slowdown: a line below a table of limits, and a table of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.answers.table import (
    Table,
    factor,
    filled_table,
    headline,
    seconds,
    share,
    size,
    size_cells,
    time_cells,
)
from edgebench.text import printable

if TYPE_CHECKING:
    from edgebench.analysis.layer_table import LayerCostTable, LayerRow, PassCost

#: Layers named in one line, and those with less than this share are summed up with the others.
_NAMED, _LEAST_SHARE = 3, 0.05
#: A table has no more layers, unless all are asked for.
_MOST_ROWS = 8
#: From this overlap on, the layers' times add up to more than elapsed time.
OVERLAPS = 1.01


def blame_words(table: LayerCostTable, cost: PassCost) -> str:
    """``at 231 MiB: classifier.1 +62 %, classifier.4 +27 %, others 11 %``."""
    label = cost.at.label
    worst = sorted(table.layers, key=lambda row: -_extra_share(row, label))[:_NAMED]
    named = [
        row
        for row in worst
        if row.at[label].surely_slower and _extra_share(row, label) >= _LEAST_SHARE
    ]
    if not named:
        return ""
    words = [f"{layer_name(table, row)} +{share(_extra_share(row, label))}" for row in named]
    rest = 1 - sum(_extra_share(row, label) for row in named)
    more = [f"others {share(rest)}"] if rest >= 0.005 else []
    return f"at {size(cost.at.limit_bytes)}: {', '.join([*words, *more])}"


def _extra_share(row: LayerRow, label: str) -> float:
    return row.at[label].extra_share or 0.0


def layers_headline(table: LayerCostTable, cost: PassCost | None, name: str, needs: str) -> str:
    """Return what a round takes at the limit, and what the network needs."""
    if cost is None:
        return headline(name, f"{seconds(table.unlimited.clock_s.median)} a round", needs)
    took = f"{seconds(cost.at.clock_s.median)} a round, {factor(cost.slowdown)}"
    more = f" (+{seconds(cost.extra_s)})" if cost.extra_s > 0 else ""
    return headline(f"{name} at {size(cost.at.limit_bytes)}", took + more, needs)


def layers_table(
    table: LayerCostTable, rows: Sequence[LayerRow], cost: PassCost | None, *, every: bool = False
) -> Table:
    """Make the table of the layers, in this order, at a limit; None: without one."""
    shown = list(rows) if every or len(rows) <= _MOST_ROWS + 1 else list(rows[:_MOST_ROWS])
    groups = [*([row] for row in shown), *([rows[len(shown) :]] if len(shown) < len(rows) else [])]
    names = [
        layer_name(table, group[0]) if n < len(shown) else f"{len(group)} others"
        for n, group in enumerate(groups)
    ]
    weights = [sum(row.parameter_bytes or 0 for row in group) or None for group in groups]
    label = cost.at.label if cost else ""
    phases = [[row.at[label].steps if cost else row.unlimited for row in group] for group in groups]
    peaks = [one[0].peak_bytes if len(one) == 1 and not cost else None for one in phases]
    faults = [sum(step.major_faults or 0 for step in one) if cost else 0 for one in phases]
    extra = [sum(row.at[label].extra_s for row in group) if cost else None for group in groups]
    shares = [
        sum(_extra_share(row, label) if cost else row.share for row in group) for group in groups
    ]
    load, run = (
        [sum(getattr(s, k) for s in one) for one in phases] for k in ("load_s", "execute_s")
    )
    glue = cost.glue_extra_s if cost else table.unlimited.glue_s
    glue_share = cost.glue_extra_share if cost else glue / table.unlimited.sum_s
    columns = [
        [*names, "between layers"],
        [*size_cells(weights), ""],
        [*time_cells(load), ""],
        [*time_cells(run), ""],
        time_cells([*extra, glue if cost else None]),
        [*(f"{count:,.0f}" if count else "" for count in faults), ""],
        [*size_cells(peaks), ""],
        [*map(share, shares), share(glue_share)],
    ]
    titles = ["layer", "weights", "load", "run", "extra", "faults", "peak", "share"]
    return filled_table(titles, zip(*columns, strict=True), "layer")


def layer_name(table: LayerCostTable, row: LayerRow) -> str:
    """Its name, with the network's in a pipeline."""
    several = len({layer.network for layer in table.layers}) > 1
    return printable(f"{row.network} {row.name}" if several else row.name)


def layer_warnings(table: LayerCostTable) -> list[str]:
    """Return what a reader of the layers' times must know."""
    passes = [table.unlimited, *(cost.at for cost in table.costs)]
    found = []
    if any(one.overlap > OVERLAPS for one in passes):
        found.append("layers overlap: their times add up to more than a round takes")
    if all(one.clock_s.count == 1 for one in passes):
        found.append("one trial per limit: --repeats 3 shows how far they differ")
    if all(row.unlimited.peak_bytes is None for row in table.layers):
        found.append("no peaks of layers: this engine or kernel does not tell them")
    return found
