"""Figure of a layer's mean loading and execution time by the size of its weights and by limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import seaborn as sns
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from edgebench.answers.table import size
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.frames import answering_rows

if TYPE_CHECKING:
    from edgebench.results.results import Results

_HEIGHT_IN = 4.6
_PHASES = ("load", "first", "execute")
_LAYER = ["network", "layer", "limit", "file_bytes"]


@naming.figure_kind("loading-execution")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a figure for each schedule and settings; all networks' layers share it.

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
        shown = f"{len(networks)} networks" if len(networks) > 3 else ", ".join(networks)
        title = "Loading and execution time of a layer by the size of its weights"
        figure = style.new_figure(title, naming.subtitle(settings, shown), results, _HEIGHT_IN)
        phases = [phase for phase in _PHASES if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharex=True, sharey=True, squeeze=False)[0]
        limits = naming.limit_names(rows)
        colours = [style.UNLIMITED_COLOUR, *style.limit_colours(len(limits) - 1)]
        named = rows.assign(limit=rows["limit_label"].map(limits))
        for axes, phase in zip(panels, phases, strict=True):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            # A layer's mean over trials, steady rounds and passes at each limit.
            times = named[named["phase"] == phase].groupby(_LAYER)["wall_s"].mean().reset_index()
            # The line joins means of layers of a like size: three sizes in a factor of ten.
            like = 10 ** ((3 * np.log10(times["file_bytes"])).round() / 3)
            looks = {"y": "wall_s", "hue": "limit", "hue_order": list(limits.values()), "ax": axes}
            looks |= {"data": times.assign(like=like), "palette": colours[-len(limits) :]}
            sns.scatterplot(x="file_bytes", legend=False, s=9, alpha=0.35, linewidth=0, **looks)
            sns.lineplot(x="like", errorbar=None, **looks)
            axes.set(title=style.PHASE_TITLES[phase], xlabel="size of the layer's weights file")
            axes.xaxis.set_major_locator(LogLocator(2, numticks=5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: size(at)))
            axes.xaxis.set_minor_locator(NullLocator())
        scales.seconds_axis(panels[0], "mean time per layer")
        style.legend_beside(*panels, title="mean of layers of\na like size, at limit")
        words = (settings.get("schedule", ""),)
        yield naming.NamedFigure(naming.stem_of("loading-execution", settings, *words), figure)
