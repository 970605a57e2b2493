"""What ``edgebench layers`` prints: the layers to blame, then their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from edgebench.analysis.layer_costs.selection import sorted_layers
from edgebench.analysis.layer_costs.sentences import (
    cause_sentence,
    unfinished_sentence,
    unlimited_sentence,
    warning_sentences,
)
from edgebench.boards.board import emulation_words
from edgebench.cli.layer_tables import limited_table, strategies_table, unlimited_table
from edgebench.cli.output import (
    make_console,
    print_answer,
    print_lines,
    print_table,
    print_title,
)
from edgebench.report.workload import brief_names
from edgebench.storage_speed import AS_IS, storage_words
from edgebench.units import format_size, times_as_long

if TYPE_CHECKING:
    from rich.console import Console

    from edgebench.analysis.layer_costs.peaks import LayerPeakTable, PeakMethod
    from edgebench.analysis.layer_costs.table import LayerCostTable, PassCost

#: Layers shown without a terminal, and the fewest on a small one.
_USUAL, _FEWEST = 12, 4
#: Lines of a table beside its layers: title, header (2), other layers, between, sum, blank.
_FRAME = 7
#: Lines below the tables: sentences, files, what to type next.
_FOOT = 8
_LEGEND = "medians of the trials; "
_UNLIMITED_LEGEND = (
    "cold: the first execution; warm: a later one; peak: the kernel's, page cache included; above: "
    "the peak above the usage before the layer; share %: the layer's share of a pass"
)
_LIMITED_LEGEND = "extra %: the layer's share of the extra time of a pass"


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
) -> None:
    """The cause at each workload's tightest limit, and its layers there; or of every table."""
    names = brief_names(map(_workload, tables))
    for table, shown in zip(tables, costs, strict=True):
        name = names[_workload(table)] if len(tables) > 1 else ""
        print_answer([_answer(table, shown, name)])
    console = make_console()
    for table, shown, seen in zip(tables, costs, memory, strict=True):
        rows = sorted_layers(table, view.sort, shown[-1].at.label if shown else None)
        count = len(rows) if view.every else _room(console, 1 + len(shown) + bool(seen))
        made = (
            [unlimited_table(table, rows, count, console.width)]
            if view.verbose or not shown
            else []
        )
        for cost in shown if view.verbose else shown[-1:]:
            made.append(limited_table(table, cost, rows, count, console.width))
        if seen and view.verbose:
            made.append(strategies_table(table, seen, rows[:count], console.width))
        demand = table.demand_bytes
        about = "" if demand is None else f" · demand {format_size(demand)}"
        print_title(_workload(table) + about)
        for title, titles, cells in made:
            print_lines([title])
            print_table(titles, cells, words=("layer", "type"), gap=1)
            click.echo()
        print_lines(_remarks(table, shown, view.verbose))
        if seen and view.verbose:
            print_lines(map(_method_words, seen.methods))
    print_lines(["", _legend(costs, view.verbose)])


def _legend(costs: Sequence[Sequence[PassCost]], verbose: bool) -> str:
    """What the columns of the tables mean that are shown."""
    words = [_UNLIMITED_LEGEND] if verbose or not all(costs) else []
    words += [_LIMITED_LEGEND] if any(costs) else []
    return _LEGEND + "; ".join(words)


def _answer(table: LayerCostTable, shown: Sequence[PassCost], name: str) -> str:
    """The need, the slowdown at the tightest limit that is shown and the layers that cause it.

    Limits that no trial finished follow, or come first where there is no other.
    """
    need = table.demand_bytes
    words = [f"{name or table.network} needs {format_size(need)}"] if need is not None else []
    lost = [unfinished_sentence(limit, table) for limit in table.unfinished]
    if not shown:
        return "; ".join([*words, *lost, unlimited_sentence(table)]) + "."
    tightest = shown[-1]
    if tightest.surely_slower:
        words.append(f"takes {times_as_long(tightest.slowdown)} at {tightest.at.limit}")
    return "; ".join([*words, cause_sentence(table, tightest), *lost]) + "."


def _remarks(table: LayerCostTable, shown: Sequence[PassCost], verbose: bool) -> list[str]:
    """Warnings; with ``verbose`` first the cause at each limit that the answer is not about."""
    others = [cost for cost in table.costs if cost not in shown[-1:]] if verbose else []
    return [*(cause_sentence(table, cost) for cost in others), *warning_sentences(table)]


def _room(console: Console, tables: int) -> int:
    """How many layers each table may show."""
    if not console.is_terminal:
        return _USUAL
    return max((console.height - _FOOT) // tables - _FRAME, _FEWEST)


def _workload(table: LayerCostTable) -> str:
    words = [table.network, *(str(table.settings.get(key)) for key in ("schedule", "loader"))]
    words.append(f"batch {table.settings.get('batch', 1):g}")
    words.append(f"swap {table.settings.get('swap_kind')}")
    board, held = table.settings.get("board"), table.settings.get("storage", AS_IS)
    words += [emulation_words(board)] if board else []
    words += [] if held == AS_IS else [storage_words(held)]
    return " · ".join(words)


def _method_words(method: PeakMethod) -> str:
    """How a strategy measures a peak, and its error."""
    off = "" if method.error_bytes is None else f"±{method.error_bytes / 2**20:.2g} MiB: "
    return f"{method.strategy}: {method.method}; {off}{method.error_source}"
