"""Figure of each layer's time, unlimited and at a limit: loading, executing, share of the extra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edgebench.analysis.layer_costs.builder import layer_cost_tables
from edgebench.analysis.layer_costs.selection import sorted_layers
from edgebench.report.figures import naming, scales, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.analysis.layer_costs.table import LayerCostTable, LayerPhases, LayerRow, PassCost
    from edgebench.results.results import Results

#: So many layers are drawn one by one, if they have this share of the worst one's time; the others
#: are summed.
_MOST, _TELLING = 12, 0.01
_ROW_IN, _HEAD_IN = 0.30, 1.55
_THICK = 0.38
#: Characters of a layer's name and of its type: longer ones would leave the bars no room.
_MOST_NAME, _MOST_TYPE = 28, 16
#: A label beside a bar, as a part of the panel.
_LABEL_ROOM = 0.9


class _Bar(NamedTuple):
    """One row: its name, loading and executing seconds unlimited and at the limit, its share."""

    name: str
    load_s: tuple[float, ...]
    execute_s: tuple[float, ...]
    extra_share: float | None
    single: bool = False


@naming.figure_kind("layer-costs", place=5)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a workload, at the tightest limit at which trials finished.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    tables = layer_cost_tables(results).tables
    yield from layer_cost_figures_at(results, tables, [table.costs[-1:] for table in tables])


def layer_cost_figures_at(
    results: Results, tables: Sequence[LayerCostTable], costs: Sequence[Sequence[PassCost]]
) -> Iterator[naming.NamedFigure]:
    """One a table and limit; of a table without limits, its unlimited times."""
    for table, own in zip(tables, costs, strict=True):
        shown: Sequence[PassCost | None] = own or [None]
        for cost in shown:
            words = [table.network, table.settings.get("schedule", "")]
            words += [cost.at.label] if len(own) > 1 and cost else []
            stem = naming.stem_of("layer-costs", table.settings, *words)
            yield naming.NamedFigure(stem, _figure(results, table, cost))


def _figure(results: Results, table: LayerCostTable, cost: PassCost | None) -> Any:
    bars = _bars(table, cost)
    where = f", unlimited and at {cost.at.limit}" if cost else ""
    title = f"Time of {naming.title_of(table.network)} by layer{where}"
    about = naming.subtitle(table.settings, *_told(table, cost))
    height = _HEAD_IN + _ROW_IN * len(bars)
    figure = style.new_figure(title, about, results, height)
    columns = 3 if cost else 2
    panels = figure.subplots(1, columns, sharey=True, width_ratios=[1, 1, 0.8][:columns])
    colours = (
        [style.UNLIMITED_COLOUR, style.limit_colours(2)[-1]] if cost else [style.UNLIMITED_COLOUR]
    )
    _seconds(panels[0], [bar.load_s for bar in bars], colours, "loading")
    _seconds(panels[1], [bar.execute_s for bar in bars], colours, "executing")
    # One scale, so that loading and executing compare.
    longest = max(max(*bar.load_s, *bar.execute_s) for bar in bars)
    for axes in panels[:2]:
        axes.set_xlim(0, 1.05 * longest)
    if cost:
        _extra_shares(panels[2], bars)
    _names(panels[0], bars)
    names = ["unlimited", *([cost.at.limit] if cost else [])]
    keys = [Patch(color=c, lw=0, label=name) for c, name in zip(colours, names, strict=True)]
    style.legend_beside(panels[-1], handles=keys)
    return figure


def _told(table: LayerCostTable, cost: PassCost | None) -> list[str]:
    clock = table.unlimited.clock_s.median
    if cost is None:
        return [f"a round takes {scales.short_seconds(clock)}"]
    words = [
        f"a round {scales.short_seconds(clock)} → {scales.short_seconds(cost.at.clock_s.median)}"
    ]
    return words if cost.surely_slower else [*words, "unclear: repeats differ by more"]


def _bars(table: LayerCostTable, cost: PassCost | None) -> list[_Bar]:
    """The worst layers, the others summed, and what lies between layers."""
    rows = sorted_layers(table, None, cost.at.label if cost else None)
    times = [row.at[cost.at.label].extra_s if cost else row.unlimited.pass_s for row in rows]
    most = sum(1 for seconds in times[:_MOST] if seconds > 0 and seconds >= _TELLING * times[0])
    # Summing a single layer would hide its name for nothing.
    most = len(rows) if most >= len(rows) - 1 else max(most, 1)
    names = naming.brief_labels([_name(table, row) for row in rows[:most]], _MOST_NAME)
    bars = [
        _bar(f"{name} ({_kind(row)})", [row], cost)
        for name, row in zip(names, rows[:most], strict=True)
    ]
    if rest := rows[most:]:
        bars.append(_bar(f"{len(rest)} other layers", rest, cost))
    passes = [table.unlimited, *([cost.at] if cost else [])]
    nothing = (0.0,) * len(passes)
    glue = tuple(one.glue_s for one in passes)
    return [*bars, _Bar("between layers", nothing, glue, cost.glue_extra_share if cost else None)]


def _bar(name: str, rows: Sequence[LayerRow], cost: PassCost | None) -> _Bar:
    sides: list[list[LayerPhases]] = [[row.unlimited for row in rows]]
    share = None
    if cost:
        own = [row.at[cost.at.label] for row in rows]
        sides.append([one.steps for one in own])
        share = sum(one.extra_share or 0.0 for one in own) if cost.extra_s > 0 else None
    return _Bar(
        name,
        tuple(sum(steps.load_s for steps in side) for side in sides),
        tuple(sum(steps.execute_s for steps in side) for side in sides),
        share,
        len(rows) == 1,
    )


def _name(table: LayerCostTable, row: LayerRow) -> str:
    several = len({layer.network for layer in table.layers}) > 1
    return f"{row.network} {row.name}" if several else row.name


def _kind(row: LayerRow) -> str:
    """Its type and the size of its weights."""
    kind = row.type if len(row.type) <= _MOST_TYPE else f"{row.type[: _MOST_TYPE - 1]}…"
    return kind + (f", {scales.short_size(row.parameter_bytes)}" if row.parameter_bytes else "")


def _names(axes: Axes, bars: Sequence[_Bar]) -> None:
    """The layers' names; what is no single layer is paler."""
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    for label, bar in zip(axes.get_yticklabels(), bars, strict=True):
        if not bar.single:
            label.set_color(style.MUTED)


def _seconds(
    axes: Axes, seconds: Sequence[tuple[float, ...]], colours: Sequence[style.Colour], title: str
) -> None:
    places = np.arange(len(seconds))
    thick = _THICK if len(colours) > 1 else 2 * _THICK
    for n, colour in enumerate(colours):
        shift = (n - (len(colours) - 1) / 2) * thick
        times = [side[n] for side in seconds]
        axes.barh(places + shift, times, thick, color=colour, lw=0, zorder=2)
    _plain(axes, title)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scales.short_seconds(value)))


def _extra_shares(axes: Axes, bars: Sequence[_Bar]) -> None:
    """Each row's share of the extra time."""
    shares = [bar.extra_share or 0.0 for bar in bars]
    drawn_bars = axes.barh(range(len(bars)), shares, 2 * _THICK, color=style.MUTED, lw=0, zorder=2)
    axes.bar_label(drawn_bars, [f"{share:.0%}" for share in shares], padding=3, fontsize=8)
    _plain(axes, "share of the extra time")
    low, high = min(*shares, 0.0), max(*shares, 0.01)
    # Room for the labels, also of a row that became faster.
    room = _LABEL_ROOM * (high - low)
    axes.set_xlim(low - (room if low < 0 else 0.0), high + room)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
