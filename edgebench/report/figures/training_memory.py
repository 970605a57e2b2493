"""Figure of the memory of training and of inference, by the cgroup and by heap profilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from edgebench.analysis.studies.training_memory import ACCELERATOR, HEAPS, training_memory_frame
from edgebench.report.figures import naming, style
from edgebench.report.figures.palettes import COLOUR_BLIND
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_COLOURS = COLOUR_BLIND
_TITLES = {"demand_bytes": "cgroup's demand", "above_bytes": "kernel's peak above base"}
_ACCELERATOR_TITLE = "accelerator's peak"


@naming.figure_kind("training-memory")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """A panel for training, one for inference; networks and batches along them.

    Raises:
        ResultsError: no heap profiler ran on a training workload in this sweep.
    """
    frame = training_memory_frame(results)
    heaps = [f"{name}_bytes" for name in HEAPS if f"{name}_bytes" in frame]
    measures = [*_TITLES, *heaps, *([ACCELERATOR] if ACCELERATOR in frame else [])]
    figure = style.new_figure(
        "Memory of training and of inference",
        "medians; base: the footprint of the runtime, part of every bar but 'above base'",
        results,
        3.8,
    )
    modes = [mode for mode in ("training", "inference") if (frame["mode"] == mode).any()]
    panels = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    for axes, mode in zip(panels, modes, strict=True):
        _bars(axes, frame[frame["mode"] == mode], measures)
        axes.set_title(mode)
    panels[0].set_ylabel("MiB")
    style.legend_beside(panels[-1])
    yield naming.NamedFigure("memory-training-inference", figure)


def _bars(axes: Axes, rows: pd.DataFrame, measures: list[str]) -> None:
    places = np.arange(len(rows))
    width = 0.8 / len(measures)
    for number, measure in enumerate(measures):
        title = _TITLES.get(measure, f"heap ({measure.removesuffix('_bytes')})")
        title = _ACCELERATOR_TITLE if measure == ACCELERATOR else title
        offset = (number - (len(measures) - 1) / 2) * width
        axes.bar(
            places + offset, rows[measure] / MIB, width * 0.92, color=_COLOURS[number], label=title
        )
    names = [
        f"{row.network}\nbatch {row.batch:g}\n{row.accelerator}".strip()
        for row in rows.itertuples()
    ]
    axes.set_xticks(places, names, fontsize="x-small")
    axes.grid(visible=False, axis="x")
