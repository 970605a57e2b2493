"""Figure of each layer's time at every limit: loading and executing, a column a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm

from edgebench.report.figures import naming, scales, style
from edgebench.report.figures.layer_costs import tables_by_slowdown
from edgebench.units import MIB

if TYPE_CHECKING:
    from edgebench.analysis.layer_table import LayerCostTable
    from edgebench.results.results import Results

#: This many layers are shown, those that take longest at any limit; the others are summed.
_MOST = 16
#: Characters of a layer's name.
_MOST_NAME = 28
#: With more limits than this, a column has no room for numbers.
_MOST_NUMBERS = 9
_ROW_IN, _HEAD_IN = 0.24, 1.75
#: Shorter times look like this one.
_SHORTEST_S = 1e-4


@naming.figure_kind("layer-times", place=3)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
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
        figure = style.new_figure(title, words, results, _HEAD_IN + _ROW_IN * len(load))
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
    several = len({row.network for row in table.layers}) > 1
    names = [f"{row.network} {row.name}" if several else row.name for row in table.layers]
    load = pd.DataFrame({name: [step.load_s for step in at] for name, at in steps.items()})
    execute = pd.DataFrame({name: [step.execute_s for step in at] for name, at in steps.items()})
    order = (load + execute).max(axis=1).sort_values(ascending=False, kind="stable").index
    shown = order if len(order) <= _MOST + 1 else order[:_MOST]
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


def _short_time(seconds: float) -> str:
    """Format a time for a narrow cell; empty where it is too short to matter."""
    if seconds < _SHORTEST_S:
        return ""
    return f"{seconds:.2g} s" if seconds >= 0.0995 else f"{seconds * 1e3:.2g} ms"
