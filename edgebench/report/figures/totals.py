"""Figure of total time by limit: a panel per network or pipeline, a line per schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.lines import Line2D

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import lost_limits, seconds_by_trial
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLUMNS = 3
#: What names a trial: another sweep has trials of the same numbers.
_TRIAL = ["sweep", "trial"]
_ROW_IN = 2.9
#: How medians of the start are drawn, beside those of steady rounds.
_START: dict[str, Any] = {"lw": 1.1, "ls": (0, (4, 2)), "alpha": 0.8}


@naming.figure_kind("totals", place=2)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One for each group of settings; networks are its panels.

    Raises:
        ResultsError: no trial finished.
    """
    trials = _trials(results)
    if not (trials["outcome"] == "ok").any():
        raise ResultsError(
            "no trial finished of a network or a program: no times to draw",
            where=str(results.path),
        )
    for settings, rows in naming.row_groups(trials, naming.SETTINGS):
        if not rows["seconds"].notna().any():
            continue
        schedules = list(rows["schedule"].dropna().unique())
        names = list(rows["workload"].unique())
        columns = min(len(names), _COLUMNS)
        height = 1.3 + _ROW_IN * ceil(len(names) / columns)
        what = f"Time of {_what(rows)} by memory limit"
        figure = style.new_figure(what, naming.subtitle(settings), results, height)
        grid = figure.subplots(ceil(len(names) / columns), columns, squeeze=False)
        panels = list(grid.flat)
        for axes, name in zip(panels, names, strict=False):
            _panel(axes, rows[rows["workload"] == name], schedules, columns)
            short = str(name) if len(str(name)) <= 26 else str(name)[:25] + "…"
            axes.set_title(naming.title_of(name) if columns == 1 else short)
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        for row in grid:
            row[0].set_ylabel(f"time of {_what(rows)} (median)")
        style.legend_beside(grid[0][-1], handles=_keys(rows))
        yield naming.NamedFigure(naming.stem_of("totals", settings), figure)


def _what(rows: pd.DataFrame) -> str:
    """What ``total`` is of these trials."""
    if rows["steady_s"].notna().any():
        return "a steady round"
    return "the first round" if rows["start_s"].notna().any() else "a trial"


def _trials(results: Results) -> pd.DataFrame:
    """Every trial of a network or a program, with its ``total`` seconds where it finished."""
    totals = seconds_by_trial(results)
    wholes = totals[totals["phase"] == "total"].set_index(_TRIAL)["seconds"].to_dict()
    trials: pd.DataFrame = results.trials
    named = trials["network"].where(trials["network"].notna(), trials["command"])
    size = trials["limit_bytes"].fillna(trials["memory_bytes"])
    keys = zip(*(trials[name] for name in _TRIAL), strict=True)
    seconds = pd.Series([wholes.get(key) for key in keys], trials.index, "float64")
    # A copy in one piece: its many columns were made one by one.
    every = trials.copy().assign(workload=named, seconds=seconds, size=size)
    return every[named.notna()]


def _panel(axes: Axes, rows: pd.DataFrame, schedules: Sequence[Any], panels: int) -> None:
    demand = rows["workload_demand_bytes"].dropna()
    sizes = [float(size) for size in rows["size"].dropna()]
    axis = scales.LimitAxis([*sizes, *demand] or [MIB], panels)
    for lane, (settings, own) in enumerate(naming.row_groups(rows, ["schedule"])):
        colour, marker = style.schedule_style(settings.get("schedule"), schedules)
        done = own[own["seconds"].notna()]
        places = done["size"].div(MIB).fillna(axis.unlimited)
        axes.plot(places, done["seconds"], marker, color=colour, alpha=0.35, ms=3.5, mew=0)
        medians = done["seconds"].groupby(places).median()
        axes.plot(
            medians.index, medians, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9
        )
        if done["steady_s"].notna().any():
            starts = done["start_s"].groupby(places).median()
            axes.plot(starts.index, starts, color=colour, **_START)
        scales.draw_unfinished(axes, lost_limits(own), colour, lane)
        if own["workload_demand_bytes"].notna().any():
            needed = float(own["workload_demand_bytes"].median())
            scales.draw_demand(axes, needed, colour if len(schedules) > 1 else style.MUTED)
    scales.seconds_axis(axes, "", max(len(schedules), 1) if lost_limits(rows) else 0)
    axis.apply(axes)


def _keys(rows: pd.DataFrame) -> list[Line2D]:
    # Not by a set: what is missing is one schedule, however often.
    schedules = list(rows["schedule"].unique())
    keys = []
    for schedule in schedules:
        colour, marker = style.schedule_style(schedule, schedules)
        name = "median" if pd.isna(schedule) else str(schedule)
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    keys.append(
        Line2D([], [], color=style.MUTED, marker="o", ms=3.5, mew=0, ls="", label="one trial")
    )
    if rows["steady_s"].notna().any():
        keys.append(Line2D([], [], color=style.MUTED, label="its start: the first round", **_START))
    if rows["workload_demand_bytes"].notna().any():
        keys.append(scales.demand_key())
    return [*keys, *scales.unfinished_keys(list(lost_limits(rows)))]
