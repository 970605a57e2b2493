"""Figures of where time goes: by layer, of one convolution, by core, and by torch's operators.

Layers are drawn at a limit, at every limit, and by the size of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from edgebench.analysis.layer_costs import (
    LayerCostTable,
    LayerRow,
    PassCost,
    layer_cost_tables,
    sorted_layers,
)
from edgebench.analysis.studies.convolutions import SHARED, CostBend, cost_bends, cost_frame
from edgebench.analysis.studies.phases import core_frame, operator_frame
from edgebench.answers.limits import layer_name
from edgebench.answers.table import seconds, size
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.results.derived import file_stem
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.frames import answering_rows
from edgebench.results.results import Results, once_for_results
from edgebench.results.workload_key import WorkloadKey
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: This many layers are drawn one by one, if they have this share of the worst one's time; the
#: others are summed.
_MOST_BARS, _LEAST_SHARE = 8, 0.02
#: Characters of a layer's name and of its type: longer ones would leave the bars no room.
_MOST_NAME, _MOST_TYPE = 28, 16
#: This many layers are shown at every limit, those that take longest; the others are summed.
_MOST_ROWS = 16
#: With more limits than this, a column has no room for numbers.
_MOST_NUMBERS = 9
#: Shorter times look like this one.
_SHORTEST_S = 1e-4
#: What runs along an axis, and what then has one line each.
_OTHER = {"kernel": "batch", "batch": "kernel"}
_LABELS = {"kernel": "kernel size (pixels per side)", "batch": "batch (images)"}
_MOST_TICKS = 9
_SHOWN_OPERATORS = 12
#: Training's phases, in a step's order; the colours of others follow.
_PHASES = ("data", "forward", "backward", "step")


@naming.figure_kind("layer-costs", place=2)
def cost_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw each workload at the tightest limit at which trials finished, the slowest first.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    for table in tables_by_slowdown(results):
        yield from _cost_figures_at(results, [table], [table.costs[-1:]])


def tables_by_slowdown(results: Results) -> Iterator[LayerCostTable]:
    """Return each workload's table, that of the largest slowdown first.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    errors: list[ResultsError] = []
    parts = workloads_by_slowdown(results)
    for part in parts:
        try:
            yield from layer_cost_tables(part).tables
        except ResultsError as error:
            errors.append(error)
        results.add_warnings(part.warnings)
    if len(errors) == len(parts):
        what = "; ".join(dict.fromkeys(error.what for error in errors)) or "no trial here"
        raise ResultsError(what, where=str(results.path))


@once_for_results
def workloads_by_slowdown(results: Results) -> list[Results]:
    """Return the results of each workload apart: the events of a whole sweep take long to read."""
    sweep = results.sweeps[0]

    def slowdown(workload: WorkloadFacts) -> float:
        return max((point.slowdown or 0.0 for point in workload.tried), default=0.0)

    parts: list[Results] = []
    for workload in sorted(sweep_facts(sweep).workloads, key=slowdown, reverse=True):
        key = workload.key
        records = [r for r in sweep.records if WorkloadKey.of(r.settings, r.limits) == key]
        parts.append(Results([replace(sweep, records=records)]))
    return parts


def draw_layer_costs(
    results: Results, tables: Sequence[LayerCostTable], costs: Sequence[Sequence[PassCost]]
) -> list[Path]:
    """Write what limits cost the layers of these tables, at these limits of each.

    Raises:
        ResultsError: the folder can't be written.
    """
    return naming.write_figures(_cost_figures_at(results, tables, costs), results.path)


def _cost_figures_at(
    results: Results, tables: Sequence[LayerCostTable], costs: Sequence[Sequence[PassCost]]
) -> Iterator[naming.NamedFigure]:
    """Draw each table and limit; of a table without limits, its unlimited times."""
    for table, own in zip(tables, costs, strict=True):
        shown: Sequence[PassCost | None] = own or [None]
        for cost in shown:
            words = [table.network, table.settings.get("schedule", "")]
            words += [cost.at.label] if len(own) > 1 and cost else []
            stem = naming.stem_of("layer-costs", table.settings, *words)
            yield naming.NamedFigure(stem, _draw_layers(results, table, cost))


