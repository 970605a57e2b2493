"""Figure of a convolution's time and memory per image, by kernel and by batch, with bends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.ticker import NullLocator

from edgebench.analysis.studies.convolutions import SHARED, CostBend, cost_bends, cost_frame
from edgebench.report.figures import naming, scales, style
from edgebench.results.derived import file_stem
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: What runs along an axis, and what then has one line each.
_OTHER = {"kernel": "batch", "batch": "kernel"}
_LABELS = {"kernel": "kernel size (pixels per side)", "batch": "batch (images)"}
_MOST_TICKS = 9


@naming.figure_kind("convolution")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each limit, size and kind of pass: time above, memory below.

    Raises:
        ResultsError: no convolution finished in this sweep.
    """
    costs = cost_frame(results)
    costs = costs.astype({"kernel": int, "batch": int}).assign(MiB=costs["image_bytes"] / MIB)
    fixed = [name for name in SHARED if name != "stack"]
    for values, rows in costs.groupby(fixed, sort=True):
        shared = dict(zip(fixed, tuple(values), strict=True))
        size = f"{shared['channels']:g}x{shared['image']:g}"
        stem = file_stem("convolution", shared["work"], shared["limit_label"], size)
        yield naming.NamedFigure(stem, _draw(results, rows, shared))


def _draw(results: Results, rows: pd.DataFrame, shared: Mapping[str, Any]) -> Figure:
    channels, image = int(shared["channels"]), int(shared["image"])
    sizes = f"{channels} → {channels} channels, {image} × {image} images, limit "
    words = sizes + f"{shared['limit_label']}: a line through medians, with the range of trials"
    title = f"Time and memory of a convolution per image, {shared['work']}"
    figure = style.new_figure(title, words, results, 6.6)
    singles = rows[rows["stack"] == 1]
    bends = list(cost_bends(singles))
    # A direction with one value alone has nothing to draw.
    ways = [way for way in _OTHER if singles[way].nunique() > 1] or ["kernel"]
    grid = figure.subplots(2, len(ways), squeeze=False, sharex="col")
    for (top, foot), way in zip(grid.T, ways, strict=True):
        values = sorted(singles[_OTHER[way]].unique())
        colours = dict(zip(values, style.limit_colours(len(values)), strict=True))
        for axes, what in ((top, "image_s"), (foot, "MiB")):
            looks: dict[str, Any] = {"y": what, "hue": _OTHER[way], "palette": colours, "ax": axes}
            sns.lineplot(singles, x=way, estimator="median", errorbar=("pi", 100), **looks)
            stacked = rows[(rows["stack"] > 1) & rows[_OTHER[way]].isin(values)]
            if way == "kernel" and len(stacked):
                sns.scatterplot(stacked, x="field", marker="D", legend=False, **looks)
        _draw_bends(top, [bend for bend in bends if bend.along == way], colours)
        _draw_axis(foot, rows["field"] if way == "kernel" else rows[way], way)
        scales.seconds_axis(top, "time per image")
        foot.set_ylabel("memory per image above base (MiB)")
        if legend := foot.get_legend():
            legend.remove()
        title = f"{_OTHER[way]}\n(diamonds: stacked\nkernels, by field)"
        style.legend_beside(top, title=title if way == "kernel" and len(stacked) else _OTHER[way])
    return figure


def _draw_bends(axes: Axes, bends: Sequence[CostBend], colours: Mapping[Any, Any]) -> None:
    """Draw a mark on the fitted lines, and its interval as a bar."""
    for cost in bends:
        if cost.bend.found:
            height = float(cost.bend.value(cost.bend.at))
            looks = {"color": colours[cost.shared[_OTHER[cost.along]]], "mec": style.INK}
            axes.plot(cost.interval, [height] * 2, color=style.INK, lw=3, alpha=0.35, zorder=4)
            label = "bend, 90 % interval"
            axes.plot([cost.at], [height], "v", ms=9, zorder=5, label=label, **looks)


def _draw_axis(axes: Axes, column: pd.Series[Any], way: str) -> None:
    places = np.sort(column.unique())
    if way == "kernel" and len(places) > _MOST_TICKS:
        # Odd ones: those of stacks are all odd, and more would run into each other.
        places = places[places % 2 == 1]
    if way == "batch":
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(_LABELS[way])
