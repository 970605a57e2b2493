"""What ``edgebench layers`` prints: a headline and a table of layers for each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from edgebench.analysis.layer_table import sorted_layers
from edgebench.answers.layers import layer_name, layers_headline, layers_table
from edgebench.answers.table import Table, size_cells
from edgebench.cli.output import print_headline, print_lines, print_table
from edgebench.units import format_limit

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs import LayerPeakTable
    from edgebench.analysis.layer_table import LayerCostTable, LayerRow, PassCost


@dataclass(frozen=True)
class LayerView:
    """Which layers and tables are shown, in which order."""

    sort: str | None
    every: bool
    verbose: bool


def print_layers(
    tables: Sequence[LayerCostTable],
    costs: Sequence[Sequence[PassCost]],
    memory: Sequence[LayerPeakTable | None],
    view: LayerView,
    names: Sequence[str],
    needs: Mapping[str, str],
) -> None:
    """Print each workload's layers at its tightest limit; with ``verbose`` at all of them.

    ``needs``: what each workload needs, in words.
    """
    for name, table, shown, seen in zip(names, tables, costs, memory, strict=True):
        if table is not tables[0]:
            click.echo()
        rows = sorted_layers(table, view.sort, shown[-1].at.label if shown else None)
        limits = [None, *table.costs] if view.verbose else [shown[-1] if shown else None]
        for cost in limits:
            print_headline(layers_headline(table, cost, name, needs.get(table.workload, "")))
            print_table(layers_table(table, rows, cost, every=view.every))
        print_lines(
            f"{format_limit(one.label, one.limit_bytes)}: {one.reason or 'not finished'}"
            for one in table.unfinished
        )
        if seen and view.verbose:
            print_table(_peaks_table(table, seen, rows))
            print_lines(f"{one.strategy}: {one.method}; {one.error_source}" for one in seen.methods)


def _peaks_table(table: LayerCostTable, seen: LayerPeakTable, rows: Sequence[LayerRow]) -> Table:
    """Each layer's peak by memory strategy."""
    names = [method.strategy for method in seen.methods]
    peaks = [seen.peaks.get((row.network, row.order), {}) for row in rows]
    columns = [size_cells([one.get(name) for one in peaks]) for name in names]
    cells = [[layer_name(table, row), *cells] for row, *cells in zip(rows, *columns, strict=True)]
    return Table(("layer", *names), cells, ("layer",), "peaks by memory strategy, unlimited")