def _draw_layers(results: Results, table: LayerCostTable, cost: PassCost | None) -> Figure:
    bars = _bars(table, cost)
    count = len(bars) // (2 if cost else 1)
    where = f", unlimited and at {size(cost.at.limit_bytes)}" if cost else ""
    title = f"Time of {naming.title_of(table.network)} by layer{where}"
    clock = seconds(table.unlimited.clock_s.median)
    about = f"a round takes {clock}"
    if cost:
        about = f"a round {clock} → {seconds(cost.at.clock_s.median)}"
        about += "" if cost.surely_slower else "  ·  unclear: repeats differ by more"
    words = naming.subtitle(table.settings, about)
    figure = style.new_figure(title, words, results, 1.55 + 0.32 * count)
    columns = 3 if cost else 2
    panels = figure.subplots(1, columns, sharey=True, width_ratios=[1, 1, 0.8][:columns])
    colours = [style.UNLIMITED_COLOUR, style.limit_colours(2)[-1]][: 2 if cost else 1]
    looks: dict[str, Any] = {"y": "layer", "orient": "y", "saturation": 1}
    for axes, phase in zip(panels, ("loading", "executing"), strict=False):
        sns.barplot(bars, x=phase, hue="at", palette=colours, ax=axes, **looks)
        axes.xaxis.set_major_formatter(style.SECONDS)
        axes.locator_params(axis="x", nbins=3)
    # One scale, so that loading and executing compare.
    longest = float(bars[["loading", "executing"]].to_numpy().max())
    panels[0].set_xlim(0, 1.05 * longest)
    panels[1].set_xlim(0, 1.05 * longest)
    if cost:
        shares = bars[bars["at"] == size(cost.at.limit_bytes)]
        sns.barplot(shares, x="share", color=style.MUTED, ax=panels[2], **looks)
        panels[2].bar_label(panels[2].containers[0], fmt="{:.0%}", padding=3, fontsize=8)
        panels[2].set_xticks([])
        panels[2].margins(x=0.3)
        panels[2].spines["bottom"].set_visible(False)
    titles = ("loading", "executing", "share of the extra time")
    for axes, name in zip(panels, titles, strict=False):
        axes.set(title=name, xlabel="", ylabel="")
    style.legend_beside(*panels)
    return figure


def _bars(table: LayerCostTable, cost: PassCost | None) -> pd.DataFrame:
    """Return the worst layers, the others summed, and what lies between layers, at each limit."""
    rows = sorted_layers(table, None, cost.at.label if cost else None)
    times = [row.at[cost.at.label].extra_s if cost else row.unlimited.pass_s for row in rows]
    least = _LEAST_SHARE * times[0]
    most = max(sum(1 for time in times[:_MOST_BARS] if time > 0 and time >= least), 1)
    # To sum a single layer would hide its name.
    most = len(rows) if most >= len(rows) - 1 else most

    names = [layer_name(table, row) for row in rows[:most]]
    labels = naming.brief_labels(names, _MOST_NAME)
    groups: dict[str, Sequence[LayerRow]] = {
        f"{label} ({_kind(row)})": [row] for label, row in zip(labels, rows, strict=False)
    }
    if rest := rows[most:]:
        groups[f"{len(rest)} other layers"] = rest
    bars: list[tuple[str, str, float, float, float]] = []
    for name, layers in groups.items():
        load = sum(row.unlimited.load_s for row in layers)
        bars.append((name, "unlimited", load, sum(row.unlimited.execute_s for row in layers), 0.0))
        if cost:
            at = [row.at[cost.at.label] for row in layers]
            share = sum(extra.extra_share or 0.0 for extra in at) if cost.extra_s > 0 else 0.0
            load = sum(extra.steps.load_s for extra in at)
            execute = sum(extra.steps.execute_s for extra in at)
            bars.append((name, size(cost.at.limit_bytes), load, execute, share))
    bars.append(("between layers", "unlimited", 0.0, table.unlimited.glue_s, 0.0))
    if cost:
        share = cost.glue_extra_share or 0.0
        bars.append(("between layers", size(cost.at.limit_bytes), 0.0, cost.at.glue_s, share))
    return pd.DataFrame(bars, columns=["layer", "at", "loading", "executing", "share"])


def _kind(row: LayerRow) -> str:
    """Return its type and the size of its weights."""
    kind = row.type if len(row.type) <= _MOST_TYPE else f"{row.type[: _MOST_TYPE - 1]}…"
    return kind + (f", {size(row.parameter_bytes)}" if row.parameter_bytes else "")


@naming.figure_kind("layer-times", place=3)
def time_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw each workload with all its executions of a round, the slowest first.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    for table in tables_by_slowdown(results):
        load, execute = _times(table)
        title = f"Time of {naming.title_of(table.network)} by layer and limit"
        killed = [f"{lost.limit_bytes / MIB:.0f}" for lost in table.unfinished if lost.limit_bytes]
        more = [f"killed at {', '.join(killed)} MiB"] if killed else []
        words = naming.subtitle(table.settings, *more)
        figure = style.new_figure(title, words, results, 1.75 + 0.24 * len(load))
        panels = figure.subplots(1, 2, sharey=True)
        longest = max(float(load.to_numpy().max()), float(execute.to_numpy().max()))
        numbers = len(load.columns) <= _MOST_NUMBERS
        for axes, times, name in zip(
            panels, (load, execute), ("loading", "executing"), strict=True
        ):
            sns.heatmap(
                times.clip(lower=_SHORTEST_S),
                norm=LogNorm(_SHORTEST_S, max(longest, 10 * _SHORTEST_S)),
                cmap="rocket_r",
                annot=times.map(_short_time) if numbers else None,
                fmt="",
                annot_kws={"fontsize": 6.5},
                cbar=not numbers and axes is panels[1],
                cbar_kws={"format": style.SECONDS, "label": "time in a round"},
                ax=axes,
            )
            axes.set(title=f"{name}: time in a round", xlabel="limit (MiB)", ylabel="")
            axes.tick_params(axis="x", labelrotation=0 if numbers else 90)
        stem = naming.stem_of(
            "layer-times", table.settings, table.network, table.settings.get("schedule", "")
        )
        yield naming.NamedFigure(stem, figure)


