"""Figures of where computing time goes: one convolution's cost, busy cores, torch's operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.ticker import NullLocator, PercentFormatter

from edgebench.analysis.studies.convolutions import SHARED, CostBend, cost_bends, cost_frame
from edgebench.analysis.studies.phases import core_frame, operator_frame
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.derived import file_stem
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: What runs along an axis, and what then has one line each.
_OTHER = {"kernel": "batch", "batch": "kernel"}
_LABELS = {"kernel": "kernel size (pixels per side)", "batch": "batch (images)"}
_MOST_TICKS = 9
_SHOWN_OPERATORS = 12
#: Training's phases, in a step's order; the colours of others follow.
_PHASES = ("data", "forward", "backward", "step")


@naming.figure_kind("convolution")
def convolution_figures(results: Results) -> Iterator[naming.NamedFigure]:
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


@naming.figure_kind("cores")
def core_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each workload and limit.

    Raises:
        ResultsError: no trial of a network measured cores.
    """
    frame = core_frame(results)
    # The whole round is no phase of its own here.
    frame = frame[frame["phase"].ne("round") & frame["network"].notna()]
    if frame.empty:
        raise ResultsError("no trial of a network measured cores", where=str(results.path))
    keys = ("network", "schedule", "limit_label", *naming.BUT_BATCH)
    for settings, rows in naming.row_groups(frame, keys):
        network = settings["network"]
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        what = "share of a phase's time during which each core was busy"
        words = naming.subtitle(settings, limit, what)
        title = f"CPU time by core: {naming.title_of(network)}"
        figure = style.new_figure(title, words, results, 3.2)
        phases = [phase for phase in style.PHASE_TITLES if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            looks = {"hue": "core", "palette": "viridis", "errorbar": None, "ax": axes}
            busy = rows[rows["phase"] == phase].astype({"batch": int})
            sns.barplot(busy, x="batch", y="busy", **looks)
            axes.set(title=style.PHASE_TITLES[phase], ylim=(0, 1))
        panels[0].set_ylabel("share of time busy")
        panels[0].yaxis.set_major_formatter(PercentFormatter(1))
        style.legend_beside(*panels, title="core")
        yield naming.NamedFigure(naming.stem_of("cores", settings, network, limit), figure)


@naming.figure_kind("operators")
def operator_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each trial that timed operators: families left, operators right.

    Raises:
        ResultsError: no trial of this sweep timed operators.
    """
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        title = f"Time by operator: {first['network']}"
        words = (
            f"{first['steps']:g} steps of batch {first['batch']:g}, limit {first['limit_label']}; "
            "own time of each operator, by torch's profiler in a separate trial"
        )
        figure = style.new_figure(title, words, results, 4.6)
        panels = figure.subplots(1, 2)
        names = rows["operator"].str.replace("autograd::engine::evaluate_function", "autograd")
        rows = rows.assign(operator=names.str.removeprefix("aten::"), ms=rows["own_s"] * 1e3)
        phases = [*_PHASES, *sorted({*rows["phase"]} - {*_PHASES})]
        for axes, what in zip(panels, ("family", "operator"), strict=True):
            sums = rows.pivot_table("ms", what, "phase", "sum", fill_value=0)
            worst = sums.sum(axis=1).sort_values(ascending=False).index[:_SHOWN_OPERATORS]
            bars = sums.reindex(worst[::-1], columns=[p for p in phases if p in sums])
            colours = [style.PHASE_COLOURS.get(str(phase), "#9a9a9a") for phase in bars]
            bars.plot.barh(stacked=True, ax=axes, color=colours, width=0.75, legend=False)
            axes.set(xlabel="ms per step", ylabel="")
        style.legend_beside(*panels, title="phase")
        yield naming.NamedFigure(file_stem("operators", first["network"], trial), figure)
