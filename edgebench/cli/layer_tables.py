"""The tables of ``edgebench layers`` on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgebench.blame.choosing import ordered
from edgebench.blame.words import limit_words, said
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from edgebench.blame.memory import MemoryTable, Method
    from edgebench.blame.table import BlameTable, LayerRow, PassCost, Step

#: Layers shown where there is no screen to cut to, and the fewest on a small one.
_USUAL, _FEWEST = 12, 4
#: Lines of a table that are no layers: title, two of header, rest, glue, sum, blank.
_FRAME = 7
#: Lines below the tables: sentences, files, what to type next.
_FOOT = 8
_TERMINAL = 80
#: What the columns beside the name take, and the type at most.
_OTHERS, _TYPE = 60, 11
_LEGEND = """medians of the trials; cold: the first execution, warm: one later one; peak: the
kernel's, page cache included; above: how far above the usage before; blame: share of
a pass's extra time"""


def print_tables(
    tables: Sequence[BlameTable],
    costs: Sequence[Sequence[PassCost]],
    memory: Sequence[MemoryTable | None],
    sort: str | None,
    every: bool,
) -> None:
    """Each workload's layers unlimited, at the limits shown, as strategies see them, in words."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _TERMINAL)
    for table, shown, seen in zip(tables, costs, memory, strict=True):
        rows = ordered(table, sort, shown[-1].at.label if shown else None)
        count = len(rows) if every else _room(console, 1 + len(shown) + bool(seen))
        made = [_unlimited(table, rows, count, console.width)]
        made += [_limited(table, cost, rows, count, console.width) for cost in shown]
        if seen:
            made.append(_strategies(table, seen, rows[:count], console.width))
        for title, grid in made:
            console.print(title, style="bold", markup=False)
            console.print(grid)
            console.print()
        for sentence in (*said(table), *map(_how, seen.methods if seen else ())):
            console.print(sentence, markup=False)
        console.print()
    console.print(_LEGEND, style="dim", markup=False)


def _room(console: Console, tables: int) -> int:
    """How many layers each table may show."""
    if not console.is_terminal:
        return _USUAL
    return max((console.height - _FOOT) // tables - _FRAME, _FEWEST)


def _unlimited(
    table: BlameTable, rows: Sequence[LayerRow], count: int, width: int
) -> tuple[str, Table]:
    times = ("load\nms", "cold\nms", "warm\nms")
    heads = ("weights\nMiB", *times, "peak\nMiB", "above\nMiB", "share\n%")
    grid = _grid(heads, "type")
    whole = table.unlimited
    for row in rows[:count]:
        steps = row.unlimited
        grid.add_row(
            _name(table, row, width),
            _cut(row.type, _TYPE),
            _mib(row.parameter_bytes),
            *(_step(step) for step in (steps.load, steps.first, steps.execute)),
            _mib(steps.peak_bytes),
            _mib(steps.growth_bytes),
            _percent(row.share),
        )
    if rest := rows[count:]:
        every = [row.unlimited for row in rest]
        steps_of = ([s.load for s in every], [s.first for s in every], [s.execute for s in every])
        grid.add_row(
            *(f"{len(rest)} more", "", _mib(_sum(row.parameter_bytes for row in rest))),
            *(_steps(steps) for steps in steps_of),
            *("", "", _percent(sum(row.share for row in rest))),
        )
    grid.add_row("between layers", *[""] * 7, _percent(whole.glue_s / whole.sum_s))
    clock = format_duration(whole.clock_s.median)
    return f"{_heading(table)}\nunlimited: a pass takes {clock}{_warm(table)}", grid


def _limited(
    table: BlameTable, cost: PassCost, rows: Sequence[LayerRow], count: int, width: int
) -> tuple[str, Table]:
    heads = ("blame\n%", "extra\nms", "load\nms", "\n×", "execute\nms", "\n×", "major\nfaults")
    grid = _grid(heads, "type")
    label = cost.at.label
    for row in rows[:count]:
        own = row.at[label]
        grid.add_row(
            _name(table, row, width),
            _cut(row.type, _TYPE),
            _percent(own.blame),
            _ms(own.extra_s),
            _ms(own.steps.load_s),
            _times(own.load_slowdown),
            _ms(own.steps.execute_s),
            _times(own.execute_slowdown),
            _count(own.steps.major_faults),
        )
    if rest := [row.at[label] for row in rows[count:]]:
        grid.add_row(
            *(f"{len(rest)} more", "", _percent(_sum(own.blame for own in rest))),
            *(_ms(sum(own.extra_s for own in rest)), _ms(sum(own.steps.load_s for own in rest))),
            *("", _ms(sum(own.steps.execute_s for own in rest)), ""),
            _count(_sum(own.steps.major_faults for own in rest)),
        )
    grid.add_row(
        *("between layers", "", _percent(cost.glue_blame), _ms(cost.glue_extra_s), *[""] * 5)
    )
    grid.add_row("a pass", "", "", _ms(cost.extra_s), *[""] * 5)
    clock = format_duration(cost.at.clock_s.median)
    return f"at {limit_words(cost.at)}: a pass takes {clock}, ×{cost.slowdown:.3g}", grid


def _strategies(
    table: BlameTable, seen: MemoryTable, rows: Sequence[LayerRow], width: int
) -> tuple[str, Table]:
    """Each layer's peak as every strategy sees it."""
    names = (method.strategy.rpartition("-") for method in seen.methods)
    grid = _grid([f"{first}{dash}\n{last}" for first, dash, last in names])
    for row in rows:
        peaks = seen.peaks.get((row.network, row.order), {})
        grid.add_row(_name(table, row, width), *(_mib(peaks.get(m.strategy)) for m in seen.methods))
    return "peaks of loading and first execution as each strategy sees them, unlimited, MiB", grid


