"""Figures of a random search: memory by each setting, and the settings' effects on memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.ticker import NullFormatter

from edgebench.analysis.studies.hyperparameters import (
    GROUPS,
    OWN,
    SettingEffect,
    draw_frame,
    measures_of,
    search_axes,
    search_effects,
)
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.text import MIB, format_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgebench.results.results import Results


@naming.figure_kind("hyperparameters")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw memory against each setting, and the effects with their intervals.

    Raises:
        ResultsError: no random search, or none of its trials finished.
    """
    draws = draw_frame(results)
    done = draws[draws["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the search finished", where=str(results.path))
    memory = _draw_memory(results, done, search_axes(results.sweeps[0]))
    yield naming.NamedFigure("hyperparameters-memory", memory)
    try:
        effects = search_effects(results)
    except ResultsError:
        return  # So few draws that `edgebench show --study` says why there are no effects.
    yield naming.NamedFigure("hyperparameters-effects", _draw_effects(results, effects))


def _measure_title(measure: str) -> str:
    """Name ``own_bytes`` and ``system_5s_bytes``."""
    if measure == OWN:
        return "trial's own memory"
    every = measure.removeprefix("system_").removesuffix("_bytes")
    return f"system's memory, every {every[:-1]} s"


def _group_title(group: Mapping[Any, Any]) -> str:
    words = [str(value) for name, value in group.items() if name != "background_bytes"]
    if "background_bytes" in group:
        size = group["background_bytes"]
        words.append(f"background {format_size(size)}" if size else "no background")
    return ", ".join(words) or "all draws"


def _draw_memory(results: Results, done: pd.DataFrame, settings: Mapping[str, str]) -> Figure:
    measures = measures_of(done)
    title = "Memory by each drawn setting"
    words = "one mark per trial; top: the trial's own memory, below: the whole system's"
    figure = style.new_figure(title, words, results, 1.2 + 2.2 * len(measures))
    grid = figure.subplots(len(measures), len(settings), squeeze=False, sharex="col", sharey="row")
    names = [name for name in GROUPS if name in done and done[name].nunique() > 1]
    groups = (
        [_group_title(dict(row)) for _, row in done[names].iterrows()] if names else "one trial"
    )
    marked = done.assign(group=groups, **{m: done[m] / MIB for m in measures})
    for row, measure in zip(grid, measures, strict=True):
        row[0].set_ylabel(f"{_measure_title(measure)}\n(MiB)")
        for axes, (name, scale) in zip(row, settings.items(), strict=True):
            if scale == "log":
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
            looks = {"hue": "group", "style": "group", "alpha": 0.65, "ax": axes}
            sns.scatterplot(marked, x=name, y=measure, **looks)
            axes.set_ylabel(f"{_measure_title(measure)}\n(MiB)")
    style.legend_beside(*grid.flat)
    return figure


def _draw_effects(results: Results, effects: Sequence[SettingEffect]) -> Figure:
    """Draw each effect with its interval: a panel a group, a colour a measure."""
    groups = list(dict.fromkeys(tuple(effect.group.items()) for effect in effects))
    settings = list(dict.fromkeys(effect.setting for effect in effects))
    measures = list(dict.fromkeys(effect.measure for effect in effects))
    title = "Effect of each setting on memory"
    words = "standard deviations of memory per standard deviation of the setting; 95 % intervals"
    height = 1.4 + max(2.0, 0.27 * len(settings) * len(measures))
    figure = style.new_figure(title, words, results, height)
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True, sharex=True)[0]
    for axes, group in zip(panels, groups, strict=True):
        axes.axvline(0, color=style.MUTED, lw=1)
        for number, measure in enumerate(measures):
            shown = [e for e in effects if tuple(e.group.items()) == group and e.measure == measure]
            colour, marker = style.series_style(number)
            shift = 0.44 * (number + 0.5) / len(measures) - 0.22
            axes.errorbar(
                [effect.size for effect in shown],
                [settings.index(effect.setting) + shift for effect in shown],
                xerr=[[e.size - e.low for e in shown], [e.high - e.size for e in shown]],
                fmt=marker,
                color=colour,
                label=_measure_title(measure),
            )
        differing = {k: v for k, v in group if len({dict(g).get(k) for g in groups}) > 1}
        axes.set_title(_group_title(differing).replace(", ", "\n"), fontsize="small")
        axes.set_xlabel("effect")
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].invert_yaxis()
    style.legend_beside(*panels, title="memory")
    return figure
