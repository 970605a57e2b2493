"""Figure of what training's peak memory consists of: a panel per network, a bar per batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.measures.strategies.categories import BASE, BESIDE, KEPT, LIBRARIES, MARK
from edgebench.report.figures import naming, style
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_OTHER = "everything else"
#: What is stacked, from below. The rest of what is beside the categories is little, and together.
_COLOURS = {
    BASE: "#e3e3e3",
    "data": "#c9c9c9",
    "parameters": "#0173b2",
    "optimizer": "#56b4e9",
    "gradients": "#029e73",
    "input": "#ece133",
    "activations": "#de8f05",
    "temporary": "#d55e00",
    LIBRARIES: "#cc78bc",
    KEPT: "#949494",
    _OTHER: "#3b3b3b",
}


@naming.figure_kind("training-mark")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One figure for networks that are trained alike, without a limit.

    Raises:
        ResultsError: no trial splits the kernel's peak.
    """
    frame = results.categories
    frame = frame[(frame["phase"] == MARK) & (frame["limit_label"] == "max")]
    if frame.empty:
        raise ResultsError('no trial split the peak: strategies = ["categories"]')
    alike = [name for name in naming.SETTINGS if name != "batch"]
    for settings, rows in naming.row_groups(frame, alike):
        words = naming.subtitle(settings, "at the kernel's peak after the import")
        figure = style.new_figure(
            "Peak memory of training by what it consists of", words, results, 4.2
        )
        networks = list(rows["network"].unique())
        panels = figure.subplots(1, len(networks), sharey=True, squeeze=False)[0]
        for axes, network in zip(panels, networks, strict=True):
            _stack(axes, rows[rows["network"] == network])
            axes.set_title(naming.title_of(network))
        panels[0].set_ylabel("MiB")
        style.legend_beside(panels[-1], reverse=True)
        yield naming.NamedFigure(naming.stem_of("training-mark", settings), figure)


def _stack(axes: Axes, rows: pd.DataFrame) -> None:
    held = rows.pivot_table(index="batch", columns="category", values="held_bytes").sort_index()
    held[_OTHER] = held[[name for name in BESIDE if name not in _COLOURS]].sum(axis=1)
    names = [f"{batch:g}" for batch in held.index]
    below = held[BASE] * 0.0
    for item, colour in _COLOURS.items():
        # What fell since the import (the allocator's free memory can) would hide what lies below.
        size = held[item].clip(lower=0) / MIB
        axes.bar(names, size, bottom=below, color=colour, width=0.75, label=item)
        below = below + size
    axes.set_xlabel("batch (images)")
    axes.grid(visible=False, axis="x")