def _times(table: LayerCostTable) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return seconds of loading and of executing, a row a layer and a column a limit."""
    steps = {"max": [row.unlimited for row in table.layers]}
    for cost in table.costs:
        name = f"{(cost.at.limit_bytes or 0) / MIB:.0f}"
        steps[name] = [row.at[cost.at.label].steps for row in table.layers]

    names = [layer_name(table, row) for row in table.layers]
    load = pd.DataFrame({name: [step.load_s for step in at] for name, at in steps.items()})
    execute = pd.DataFrame({name: [step.execute_s for step in at] for name, at in steps.items()})
    order = (load + execute).max(axis=1).sort_values(ascending=False, kind="stable").index
    shown = order if len(order) <= _MOST_ROWS + 1 else order[:_MOST_ROWS]
    shown = shown.sort_values()
    rest = order.difference(shown)
    labels = naming.brief_labels([names[n] for n in shown], _MOST_NAME)
    frames = []
    for frame in (load, execute):
        kept = frame.loc[shown].set_axis(labels)
        if len(rest):
            kept.loc[f"{len(rest)} other layers"] = frame.loc[rest].sum()
        frames.append(kept)
    return frames[0], frames[1]


def _short_time(time_s: float) -> str:
    """Format a time for a narrow cell; empty where it is too short to matter."""
    if time_s < _SHORTEST_S:
        return ""
    return f"{time_s:.2g} s" if time_s >= 0.0995 else f"{time_s * 1e3:.2g} ms"


@naming.figure_kind("loading-execution")
def loading_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a figure for each schedule and settings; all networks' layers share it.

    Raises:
        ResultsError: no layer with a file was timed.
    """
    layers = results.layers
    layers = layers[(layers["outcome"] == "ok") & (layers["file_bytes"] > 0)]
    layers = answering_rows(layers[layers["parameter_bytes"] > 0])
    if layers.empty:
        raise ResultsError("no layer with a weights file was timed", where=str(results.path))
    keys = ["network", "layer", "limit", "file_bytes"]
    for settings, rows in naming.row_groups(layers, ("schedule", *naming.SETTINGS)):
        networks = list(dict.fromkeys(rows["network"]))
        shown = f"{len(networks)} networks" if len(networks) > 3 else ", ".join(networks)
        title = "Loading and execution time of a layer by the size of its weights"
        figure = style.new_figure(title, naming.subtitle(settings, shown), results, 4.6)
        phases = [phase for phase in ("load", "first", "execute") if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharex=True, sharey=True, squeeze=False)[0]
        limits = naming.limit_names(rows)
        colours = [style.UNLIMITED_COLOUR, *style.limit_colours(len(limits) - 1)]
        named = rows.assign(limit=rows["limit_label"].map(limits))
        for axes, phase in zip(panels, phases, strict=True):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            # A layer's mean over trials, steady rounds and passes at each limit.
            times = named[named["phase"] == phase].groupby(keys)["wall_s"].mean().reset_index()
            # The line joins means of layers of a like size: three sizes in a factor of ten.
            like = 10 ** ((3 * np.log10(times["file_bytes"])).round() / 3)
            looks = {"y": "wall_s", "hue": "limit", "hue_order": list(limits.values()), "ax": axes}
            looks |= {"data": times.assign(like=like), "palette": colours[-len(limits) :]}
            sns.scatterplot(x="file_bytes", legend=False, s=9, alpha=0.35, linewidth=0, **looks)
            sns.lineplot(x="like", errorbar=None, **looks)
            axes.set(title=style.PHASE_TITLES[phase], xlabel="size of the layer's weights file")
            axes.xaxis.set_major_locator(LogLocator(2, numticks=5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: size(at)))
            axes.xaxis.set_minor_locator(NullLocator())
        style.seconds_axis(panels[0], "mean time per layer")
        style.legend_beside(*panels, title="mean of layers of\na like size, at limit")
        words = (settings.get("schedule", ""),)
        yield naming.NamedFigure(naming.stem_of("loading-execution", settings, *words), figure)


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
        yield naming.NamedFigure(stem, _draw_costs(results, rows, shared))


def _draw_costs(results: Results, rows: pd.DataFrame, shared: Mapping[str, Any]) -> Figure:
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
        style.seconds_axis(top, "time per image")
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
