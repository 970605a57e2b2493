"""The tables of ``edgebench layers``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgebench.units import format_duration, times_as_long

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.peaks import LayerPeakTable
    from edgebench.analysis.layer_costs.table import LayerCostTable, LayerRow, PassCost, PhaseCost

#: Width of the columns beside the name, and of the type at most.
_OTHERS, _TYPE = 60, 11
#: A title, the columns' titles, and rows.
LayerTable = tuple[str, Sequence[str], list[list[str]]]


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
    clock = format_duration(whole.clock_s.median)
    return f"unlimited: a pass takes {clock}{_warm(table)}", titles, cells


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
                *(_ms(sum(step.load_s for step in steps)), _times(load)),
                *(_ms(sum(step.execute_s for step in steps)), _times(execute)),
                _count(_sum(step.major_faults for step in steps)),
            ]
        )
    between = [_percent(cost.glue_extra_share), _ms(cost.glue_extra_s)]
    cells.append(["between layers", "", *between, *[""] * 5])
    cells.append(["a pass", "", "", _ms(cost.extra_s), *[""] * 5])
    clock = format_duration(cost.at.clock_s.median)
    title = f"at {cost.at.limit}: a pass takes {clock}, {times_as_long(cost.slowdown)}"
    times = ("load\nms", "load\n×", "execute\nms", "execute\n×", "major\nfaults")
    return title, ("layer", "type", "extra\n%", "extra\nms", *times), cells


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
    title = "peaks of loading and first execution by memory strategy, unlimited, MiB"
    return title, titles, cells


def _warm(table: LayerCostTable) -> str:
    """How many warm executions the time of a pass contains."""
    steps = (row.unlimited.execute for row in table.layers)
    times = max((step.times for step in steps if step), default=0)
    return f", {times:g} warm executions in it" if times else ""


def _name(table: LayerCostTable, row: LayerRow, width: int) -> str:
    several = len({layer.network for layer in table.layers}) > 1
    name = f"{row.network} {row.name}" if several else row.name
    # The end of a name differs more than its beginning.
    room = max(width - _OTHERS, 12)
    return name if len(name) <= room else "…" + name[1 - room :]


def _steps(steps: Iterable[PhaseCost | None]) -> str:
    """The sum over several layers."""
    seconds = _sum(step.seconds.median for step in steps if step)
    return "" if seconds is None else _ms(seconds)


def _ms(seconds: float) -> str:
    """Milliseconds with three digits, without an exponent."""
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
