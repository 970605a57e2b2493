"""Total time against limit: a panel a network or pipeline, a line a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.lines import Line2D

from edgebench.errors import ResultsError
from edgebench.figures.axes import (
    MIB,
    LimitAxis,
    demand_key,
    draw_demand,
    draw_lost,
    lost_keys,
    seconds_axis,
)
from edgebench.figures.naming import SETTINGS, Drawn, groups, stem_of, subtitle, title_of
from edgebench.figures.style import MUTED, legend_beside, new_figure, schedule_look
from edgebench.slowdown.data import lost_limits, trial_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLUMNS = 3
#: What names a trial: another sweep has trials of the same numbers.
_TRIAL = ["sweep", "trial"]
_ROW_IN = 2.9


def figures(results: Results) -> Iterator[Drawn]:
    """One for each group of settings; networks are its panels.

    Raises:
        ResultsError: no trial finished.
    """
    trials = _trials(results)
    if not (trials["outcome"] == "ok").any():
        raise ResultsError("no trial finished: no times to draw", where=str(results.path))
    taken: set[str] = set()
    for settings, rows in groups(trials, SETTINGS):
        if not rows["seconds"].notna().any():
            continue
        schedules = list(rows["schedule"].dropna().unique())
        names = list(dict.fromkeys(rows["workload"]))
        columns = min(len(names), _COLUMNS)
        height = 1.3 + _ROW_IN * ceil(len(names) / columns)
        what = "Time of a round against the limit"
        figure = new_figure(what, subtitle(settings), results, height)
        grid = figure.subplots(ceil(len(names) / columns), columns, squeeze=False)
        panels = list(grid.flat)
        for axes, name in zip(panels, names, strict=False):
            _panel(axes, rows[rows["workload"] == name], schedules, columns)
            axes.set_title(title_of(name) if columns == 1 else _short(name))
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        for row in grid:
            row[0].set_ylabel("time of a round (median)")
        legend_beside(grid[0][-1], handles=_keys(rows))
        yield Drawn(stem_of("totals", settings, taken), figure)


def _trials(results: Results) -> pd.DataFrame:
    """Every trial, with its ``total`` seconds where it finished."""
    totals = trial_times(results)
    wholes = totals[totals["phase"] == "total"].set_index(_TRIAL)["seconds"].to_dict()
    trials: pd.DataFrame = results.trials
    named = trials["network"].where(trials["network"].notna(), trials["command"])
    size = trials["limit_bytes"].fillna(trials["memory_bytes"])
    keys = zip(*(trials[name] for name in _TRIAL), strict=True)
    seconds = pd.Series([wholes.get(key) for key in keys], trials.index, "float64")
    return trials.assign(workload=named, seconds=seconds, size=size)


def _panel(axes: Axes, rows: pd.DataFrame, schedules: Sequence[Any], panels: int) -> None:
    demand = rows["workload_demand_bytes"].dropna()
    sizes = [float(size) for size in rows["size"].dropna()]
    axis = LimitAxis([*sizes, *demand] or [MIB], panels)
    for lane, (settings, own) in enumerate(groups(rows, ["schedule"])):
        colour, marker = schedule_look(settings.get("schedule"), schedules)
        done = own[own["seconds"].notna()]
        places = done["size"].div(MIB).fillna(axis.unlimited)
        axes.plot(places, done["seconds"], marker, color=colour, alpha=0.35, ms=3.5, mew=0)
        medians = done["seconds"].groupby(places).median()
        axes.plot(
            medians.index, medians, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9
        )
        draw_lost(axes, lost_limits(own), colour, lane)
        if own["workload_demand_bytes"].notna().any():
            needed = float(own["workload_demand_bytes"].median())
            draw_demand(axes, needed, colour if len(schedules) > 1 else MUTED)
    seconds_axis(axes, "", max(len(schedules), 1) if lost_limits(rows) else 0)
    axis.apply(axes)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 26 else text[:25] + "…"


def _keys(rows: pd.DataFrame) -> list[Line2D]:
    schedules = list(dict.fromkeys(rows["schedule"]))
    keys = []
    for schedule in schedules:
        colour, marker = schedule_look(schedule, schedules)
        name = "median" if pd.isna(schedule) else str(schedule)
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    keys.append(Line2D([], [], color=MUTED, marker="o", ms=3.5, mew=0, ls="", label="one trial"))
    if rows["workload_demand_bytes"].notna().any():
        keys.append(demand_key())
    return [*keys, *lost_keys(list(lost_limits(rows)))]
