"""Draws what one walk tells of other storages, beside what was measured on them.

``python benchmarks/other_storages.py`` (seconds) writes ``docs/figures/other-storages.png``:
workloads walked at 100 MB/s, and on each other storage their steady rounds as computed from the
bytes of that walk, with nothing fitted, and as walked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from claims.kept import ROOT, sweep
from counted_seconds import ONE, STORAGE, costs_of, counted_of, place, storage_of

from edgebench.report.figures import scales, style
from edgebench.slowdown.counted import counted_models
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.slowdown.counted import CountedRound

#: With the loader of which they were walked.
PANELS = (("alexnet", "copy"), ("alexnet", "mmap"), ("googlenet", "mmap"))
_FINE = 300


def main() -> None:
    """A panel for each network."""
    told = {place(one): one for one in counted_of(ONE)}
    others = counted_of(STORAGE)
    with style.figure_style():
        figure = style.new_figure(
            "One walk answers for other storages",
            "Lines: computed from the bytes that rounds read in a walk at 100 MB/s, with nothing "
            "fitted. Marks: measured on each storage. One thread",
            sweep(STORAGE),
            3.7,
        )
        grid = figure.subplots(1, len(PANELS))
        for axes, of in zip(grid, PANELS, strict=True):
            panel(axes, told[of], [told[of], *(one for one in others if place(one) == of)])
            axes.set_title(", ".join(of))
        grid[0].set_ylabel("steady round")
        style.legend_beside(grid[-1], handles=grid[0].get_legend_handles_labels()[0])
        made = style.figure_bytes(figure, ["png"])["png"]
    (ROOT / "docs" / "figures" / "other-storages.png").write_bytes(made)


def panel(axes: Axes, source: CountedRound, walked: list[CountedRound]) -> None:
    """A network's steady rounds on each storage, the slowest first."""
    walked = sorted(walked, key=lambda one: -costs_of(one).swap_s)
    limits = np.concatenate([one.curve.limits for one in walked])
    known = [point.limit_bytes for point in source.misses.known]
    fine = np.geomspace(min(known), max(known), _FINE)
    scales.LimitAxis([float(limits.min()), float(limits.max())], len(PANELS)).apply(axes)
    for number, one in enumerate(walked):
        colour, marker = style.series_style(number)
        model = counted_models([source], costs_of(source), costs_of(one))[source.curve.key]
        found = model.predict(one.curve, fine)
        axes.plot(fine / MIB, found.slowdown * found.unlimited_s, color=colour, lw=1.5)
        curve = one.curve
        seconds = curve.medians * curve.unlimited_s
        looks = {"color": colour, "ms": 4.5, "mec": style.INK, "mew": 0.4}
        axes.plot(curve.limits / MIB, seconds, marker, label=storage_of(one), **looks)
    scales.seconds_axis(axes, "")


if __name__ == "__main__":
    main()
