"""Figure 1: a layer's mean loading and execution time against its file's size, by limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from edgebench.errors import ResultsError
from edgebench.figures.axes import seconds_axis, short_size
from edgebench.figures.naming import (
    SETTINGS,
    Drawn,
    groups,
    limit_name,
    limit_order,
    stem_of,
    subtitle,
)
from edgebench.figures.style import (
    MUTED,
    PHASE_TITLES,
    UNLIMITED_COLOUR,
    Colour,
    legend_beside,
    limit_colours,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.6
_PHASES = ("load", "first", "execute")
#: Layers of like size are drawn as one point of the line: so many sizes a decade.
_BINS_A_DECADE = 4


def figures(results: Results) -> Iterator[Drawn]:
    """One a schedule and settings; all networks' layers share it.

    Raises:
        ResultsError: no layer with a file was timed.
    """
    layers = results.layers
    layers = layers[(layers["outcome"] == "ok") & (layers["file_bytes"] > 0)]
    layers = layers[layers["parameter_bytes"] > 0]
    if layers.empty:
        raise ResultsError("no layer with a weights file was timed", where=str(results.path))
    taken: set[str] = set()
    for settings, rows in groups(layers, ("schedule", *SETTINGS)):
        networks = list(dict.fromkeys(rows["network"]))
        what = "Loading and execution time of a layer against its weights' size"
        told = f"{len(networks)} networks" if len(networks) > 3 else ", ".join(networks)
        figure = new_figure(what, subtitle(settings, told), results, _HEIGHT_IN)
        phases = [phase for phase in _PHASES if (rows["phase"] == phase).any()]
        looks = _looks(rows)
        panels = figure.subplots(1, len(phases), sharex=True, sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            _panel(axes, _means(rows[rows["phase"] == phase]), looks)
            axes.set_title(PHASE_TITLES[phase])
        seconds_axis(panels[0], "mean time of a layer")
        legend_beside(panels[-1], handles=_keys(rows, looks), title="limit")
        words = (settings.get("schedule", ""),)
        yield Drawn(stem_of("loading-execution", settings, taken, *words), figure)


def _looks(rows: pd.DataFrame) -> dict[str, Colour]:
    order = limit_order(rows)
    looks = dict(zip(order, limit_colours(len(order)), strict=True))
    unlimited = rows.loc[rows["memory_bytes"].isna(), "limit_label"].unique()
    return {**dict.fromkeys(map(str, unlimited), UNLIMITED_COLOUR), **looks}


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """A layer's mean over trials, rounds and passes at each limit."""
    keys = ["network", "layer", "limit_label", "file_bytes"]
    return rows.groupby(keys, sort=False)["wall_s"].mean().reset_index()


def _panel(axes: Axes, means: pd.DataFrame, looks: dict[str, Colour]) -> None:
    for label, colour in looks.items():
        own = means[means["limit_label"] == label]
        axes.plot(own["file_bytes"], own["wall_s"], "o", color=colour, alpha=0.45, ms=3.4, mew=0)
        sizes, times = _trend(own)
        axes.plot(sizes, times, **_line(colour))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=4))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_size(value)))
    axes.set_xlabel("size of the layer's weights file")


def _line(colour: Colour) -> dict[str, Any]:
    """Unlimited is dashed and on top: where a limit costs nothing both are seen."""
    if colour == UNLIMITED_COLOUR:
        return {"color": colour, "lw": 1.8, "ls": (0, (3, 2)), "zorder": 4}
    return {"color": colour, "lw": 1.8, "zorder": 3}


def _trend(own: pd.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Geometric means of layers of like size."""
    logs = own[["file_bytes", "wall_s"]].apply(np.log10)
    means = logs.groupby((logs["file_bytes"] * _BINS_A_DECADE).round()).mean()
    return 10 ** means["file_bytes"].to_numpy(), 10 ** means["wall_s"].to_numpy()


def _keys(rows: pd.DataFrame, looks: dict[str, Colour]) -> Sequence[Line2D]:
    limits = [
        Line2D([], [], marker="o", ms=4, mew=0, label=limit_name(label, rows), **_line(colour))
        for label, colour in looks.items()
    ]
    point = Line2D([], [], color=MUTED, ls="", marker="o", ms=3.4, mew=0, label="one layer")
    line = Line2D([], [], color=MUTED, lw=1.8, label="layers of like size")
    return [*limits, point, line]
