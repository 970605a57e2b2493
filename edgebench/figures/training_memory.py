"""Memory of training and of inference: the cgroup's demand beside each heap profiler's peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import seaborn as sns

from edgebench.figures.axes import MIB
from edgebench.figures.naming import Drawn
from edgebench.figures.style import legend_beside, new_figure
from edgebench.studies.memory import HEAPS, memory_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLOURS = sns.color_palette("colorblind")
_TITLES = {"demand_bytes": "cgroup's demand", "above_bytes": "kernel's peak above the base"}


def figures(results: Results) -> Iterator[Drawn]:
    """A panel for training, one for inference; networks and batches along them.

    Raises:
        ResultsError: no heap profiler looked at a training workload in this sweep.
    """
    frame = memory_frame(results)
    heaps = [f"{name}_bytes" for name in HEAPS if f"{name}_bytes" in frame]
    measures = [*_TITLES, *heaps]
    figure = new_figure(
        "Memory of training and of inference",
        "whole process, the runtime's base included but where it says above; medians",
        results,
        3.8,
    )
    modes = [mode for mode in ("training", "inference") if (frame["mode"] == mode).any()]
    panels = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    for axes, mode in zip(panels, modes, strict=True):
        _bars(axes, frame[frame["mode"] == mode], measures)
        axes.set_title(mode)
    panels[0].set_ylabel("MiB")
    legend_beside(panels[-1])
    yield Drawn("memory-training-inference", figure)


def _bars(axes: Axes, rows: pd.DataFrame, measures: list[str]) -> None:
    places = np.arange(len(rows))
    width = 0.8 / len(measures)
    for number, measure in enumerate(measures):
        title = _TITLES.get(measure, f"heap ({measure.removesuffix('_bytes')})")
        offset = (number - (len(measures) - 1) / 2) * width
        axes.bar(
            places + offset, rows[measure] / MIB, width * 0.92, color=_COLOURS[number], label=title
        )
    names = [f"{row.network}\nbatch {row.batch:g}" for row in rows.itertuples()]
    axes.set_xticks(places, names, fontsize="x-small")
    axes.grid(visible=False, axis="x")
