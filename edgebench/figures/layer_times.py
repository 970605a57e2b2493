"""Each layer's loading and execution time, stacked; a row a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edgebench.errors import ResultsError
from edgebench.figures.axes import short_seconds
from edgebench.figures.naming import (
    SETTINGS,
    Drawn,
    groups,
    limit_name,
    limit_order,
    stem_of,
    subtitle,
    title_of,
)
from edgebench.figures.style import (
    MUTED,
    PHASE_COLOURS,
    PHASE_TITLES,
    legend_beside,
    new_figure,
)
from edgebench.slowdown.data import lost_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_Numbers = npt.NDArray[Any]
_STACKED = ("load", "first")
_ROW_IN = 1.05
#: More layers than this are numbered under the axis, not named.
_MOST_NAMES = 40
_BLAMED = 3
_MIB = 1 << 20


def figures(results: Results) -> Iterator[Drawn]:
    """One a network, schedule and settings.

    Raises:
        ResultsError: no layer was timed.
    """
    layers = results.layers
    layers = layers[(layers["outcome"] == "ok") & layers["phase"].isin(_STACKED)]
    if layers.empty:
        raise ResultsError("no layer was timed", where=str(results.path))
    taken: set[str] = set()
    for settings, rows in groups(layers, ("network", "pipeline", "schedule", *SETTINGS)):
        times = _times(rows)
        unlimited = [str(label) for label in rows["limit_label"].unique()]
        order = [label for label in unlimited if label not in limit_order(rows)]
        order += limit_order(rows)
        network = settings["network"]
        title = f"Time of {title_of(network)}, layer by layer"
        names = _names(rows)
        height = 1.5 + _ROW_IN * len(order) + (0.6 if len(names) <= _MOST_NAMES else 0)
        about = subtitle(settings, *_lost(results, settings))
        figure = new_figure(title, about, results, height)
        panels = figure.subplots(len(order), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, label in zip(panels, order, strict=True):
            _panel(axes, times.loc[[label]].droplevel(0), names)
            axes.set_title(limit_name(label, rows), fontsize=9)
        _layer_axis(panels[-1], names)
        figure.supylabel("median time of a layer", fontsize=9.5)
        legend_beside(panels[0], handles=_keys())
        words = (network, settings.get("schedule", ""))
        yield Drawn(stem_of("layer-times", settings, taken, *words), figure)


def _times(rows: pd.DataFrame) -> pd.DataFrame:
    """Limit × layer by phase: medians over trials and rounds."""
    keys = ["limit_label", "layer", "phase"]
    medians = rows.groupby(keys)["wall_s"].median().unstack("phase")
    return medians.reindex(columns=list(_STACKED)).fillna(0.0)


def _names(rows: pd.DataFrame) -> dict[int, str]:
    once = rows.drop_duplicates("layer").sort_values("layer")
    return {int(n): str(name) for n, name in zip(once["layer"], once["name"], strict=True)}


def _panel(axes: Axes, times: pd.DataFrame, names: dict[int, str]) -> None:
    below = np.zeros(len(times))
    # Many narrow bars look even only without edges between them.
    width = 0.82 if len(names) <= _MOST_NAMES else 1.0
    for phase in _STACKED:
        above = below + times[phase].to_numpy()
        _bars(axes, times.index.to_numpy(), below, above, width, PHASE_COLOURS[phase])
        below = above
    axes.autoscale_view()
    axes.set_title(_blame(times, names), loc="right", fontsize=8, color=MUTED)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))


def _bars(
    axes: Axes, places: _Numbers, below: _Numbers, above: _Numbers, width: float, colour: Any
) -> None:
    """All bars of one phase at once: a rectangle of its own for each takes many times as long."""
    left, right = places - width / 2, places + width / 2
    corners = np.array([(left, below), (left, above), (right, above), (right, below)])
    bars = PolyCollection(list(np.moveaxis(corners, 2, 0)), facecolor=colour, lw=0, zorder=2)
    bars.sticky_edges.y.append(0)
    axes.add_collection(bars)


def _blame(times: pd.DataFrame, names: dict[int, str]) -> str:
    """The layers that take longest, and the sum of all."""
    total = times.sum(axis=1).sort_values(ascending=False, kind="stable")
    worst = [
        f"{names[layer]} {short_seconds(seconds)}"
        for layer, seconds in zip(total.index[:_BLAMED], total, strict=False)
    ]
    return f"all layers {short_seconds(total.sum())}; longest: {', '.join(worst)}"


def _layer_axis(axes: Axes, names: dict[int, str]) -> None:
    first, last = min(names), max(names)
    axes.set_xlim(first - 0.7, last + 0.7)
    if len(names) <= _MOST_NAMES:
        axes.set_xticks(list(names), list(names.values()), rotation=90, fontsize=7)
        axes.set_xlabel("layer, in order of execution")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axes.set_xlabel("layer's number, in order of execution")


def _lost(results: Results, settings: dict[str, object]) -> Sequence[str]:
    """In words, the limits that have no times because every trial there was killed."""
    trials = results.trials
    own = trials[trials["network"] == settings.get("pipeline", settings["network"])]
    if "schedule" in settings:
        own = own[own["schedule"] == settings["schedule"]]
    finished = set(own.loc[own["outcome"] == "ok", "limit_bytes"])
    killed = [m for m in lost_limits(own).get("oom-killed", ()) if m not in finished]
    return [f"killed at {', '.join(f'{m / _MIB:.0f}' for m in killed)} MiB"] if killed else []


def _keys() -> list[Patch]:
    return [Patch(color=PHASE_COLOURS[p], lw=0, label=PHASE_TITLES[p]) for p in _STACKED[::-1]]
