"""Figure of each layer's loading and execution time, stacked; a row per limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.frames import answering_rows
from edgebench.slowdown.curves import lost_limits
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from edgebench.results.results import Results

_Numbers = npt.NDArray[Any]
_STACKED = ("load", "first")
_ROW_IN = 1.05
#: More layers than this are numbered under the axis, not named.
_MOST_NAMES = 40
_NAMED = 3
#: Characters of a layer's name.
_MOST_NAME = 24
#: A letter of a name below the axis, which stands upright; letters beside a panel's title.
_LETTER_IN, _MOST_LETTERS = 0.06, 78


@naming.figure_kind("layer-times", place=4)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a network, schedule and settings.

    Raises:
        ResultsError: no layer was timed.
    """
    layers = results.layers
    layers = layers[(layers["outcome"] == "ok") & layers["phase"].isin(_STACKED)]
    layers = answering_rows(layers)
    if layers.empty:
        raise ResultsError("no layer was timed", where=str(results.path))
    for settings, rows in naming.row_groups(
        layers, ("network", "pipeline", "schedule", *naming.SETTINGS)
    ):
        times = _times(rows)
        unlimited = [str(label) for label in rows["limit_label"].unique()]
        order = [label for label in unlimited if label not in naming.limit_order(rows)]
        order += naming.limit_order(rows)
        network = settings["network"]
        title = f"Time of {naming.title_of(network)} by layer"
        names = _names(rows)
        height = 1.5 + _ROW_IN * len(order)
        if len(names) <= _MOST_NAMES:
            height += _LETTER_IN * max(map(len, names.values()))
        about = naming.subtitle(settings, *_lost(results, settings))
        figure = style.new_figure(title, about, results, height)
        panels = figure.subplots(len(order), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, label in zip(panels, order, strict=True):
            _panel(axes, times.loc[[label]].droplevel(0), names)
            axes.set_title(naming.limit_name(label, rows), fontsize=9)
        _layer_axis(panels[-1], names)
        figure.supylabel("median time per layer", fontsize=9.5)
        style.legend_beside(panels[0], handles=_keys())
        words = (network, settings.get("schedule", ""))
        yield naming.NamedFigure(naming.stem_of("layer-times", settings, *words), figure)


def _times(rows: pd.DataFrame) -> pd.DataFrame:
    """Limit × layer by phase: medians over trials and steady rounds."""
    keys = ["limit_label", "layer", "phase"]
    medians = rows.groupby(keys)["wall_s"].median().unstack("phase")
    return medians.reindex(columns=list(_STACKED)).fillna(0.0)


def _names(rows: pd.DataFrame) -> dict[int, str]:
    once = rows.drop_duplicates("layer").sort_values("layer")
    names = naming.brief_labels([str(name) for name in once["name"]], _MOST_NAME)
    return {int(n): name for n, name in zip(once["layer"], names, strict=True)}


def _panel(axes: Axes, times: pd.DataFrame, names: dict[int, str]) -> None:
    below = np.zeros(len(times))
    # Many narrow bars look even only without edges between them.
    width = 0.82 if len(names) <= _MOST_NAMES else 1.0
    for phase in _STACKED:
        above = below + times[phase].to_numpy()
        _bars(axes, times.index.to_numpy(), below, above, width, style.PHASE_COLOURS[phase])
        below = above
    axes.autoscale_view()
    axes.set_title(_longest(times, names), loc="right", fontsize=8, color=style.MUTED)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: scales.short_seconds(value)))


def _bars(
    axes: Axes, places: _Numbers, below: _Numbers, above: _Numbers, width: float, colour: Any
) -> None:
    """All bars of one phase."""
    boxes = np.stack([places - width / 2, below, places + width / 2, above], axis=1)
    bars = scales.rectangles(boxes, facecolor=colour, lw=0, zorder=2)
    bars.sticky_edges.y.append(0)
    axes.add_collection(bars)


def _longest(times: pd.DataFrame, names: dict[int, str]) -> str:
    """The layers that take longest, and the sum of all."""
    total = times.sum(axis=1).sort_values(ascending=False, kind="stable")
    text = f"all layers {scales.short_seconds(total.sum())}; longest: "
    for place, (layer, seconds) in enumerate(zip(total.index[:_NAMED], total, strict=False)):
        more = f"{', ' if place else ''}{names[layer]} {scales.short_seconds(seconds)}"
        if place and len(text + more) > _MOST_LETTERS:
            break
        text += more
    return text


def _layer_axis(axes: Axes, names: dict[int, str]) -> None:
    first, last = min(names), max(names)
    axes.set_xlim(first - 0.7, last + 0.7)
    if len(names) <= _MOST_NAMES:
        axes.set_xticks(list(names), list(names.values()), rotation=90, fontsize=7)
        axes.set_xlabel("layer, in order of execution")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        axes.set_xlabel("number of the layer, in order of execution")


def _lost(results: Results, settings: dict[str, object]) -> Sequence[str]:
    """In words, the limits that have no times because every trial there was killed."""
    trials = results.trials
    own = trials[trials["network"] == settings.get("pipeline", settings["network"])]
    if "schedule" in settings:
        own = own[own["schedule"] == settings["schedule"]]
    finished = set(own.loc[own["outcome"] == "ok", "limit_bytes"])
    killed = [m for m in lost_limits(own).get("oom-killed", ()) if m not in finished]
    return [f"killed at {', '.join(f'{m / MIB:.0f}' for m in killed)} MiB"] if killed else []


def _keys() -> list[Patch]:
    return [
        Patch(color=style.PHASE_COLOURS[p], lw=0, label=style.PHASE_TITLES[p])
        for p in _STACKED[::-1]
    ]
