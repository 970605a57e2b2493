"""Study C: memory against each drawn setting, by the trial's own measure and by the system's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from edgebench.errors import ResultsError
from edgebench.figures.axes import MIB
from edgebench.figures.naming import Drawn
from edgebench.figures.style import MUTED, legend_beside, new_figure
from edgebench.studies.effects import Effect
from edgebench.studies.hyperparameters import (
    GROUPS,
    OWN,
    draw_frame,
    measures_of,
    search_axes,
    search_effects,
)
from edgebench.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLOURS = sns.color_palette("colorblind")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def figures(results: Results) -> Iterator[Drawn]:
    """Memory against each setting, and the effects with their intervals.

    Raises:
        ResultsError: no random search, or none of its trials finished.
    """
    draws = draw_frame(results)
    done = draws[draws["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the search finished", where=str(results.path))
    axes = search_axes(results.sweeps[0])
    yield Drawn("hyperparameters-memory", _memory(results, done, axes))
    try:
        found = search_effects(results)
    except ResultsError:
        return  # So few draws that `edgebench study` says why there are no effects.
    yield Drawn("hyperparameters-effects", _effects(results, found))


def measure_title(measure: str) -> str:
    """``own_bytes`` and ``system_5s_bytes`` in words."""
    if measure == OWN:
        return "the trial's own"
    every = measure.removeprefix("system_").removesuffix("_bytes")
    return f"the system's, every {every[:-1]} s"


def _memory(results: Results, done: pd.DataFrame, scales: dict[str, str]) -> Any:
    measures = measures_of(done)
    figure = new_figure(
        "Memory against each drawn setting",
        "each mark is a trial; above by the trial's own measure, below by the whole system's",
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
    legend_beside(grid[0][-1], handles=_keys(looks))
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


def _keys(looks: dict[tuple[Any, ...], tuple[str, Any, str]]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour, marker=marker, ls="", mew=0, label=title)
        for title, colour, marker in looks.values()
    ]


def _effects(results: Results, found: Sequence[Effect]) -> Any:
    """Each effect with its interval: a panel a group, a colour a measure."""
    groups = list(dict.fromkeys(tuple(effect.group.items()) for effect in found))
    settings = list(dict.fromkeys(effect.setting for effect in found))
    measures = list(dict.fromkeys(effect.measure for effect in found))
    figure = new_figure(
        "Which settings matter for memory",
        "standard deviations of memory for one of the setting, all others held; 95 % intervals",
        results,
        1.4 + max(2.0, 0.45 * len(settings) * len(measures) * 0.6),
    )
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True, sharex=True)[0]
    for axes, group in zip(panels, groups, strict=True):
        own = [effect for effect in found if tuple(effect.group.items()) == group]
        _forest(axes, own, settings, measures)
        told = {k: v for k, v in group if len({dict(g).get(k) for g in groups}) > 1}
        axes.set_title(_group_title(told).replace(", ", "\n"), fontsize="small")
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].invert_yaxis()
    looks = [_look(number) for number in range(len(measures))]
    legend_beside(
        panels[-1],
        handles=[
            Line2D([], [], color=colour, marker=marker, lw=1.5, label=measure_title(measure))
            for measure, (colour, marker) in zip(measures, looks, strict=True)
        ],
        title="memory",
    )
    return figure


def _forest(
    axes: Axes, effects: Sequence[Effect], settings: Sequence[str], measures: Sequence[str]
) -> None:
    axes.axvline(0, color=MUTED, lw=1)
    for effect in effects:
        number = measures.index(effect.measure)
        colour, marker = _look(number)
        offset = np.linspace(-0.22, 0.22, len(measures))[number]
        height = settings.index(effect.setting) + (offset if len(measures) > 1 else 0.0)
        axes.plot([effect.low, effect.high], [height] * 2, color=colour, lw=1.6)
        axes.plot([effect.size], [height], marker, color=colour, ms=5.5, mec="white", mew=0.8)
    axes.set_xlabel("effect")
