"""Figure of each layer's time, unlimited and at a limit: loading, executing, share of the extra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns

from edgebench.analysis.layer_costs import layer_cost_tables
from edgebench.analysis.layer_table import sorted_layers
from edgebench.answers.table import seconds, size
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.once import once_for_results
from edgebench.results.results import Results
from edgebench.results.workload_key import WorkloadKey

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgebench.analysis.layer_table import LayerCostTable, LayerRow, PassCost

#: This many layers are drawn one by one, if they have this share of the worst one's time; the
#: others are summed.
_MOST, _LEAST_SHARE = 8, 0.02
_ROW_IN, _HEAD_IN = 0.32, 1.55
#: Characters of a layer's name and of its type: longer ones would leave the bars no room.
_MOST_NAME, _MOST_TYPE = 28, 16


@naming.figure_kind("layer-costs", place=2)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
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
    figure = style.new_figure(title, words, results, _HEAD_IN + _ROW_IN * count)
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
    most = max(sum(1 for time in times[:_MOST] if time > 0 and time >= least), 1)
    # To sum a single layer would hide its name.
    most = len(rows) if most >= len(rows) - 1 else most
    several = len({layer.network for layer in table.layers}) > 1
    names = [f"{row.network} {row.name}" if several else row.name for row in rows[:most]]
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