def _how(method: Method) -> str:
    """How a strategy tells a peak, and how far off it may be."""
    off = "" if method.error_bytes is None else f"±{method.error_bytes / 2**20:.2g} MiB: "
    return f"{method.strategy}: {method.method}; {off}{method.error_source}"


def _heading(table: BlameTable) -> str:
    words = [table.network, *(str(table.settings.get(key)) for key in ("schedule", "loader"))]
    words.append(f"batch {table.settings.get('batch', 1):g}")
    words.append(f"swap {table.settings.get('swap_kind')}")
    if table.demand_bytes is not None:
        words.append(f"demand {format_size(table.demand_bytes)}")
    return " · ".join(words)


def _warm(table: BlameTable) -> str:
    """How often a pass executes warm, which its time holds."""
    steps = (row.unlimited.execute for row in table.layers)
    times = max((step.times for step in steps if step), default=0)
    return f", {times:g} warm executions in it" if times else ""


def _grid(heads: Sequence[str], second: str | None = None) -> Table:
    """Columns for a layer's name, what else is text, and numbers."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    grid.add_column("layer", no_wrap=True)
    if second:
        grid.add_column(second, no_wrap=True)
    for head in heads:
        grid.add_column(head, justify="right", no_wrap=True)
    return grid


def _name(table: BlameTable, row: LayerRow, width: int) -> str:
    several = len({layer.network for layer in table.layers}) > 1
    name = f"{row.network} {row.name}" if several else row.name
    # A name's end tells more than its beginning.
    room = max(width - _OTHERS, 12)
    return name if len(name) <= room else "…" + name[1 - room :]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _step(step: Step | None) -> str:
    return _ms(step.seconds.median) if step else ""


def _steps(steps: Sequence[Step | None]) -> str:
    """The steps of several layers, added up."""
    seconds = _sum(step.seconds.median for step in steps if step)
    return "" if seconds is None else _ms(seconds)


def _ms(seconds: float) -> str:
    """Milliseconds with three digits, never in powers of ten."""
    value = seconds * 1e3
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _mib(size_bytes: float | None) -> str:
    if size_bytes is None:
        return ""
    value = size_bytes / 2**20
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _times(factor: float | None) -> str:
    if factor is None:
        return ""
    return f"{factor:.0f}" if factor >= 100 else f"{factor:.1f}"


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _sum(values: Iterable[float | None]) -> float | None:
    """None where no value is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
