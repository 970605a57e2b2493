"""Figures of a random search: memory by each setting, and the settings' effects on memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from edgebench.analysis.studies.effects import SettingEffect
from edgebench.analysis.studies.hyperparameters import (
    GROUPS,
    OWN,
    draw_frame,
    measures_of,
    search_axes,
    search_effects,
)
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.report.figures.palettes import COLOUR_BLIND
from edgebench.units import MIB, format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLOURS = COLOUR_BLIND
_MARKERS = ("o", "s", "^", "D", "v", "P")


@naming.figure_kind("hyperparameters")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Memory against each setting, and the effects with their intervals.

    Raises:
        ResultsError: no random search, or none of its trials finished.
    """
    draws = draw_frame(results)
    done = draws[draws["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the search finished", where=str(results.path))
    axes = search_axes(results.sweeps[0])
    yield naming.NamedFigure("hyperparameters-memory", _memory(results, done, axes))
    try:
        found = search_effects(results)
    except ResultsError:
        return  # So few draws that `edgebench show --study` says why there are no effects.
    yield naming.NamedFigure("hyperparameters-effects", _effects(results, found))


def measure_title(measure: str) -> str:
    """``own_bytes`` and ``system_5s_bytes`` in words."""
    if measure == OWN:
        return "trial's own memory"
    every = measure.removeprefix("system_").removesuffix("_bytes")
    return f"system's memory, every {every[:-1]} s"


def _memory(results: Results, done: pd.DataFrame, scales: dict[str, str]) -> Any:
    measures = measures_of(done)
    figure = style.new_figure(
        "Memory by each drawn setting",
        "one mark per trial; top: the trial's own memory, below: the whole system's",
        results,
        1.2 + 2.2 * len(measures),
    )
    grid = figure.subplots(len(measures), len(scales), squeeze=False, sharex="col", sharey="row")
    looks = _group_looks(done)
    for row, measure in zip(grid, measures, strict=True):
        row[0].set_ylabel(f"{measure_title(measure)}\n(MiB)")
        for axes, (name, scale) in zip(row, scales.items(), strict=True):
            _scatter(axes, done, name, measure, looks)
            if scale == "log":
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
    for axes, name in zip(grid[-1], scales, strict=True):
        axes.set_xlabel(name)
    keys = [
        Line2D([], [], color=colour, marker=marker, ls="", mew=0, label=title)
        for title, colour, marker in looks.values()
    ]
    style.legend_beside(grid[0][-1], handles=keys)
    return figure


def _group_looks(done: pd.DataFrame) -> dict[tuple[Any, ...], tuple[str, Any, str]]:
    """Values of the group's columns → its name, colour and marker."""
    names = [n for n in GROUPS if n in done and done[n].nunique() > 1]
    if not names:
        return {(): ("one trial", *_look(0))}
    keys = [tuple(values) for values, _ in done.groupby(names, sort=True)]
    titles = [_group_title(dict(zip(names, key, strict=True))) for key in keys]
    return {key: (titles[number], *_look(number)) for number, key in enumerate(keys)}


def _look(number: int) -> tuple[Any, str]:
    """Colour and marker of a group or measure, by its place."""
    return _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]


def _group_title(group: dict[str, Any]) -> str:
    words = []
    for name, value in group.items():
        if name == "background_bytes":
            words.append(f"background {format_size(value)}" if value else "no background")
        else:
            words.append(str(value))
    return ", ".join(words) or "all draws"


def _scatter(
    axes: Axes,
    done: pd.DataFrame,
    name: str,
    measure: str,
    looks: dict[tuple[Any, ...], tuple[str, Any, str]],
) -> None:
    names = [n for n in GROUPS if n in done and done[n].nunique() > 1]
    for key, (_, colour, marker) in looks.items():
        own = done
        for column, value in zip(names, key, strict=True):
            own = own[own[column] == value]
        axes.plot(own[name], own[measure] / MIB, marker, color=colour, ms=4.5, mew=0, alpha=0.65)


def _effects(results: Results, found: Sequence[SettingEffect]) -> Any:
    """Each effect with its interval: a panel a group, a colour a measure."""
    groups = list(dict.fromkeys(tuple(effect.group.items()) for effect in found))
    settings = list(dict.fromkeys(effect.setting for effect in found))
    measures = list(dict.fromkeys(effect.measure for effect in found))
    figure = style.new_figure(
        "Effect of each setting on memory",
        "standard deviations of memory per standard deviation of the setting; 95 % intervals",
        results,
        1.4 + max(2.0, 0.45 * len(settings) * len(measures) * 0.6),
    )
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True, sharex=True)[0]
    for axes, group in zip(panels, groups, strict=True):
        own = [effect for effect in found if tuple(effect.group.items()) == group]
        _forest(axes, own, settings, measures)
        differing = {k: v for k, v in group if len({dict(g).get(k) for g in groups}) > 1}
        axes.set_title(_group_title(differing).replace(", ", "\n"), fontsize="small")
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].invert_yaxis()
    looks = [_look(number) for number in range(len(measures))]
    style.legend_beside(
        panels[-1],
        handles=[
            Line2D([], [], color=colour, marker=marker, lw=1.5, label=measure_title(measure))
            for measure, (colour, marker) in zip(measures, looks, strict=True)
        ],
        title="memory",
    )
    return figure


def _forest(
    axes: Axes, effects: Sequence[SettingEffect], settings: Sequence[str], measures: Sequence[str]
) -> None:
    axes.axvline(0, color=style.MUTED, lw=1)
    for effect in effects:
        number = measures.index(effect.measure)
        colour, marker = _look(number)
        offset = np.linspace(-0.22, 0.22, len(measures))[number]
        height = settings.index(effect.setting) + (offset if len(measures) > 1 else 0.0)
        axes.plot([effect.low, effect.high], [height] * 2, color=colour, lw=1.6)
        axes.plot([effect.size], [height], marker, color=colour, ms=5.5, mec="white", mew=0.8)
    axes.set_xlabel("effect")
