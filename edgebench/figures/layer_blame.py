"""Who is to blame: each layer's time unlimited and at a limit, loading and executing apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edgebench.blame.choosing import ordered
from edgebench.blame.making import blame_tables
from edgebench.blame.words import limit_words
from edgebench.figures.axes import short_seconds, short_size
from edgebench.figures.naming import Drawn, stem_of, subtitle, title_of
from edgebench.figures.style import (
    MUTED,
    UNLIMITED_COLOUR,
    Colour,
    legend_beside,
    limit_colours,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.blame.table import BlameTable, LayerRow, PassCost, Steps
    from edgebench.results.results import Results

#: So many layers are drawn one by one, if they have this share of the worst one's time; the others
#: are summed.
_MOST, _TELLING = 12, 0.01
_ROW_IN, _HEAD_IN = 0.30, 1.55
_THICK = 0.38


class _Bar(NamedTuple):
    """One row: its name, loading and executing seconds unlimited and at the limit, its blame."""

    name: str
    load_s: tuple[float, ...]
    execute_s: tuple[float, ...]
    blame: float | None
    single: bool = False


def figures(results: Results) -> Iterator[Drawn]:
    """One a workload, at the tightest limit at which trials finished.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    tables = blame_tables(results).tables
    yield from drawn(results, tables, [table.costs[-1:] for table in tables])


def drawn(
    results: Results, tables: Sequence[BlameTable], costs: Sequence[Sequence[PassCost]]
) -> Iterator[Drawn]:
    """One a table and limit; of a table without limits, its unlimited times."""
    taken: set[str] = set()
    for table, own in zip(tables, costs, strict=True):
        shown: Sequence[PassCost | None] = own or [None]
        for cost in shown:
            words = [table.network, table.settings.get("schedule", "")]
            words += [cost.at.label] if len(own) > 1 and cost else []
            stem = stem_of("layer-blame", table.settings, taken, *words)
            yield Drawn(stem, _figure(results, table, cost))


def _figure(results: Results, table: BlameTable, cost: PassCost | None) -> Any:
    bars = _bars(table, cost)
    what = f"What {limit_words(cost.at)} costs" if cost else "What takes time in"
    about = subtitle(table.settings, *_told(table, cost))
    height = _HEAD_IN + _ROW_IN * len(bars)
    figure = new_figure(f"{what} {title_of(table.network)}, layer by layer", about, results, height)
    columns = 3 if cost else 2
    panels = figure.subplots(1, columns, sharey=True, width_ratios=[1, 1, 0.55][:columns])
    colours = [UNLIMITED_COLOUR, limit_colours(2)[-1]] if cost else [UNLIMITED_COLOUR]
    _seconds(panels[0], [bar.load_s for bar in bars], colours, "loading")
    _seconds(panels[1], [bar.execute_s for bar in bars], colours, "executing")
    # One scale, so that loading and executing compare.
    longest = max(max(*bar.load_s, *bar.execute_s) for bar in bars)
    for axes in panels[:2]:
        axes.set_xlim(0, 1.05 * longest)
    if cost:
        _blames(panels[2], bars)
    _names(panels[0], bars)
    legend_beside(panels[-1], handles=_keys(cost, colours))
    return figure


def _told(table: BlameTable, cost: PassCost | None) -> list[str]:
    clock = table.unlimited.clock_s.median
    if cost is None:
        return [f"a pass takes {short_seconds(clock)}"]
    words = [f"a pass {short_seconds(clock)} → {short_seconds(cost.at.clock_s.median)}"]
    return words if cost.told_apart else [*words, "within what repeats differ"]


def _bars(table: BlameTable, cost: PassCost | None) -> list[_Bar]:
    """The worst layers, the others summed, and what lies between layers."""
    rows = ordered(table, None, cost.at.label if cost else None)
    times = [row.at[cost.at.label].extra_s if cost else row.unlimited.pass_s for row in rows]
    most = sum(1 for seconds in times[:_MOST] if seconds > 0 and seconds >= _TELLING * times[0])
    # Summing a single layer would hide its name for nothing.
    most = len(rows) if most >= len(rows) - 1 else max(most, 1)
    bars = [_bar(_name(table, row), [row], cost) for row in rows[:most]]
    if rest := rows[most:]:
        bars.append(_bar(f"{len(rest)} other layers", rest, cost))
    passes = [table.unlimited, *([cost.at] if cost else [])]
    nothing = (0.0,) * len(passes)
    glue = tuple(one.glue_s for one in passes)
    return [*bars, _Bar("between layers", nothing, glue, cost.glue_blame if cost else None)]


def _bar(name: str, rows: Sequence[LayerRow], cost: PassCost | None) -> _Bar:
    sides: list[list[Steps]] = [[row.unlimited for row in rows]]
    blame = None
    if cost:
        own = [row.at[cost.at.label] for row in rows]
        sides.append([one.steps for one in own])
        blame = sum(one.blame or 0.0 for one in own) if cost.extra_s > 0 else None
    return _Bar(
        name,
        tuple(sum(steps.load_s for steps in side) for side in sides),
        tuple(sum(steps.execute_s for steps in side) for side in sides),
        blame,
        len(rows) == 1,
    )


def _name(table: BlameTable, row: LayerRow) -> str:
    several = len({layer.network for layer in table.layers}) > 1
    words = f"{row.network} {row.name}" if several else row.name
    size = f", {short_size(row.parameter_bytes)}" if row.parameter_bytes else ""
    return f"{words} ({row.type}{size})"


def _names(axes: Axes, bars: Sequence[_Bar]) -> None:
    """The layers' names; what is no single layer is paler."""
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    for label, bar in zip(axes.get_yticklabels(), bars, strict=True):
        if not bar.single:
            label.set_color(MUTED)


def _seconds(
    axes: Axes, seconds: Sequence[tuple[float, ...]], colours: Sequence[Colour], title: str
) -> None:
    places = np.arange(len(seconds))
    thick = _THICK if len(colours) > 1 else 2 * _THICK
    for n, colour in enumerate(colours):
        shift = (n - (len(colours) - 1) / 2) * thick
        times = [side[n] for side in seconds]
        axes.barh(places + shift, times, thick, color=colour, lw=0, zorder=2)
    _plain(axes, title)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))


def _blames(axes: Axes, bars: Sequence[_Bar]) -> None:
    """Each row's part of the extra time."""
    shares = [bar.blame or 0.0 for bar in bars]
    drawn_bars = axes.barh(range(len(bars)), shares, 2 * _THICK, color=MUTED, lw=0, zorder=2)
    axes.bar_label(drawn_bars, [f"{share:.0%}" for share in shares], padding=3, fontsize=8)
    _plain(axes, "share of the extra time")
    # Room for the longest bar's label.
    axes.set_xlim(min(*shares, 0.0), 1.5 * max(*shares, 0.01))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _keys(cost: PassCost | None, colours: Sequence[Colour]) -> list[Patch]:
    names = ["unlimited", *([limit_words(cost.at)] if cost else [])]
    return [Patch(color=c, lw=0, label=name) for c, name in zip(colours, names, strict=True)]
