"""Figure of the memory of training and of inference, by the cgroup and by heap profilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import seaborn as sns

from edgebench.analysis.studies.training import ACCELERATOR, HEAPS, training_memory_frame
from edgebench.report.figures import naming, style
from edgebench.units import MIB

if TYPE_CHECKING:
    from edgebench.results.results import Results

_TITLES = {
    "demand_bytes": "cgroup's demand",
    "above_bytes": "kernel's peak above base",
    **{f"{name}_bytes": f"heap ({name})" for name in HEAPS},
    ACCELERATOR: "accelerator's peak",
}


@naming.figure_kind("training-memory")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a panel for training and one for inference; networks and batches along them.

    Raises:
        ResultsError: no heap profiler ran on a training workload in this sweep.
    """
    frame = training_memory_frame(results)
    title = "Memory of training and of inference"
    words = "medians; base: the footprint of the runtime, part of every bar but 'above base'"
    figure = style.new_figure(title, words, results, 3.8)
    modes = [mode for mode in ("training", "inference") if (frame["mode"] == mode).any()]
    panels = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    measures = [name for name in _TITLES if name in frame]
    named = frame.assign(
        workload=[
            f"{row.network}\nbatch {row.batch:g}\n{row.accelerator}".strip()
            for row in frame.itertuples()
        ]
    )
    long = named.melt(["workload", "mode"], measures, "measure", "bytes")
    long = long.assign(MiB=long["bytes"] / MIB, measure=long["measure"].map(_TITLES))
    for axes, mode in zip(panels, modes, strict=True):
        rows = long[long["mode"] == mode]
        sns.barplot(rows, x="workload", y="MiB", hue="measure", errorbar=None, ax=axes)
        axes.set(title=mode, xlabel="")
        axes.tick_params(axis="x", labelsize="x-small")
    style.legend_beside(*panels)
    yield naming.NamedFigure("memory-training-inference", figure)
