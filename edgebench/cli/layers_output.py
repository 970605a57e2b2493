"""What ``edgebench layers`` prints: the layers to blame, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from edgebench.analysis.layer_costs.selection import sorted_layers
from edgebench.boards.board import emulation_words
from edgebench.boards.storage import AS_IS, storage_words
from edgebench.cli.output import (
    make_console,
    print_answer,
    print_lines,
    print_table,
    print_title,
)
from edgebench.results.workload_key import brief_names
from edgebench.units import format_size
from edgebench.words.boards import workload_board_sentence
from edgebench.words.layers import (
    PEAKS_TITLE,
    cause_sentence,
    columns_legend,
    layers_sentence,
    limited_title,
    peak_method_words,
    unlimited_title,
    warning_sentences,
)

if TYPE_CHECKING:
    from rich.console import Console

    from edgebench.analysis.layer_costs.peaks import LayerPeakTable
    from edgebench.analysis.layer_costs.table import LayerCostTable, LayerRow, PassCost, PhaseCost
    from edgebench.results.facts import WorkloadFacts

#: Layers shown without a terminal, and the fewest on a small one.
_USUAL, _FEWEST = 12, 4
#: Lines of a table beside its layers: title, header (2), other layers, between, sum, blank.
_FRAME = 7
#: Lines below the tables: sentences, files, what to type next.
_FOOT = 8
#: Width of the columns beside the name, and of the type at most.
_OTHERS, _TYPE = 60, 11
#: The columns' titles, and rows.
LayerTable = tuple[Sequence[str], list[list[str]]]


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
    facts: Sequence[WorkloadFacts] = (),
) -> None:
    """The cause at each workload's tightest limit, and its layers there; or of every table.

    ``facts``: what was measured of them, for the boards that were emulated.
    """
    names = brief_names(map(_workload, tables))
    for table, shown in zip(tables, costs, strict=True):
        name = names[_workload(table)] if len(tables) > 1 else ""
        print_answer([layers_sentence(table, shown, name)])
    print_lines(dict.fromkeys(filter(None, map(workload_board_sentence, facts))))
    console = make_console()
    for table, shown, seen in zip(tables, costs, memory, strict=True):
        rows = sorted_layers(table, view.sort, shown[-1].at.label if shown else None)
        count = len(rows) if view.every else _room(console, 1 + len(shown) + bool(seen))
        demand, width = table.demand_bytes, console.width
        made = []
        if view.verbose or not shown:
            made.append((unlimited_title(table), *unlimited_table(table, rows, count, width)))
        for cost in shown if view.verbose else shown[-1:]:
            cells = limited_table(table, cost, rows, count, width)
            made.append((limited_title(cost), *cells))
        if seen and view.verbose:
            made.append((PEAKS_TITLE, *strategies_table(table, seen, rows[:count], width)))
        about = "" if demand is None else f" · demand {format_size(demand)}"
        print_title(_workload(table) + about)
        for title, titles, lines in made:
            print_lines([title])
            print_table(titles, lines, words=("layer", "type"), gap=1)
            click.echo()
        print_lines(_remarks(table, shown, view.verbose))
        if seen and view.verbose:
            print_lines(map(peak_method_words, seen.methods))
    print_lines(["", columns_legend(costs, view.verbose)])


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


def unlimited_table(
    table: LayerCostTable, rows: Sequence[LayerRow], count: int, width: int
) -> LayerTable:
    """The layers without a limit."""
    times = ("load\nms", "cold\nms", "warm\nms")
    titles = ("layer", "type", "weights\nMiB", *times, "peak\nMiB", "above\nMiB", "share\n%")
    whole = table.unlimited
    cells = []
    for *named, group in _row_groups(table, rows, count, width):
        steps = [row.unlimited for row in group]
        peaks = [steps[0].peak_bytes, steps[0].growth_bytes] if len(steps) == 1 else [None, None]
        cells.append(
            [
                *(*named, _mib(_sum(row.parameter_bytes for row in group))),
                *(_steps(step.load for step in steps), _steps(step.first for step in steps)),
                *(_steps(step.execute for step in steps), *map(_mib, peaks)),
                _percent(sum(row.share for row in group)),
            ]
        )
    cells.append(["between layers", *[""] * 7, _percent(whole.glue_s / whole.sum_s)])
    return titles, cells


def limited_table(
    table: LayerCostTable, cost: PassCost, rows: Sequence[LayerRow], count: int, width: int
) -> LayerTable:
    """The layers at one limit, with their share of the extra time."""
    cells = []
    for *named, group in _row_groups(table, rows, count, width):
        own = [row.at[cost.at.label] for row in group]
        steps = [one.steps for one in own]
        load, execute = None, None
        if len(own) == 1:
            load, execute = own[0].load_slowdown, own[0].execute_slowdown
        cells.append(
            [
                *(*named, _percent(_sum(one.extra_share for one in own))),
                _ms(sum(one.extra_s for one in own)),
                *(_ms(_sum(step.load_s for step in steps if step.load)), _times(load)),
                *(_ms(_sum(step.execute_s for step in steps if step.first)), _times(execute)),
                _count(_sum(step.major_faults for step in steps)),
            ]
        )
    between = [_percent(cost.glue_extra_share), _ms(cost.glue_extra_s)]
    cells.append(["between layers", "", *between, *[""] * 5])
    cells.append(["a round", "", "", _ms(cost.extra_s), *[""] * 5])
    times = ("load\nms", "load\n×", "execute\nms", "execute\n×", "major\nfaults")
    return ("layer", "type", "extra\n%", "extra\nms", *times), cells


def _row_groups(
    table: LayerCostTable, rows: Sequence[LayerRow], count: int, width: int
) -> Iterator[tuple[str, str, Sequence[LayerRow]]]:
    """Name, type and layers of each row: one layer each, then all others together."""
    for row in rows[:count]:
        kind = row.type if len(row.type) <= _TYPE else row.type[: _TYPE - 1] + "…"
        yield _name(table, row, width), kind, [row]
    if rest := rows[count:]:
        yield f"{len(rest)} more", "", rest


def strategies_table(
    table: LayerCostTable, seen: LayerPeakTable, rows: Sequence[LayerRow], width: int
) -> LayerTable:
    """Each layer's peak by memory strategy."""
    names = (method.strategy.rpartition("-") for method in seen.methods)
    titles = ["layer", *(f"{first}{dash}\n{last}" for first, dash, last in names)]
    cells = []
    for row in rows:
        peaks = seen.peaks.get((row.network, row.order), {})
        name = _name(table, row, width)
        cells.append([name, *(_mib(peaks.get(method.strategy)) for method in seen.methods)])
    return titles, cells


def _name(table: LayerCostTable, row: LayerRow, width: int) -> str:
    several = len({layer.network for layer in table.layers}) > 1
    name = f"{row.network} {row.name}" if several else row.name
    # The end of a name differs more than its beginning.
    room = max(width - _OTHERS, 12)
    return name if len(name) <= room else "…" + name[1 - room :]


def _steps(steps: Iterable[PhaseCost | None]) -> str:
    """The sum over several layers."""
    return _ms(_sum(step.seconds.median for step in steps if step))


def _ms(seconds: float | None) -> str:
    """Milliseconds with three digits, without an exponent; empty where there is no time."""
    if seconds is None:
        return ""
    value = seconds * 1e3
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _mib(size_bytes: float | None) -> str:
    return _times(None if size_bytes is None else size_bytes / 2**20)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _times(factor: float | None) -> str:
    if factor is None:
        return ""
    return f"{factor:.0f}" if factor >= 100 else f"{factor:.1f}"


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
