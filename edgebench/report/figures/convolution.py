"""Figure of a convolution's time and memory per image, by kernel and by batch, with bends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from edgebench.analysis.studies.convolutions import SHARED, CostBend, cost_bends, cost_frame
from edgebench.report.figures import naming, scales, style
from edgebench.results.derived import file_stem
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: What runs along an axis, and what then has one line each.
_OTHER = {"kernel": "batch", "batch": "kernel"}
_LABELS = {"kernel": "kernel size (pixels per side)", "batch": "batch (images)"}
_MOST_TICKS = 9


@naming.figure_kind("convolution")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One for each limit, size and kind of pass: time above, memory below.

    Raises:
        ResultsError: no convolution finished in this sweep.
    """
    costs = cost_frame(results)
    fixed = [name for name in SHARED if name != "stack"]
    for values, rows in costs.groupby(fixed, sort=True):
        shared = dict(zip(fixed, tuple(values), strict=True))
        bends = list(cost_bends(rows[rows["stack"] == 1]))
        size = f"{shared['channels']:g}x{shared['image']:g}"
        stem = file_stem("convolution", shared["work"], shared["limit_label"], size)
        yield naming.NamedFigure(stem, _figure(results, rows, shared, bends))


def _figure(
    results: Results, rows: pd.DataFrame, shared: Mapping[str, Any], bends: Sequence[CostBend]
) -> Any:
    channels, image = int(shared["channels"]), int(shared["image"])
    sizes = f"{channels} → {channels} channels, {image} × {image} images, limit "
    figure = style.new_figure(
        f"Time and memory of a convolution per image, {shared['work']}",
        sizes + f"{shared['limit_label']}: a dot is the median of one trial's passes",
        results,
        6.6,
    )
    # A direction with one value alone has nothing to draw.
    ways = [way for way in _OTHER if rows.loc[rows["stack"] == 1, way].nunique() > 1] or ["kernel"]
    grid = figure.subplots(2, len(ways), squeeze=False, sharex="col")
    for column, way in enumerate(ways):
        top, foot = grid[0][column], grid[1][column]
        _lines(top, rows, way, "image_s", 1.0)
        _lines(foot, rows, way, "image_bytes", MIB)
        _mark_bends(top, [bend for bend in bends if bend.along == way], rows)
        _scale(foot, rows, way)
        style.legend_beside(top, handles=_keys(rows, way, bends), title=_OTHER[way])
    scales.seconds_axis(grid[0][0], "time per image")
    for axes in grid[0][1:]:
        scales.seconds_axis(axes, "")
    grid[1][0].set_ylabel("memory per image above base (MiB)")
    return figure


def _lines(axes: Axes, rows: pd.DataFrame, way: str, what: str, unit: float) -> None:
    """One line for each value of the other axis; stacks as open marks at their field."""
    singles = rows[rows["stack"] == 1]
    for colour, (_, own) in zip(_colours(rows, way), singles.groupby(_OTHER[way]), strict=True):
        medians = own.groupby(way)[what].median() / unit
        axes.plot(own[way], own[what] / unit, "o", color=colour, ms=3, mew=0, alpha=0.4)
        axes.plot(medians.index, medians, color=colour, lw=1.5)
    if way == "kernel":
        for colour, (batch, _) in zip(_colours(rows, way), singles.groupby("batch"), strict=True):
            own = rows[(rows["stack"] > 1) & (rows["batch"] == batch)]
            axes.plot(own["field"], own[what] / unit, "D", ms=5, mfc="none", mec=colour)


def _colours(rows: pd.DataFrame, way: str) -> list[Any]:
    return list(style.limit_colours(int(rows.loc[rows["stack"] == 1, _OTHER[way]].nunique())))


def _mark_bends(axes: Axes, bends: Sequence[CostBend], rows: pd.DataFrame) -> None:
    """A mark on the fitted lines, and its interval as a bar."""
    for cost in bends:
        if not cost.bend.found:
            continue
        colours = _colours(rows, cost.along)
        values = sorted(rows.loc[rows["stack"] == 1, _OTHER[cost.along]].unique())
        colour = colours[values.index(cost.shared[_OTHER[cost.along]])]
        height = float(cost.bend.value(cost.bend.at))
        axes.plot(cost.interval, [height] * 2, color=style.INK, lw=3, alpha=0.35, zorder=4)
        axes.plot([cost.at], [height], "v", ms=9, color=colour, mec=style.INK, mew=1, zorder=5)


def _scale(axes: Axes, rows: pd.DataFrame, way: str) -> None:
    column = rows["field"] if way == "kernel" else rows[way]
    places = np.sort(column.unique())
    if way == "kernel" and len(places) > _MOST_TICKS:
        # Odd ones: those of stacks are all odd, and more would run into each other.
        places = places[places % 2 == 1]
    if way == "batch":
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(_LABELS[way])


def _keys(rows: pd.DataFrame, way: str, bends: Sequence[CostBend]) -> list[Line2D]:
    values = sorted(rows.loc[rows["stack"] == 1, _OTHER[way]].unique())
    keys = [
        Line2D([], [], color=colour, lw=1.5, label=f"{value:g}")
        for colour, value in zip(_colours(rows, way), values, strict=True)
    ]
    if any(cost.along == way and cost.bend.found for cost in bends):
        name = "bend, 90 % interval"
        keys.append(
            Line2D([], [], marker="v", ms=9, mec=style.INK, color=style.MUTED, lw=3, label=name)
        )
    if way == "kernel" and (rows["stack"] > 1).any():
        name = "stacked kernels\n(receptive field)"
        keys.append(
            Line2D([], [], marker="D", ms=5, mfc="none", mec=style.MUTED, ls="", label=name)
        )
    return keys
