"""Figures of layers' times: at a limit, at every limit, and by the size of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from edgebench.analysis.layer_costs import layer_cost_tables
from edgebench.analysis.layer_table import sorted_layers
from edgebench.answers.table import seconds, size
from edgebench.answers.trials import layer_name
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.frames import answering_rows
from edgebench.results.results import Results, once_for_results
from edgebench.results.workload_key import WorkloadKey
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgebench.analysis.layer_table import LayerCostTable, LayerRow, PassCost

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


@naming.figure_kind("layer-costs", place=2)
def cost_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw each workload at the tightest limit at which trials finished, the slowest first.

    Raises:
        ResultsError: no layer was timed, or no unlimited trial finished.
    """
    for table in tables_by_slowdown(results):
        yield from layer_cost_figures_at(results, [table], [table.costs[-1:]])


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


def layer_cost_figures_at(
    results: Results, tables: Sequence[LayerCostTable], costs: Sequence[Sequence[PassCost]]
) -> Iterator[naming.NamedFigure]:
    """Draw each table and limit; of a table without limits, its unlimited times."""
    for table, own in zip(tables, costs, strict=True):
        shown: Sequence[PassCost | None] = own or [None]
        for cost in shown:
            words = [table.network, table.settings.get("schedule", "")]
            words += [cost.at.label] if len(own) > 1 and cost else []
            stem = naming.stem_of("layer-costs", table.settings, *words)
            yield naming.NamedFigure(stem, _draw(results, table, cost))


def _draw(results: Results, table: LayerCostTable, cost: PassCost | None) -> Figure:
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
        axes.xaxis.set_major_formatter(scales.SECONDS)
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
                cbar_kws={"format": scales.SECONDS, "label": "time in a round"},
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
        scales.seconds_axis(panels[0], "mean time per layer")
        style.legend_beside(*panels, title="mean of layers of\na like size, at limit")
        words = (settings.get("schedule", ""),)
        yield naming.NamedFigure(naming.stem_of("loading-execution", settings, *words), figure)
