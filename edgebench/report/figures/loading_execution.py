"""Figure of a layer's mean loading and execution time by the size of its weights and by limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.frames import answering_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.6
_PHASES = ("load", "first", "execute")
_LAYER = ["network", "layer", "limit_label", "file_bytes"]
#: Layers of like size are drawn as one point of the line: so many sizes a decade.
_BINS_A_DECADE = 4


@naming.figure_kind("loading-execution", place=3)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a schedule and settings; all networks' layers share it.

    Raises:
        ResultsError: no layer with a file was timed.
    """
    layers = results.layers
    layers = layers[(layers["outcome"] == "ok") & (layers["file_bytes"] > 0)]
    layers = answering_rows(layers[layers["parameter_bytes"] > 0])
    if layers.empty:
        raise ResultsError("no layer with a weights file was timed", where=str(results.path))
    for settings, rows in naming.row_groups(layers, ("schedule", *naming.SETTINGS)):
        networks = list(dict.fromkeys(rows["network"]))
        what = "Loading and execution time of a layer by the size of its weights"
        shown = f"{len(networks)} networks" if len(networks) > 3 else ", ".join(networks)
        figure = style.new_figure(what, naming.subtitle(settings, shown), results, _HEIGHT_IN)
        phases = [phase for phase in _PHASES if (rows["phase"] == phase).any()]
        looks = _looks(rows)
        panels = figure.subplots(1, len(phases), sharex=True, sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            # A layer's mean over trials, steady rounds and passes at each limit.
            times = rows[rows["phase"] == phase].groupby(_LAYER, sort=False)["wall_s"]
            _panel(axes, times.mean().reset_index(), looks)
            axes.set_title(style.PHASE_TITLES[phase])
        scales.seconds_axis(panels[0], "mean time per layer")
        style.legend_beside(panels[-1], handles=_keys(rows, looks), title="limit")
        words = (settings.get("schedule", ""),)
        yield naming.NamedFigure(naming.stem_of("loading-execution", settings, *words), figure)


def _looks(rows: pd.DataFrame) -> dict[str, style.Colour]:
    order = naming.limit_order(rows)
    looks = dict(zip(order, style.limit_colours(len(order)), strict=True))
    unlimited = rows.loc[rows["memory_bytes"].isna(), "limit_label"].unique()
    return {**dict.fromkeys(map(str, unlimited), style.UNLIMITED_COLOUR), **looks}


def _panel(axes: Axes, means: pd.DataFrame, looks: dict[str, style.Colour]) -> None:
    for label, colour in looks.items():
        own = means[means["limit_label"] == label]
        axes.plot(own["file_bytes"], own["wall_s"], "o", color=colour, alpha=0.45, ms=3.4, mew=0)
        sizes, times = _trend(own)
        axes.plot(sizes, times, **_line(colour))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=4))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scales.short_size(value)))
    axes.set_xlabel("size of the layer's weights file")


def _line(colour: style.Colour) -> dict[str, Any]:
    """Unlimited is dashed and on top: where a limit costs nothing both are seen."""
    if colour == style.UNLIMITED_COLOUR:
        return {"color": colour, "lw": 1.8, "ls": (0, (3, 2)), "zorder": 4}
    return {"color": colour, "lw": 1.8, "zorder": 3}


def _trend(own: pd.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Geometric means of layers of like size."""
    logs = own[["file_bytes", "wall_s"]].apply(np.log10)
    means = logs.groupby((logs["file_bytes"] * _BINS_A_DECADE).round()).mean()
    return 10 ** means["file_bytes"].to_numpy(), 10 ** means["wall_s"].to_numpy()


def _keys(rows: pd.DataFrame, looks: dict[str, style.Colour]) -> Sequence[Line2D]:
    limits = [
        Line2D(
            [], [], marker="o", ms=4, mew=0, label=naming.limit_name(label, rows), **_line(colour)
        )
        for label, colour in looks.items()
    ]
    point = Line2D([], [], color=style.MUTED, ls="", marker="o", ms=3.4, mew=0, label="one layer")
    line = Line2D([], [], color=style.MUTED, lw=1.8, label="mean of layers\nof similar size")
    return [*limits, point, line]
