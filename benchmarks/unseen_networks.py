"""Draws predicted and measured slowdowns of networks that the model never saw.

``python benchmarks/unseen_networks.py`` (seconds) writes ``docs/figures/unseen-networks.png``: the
four networks of the test part and two of the walked ones, each predicted by what the other
walked networks show, and its unlimited trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from claims.kept import ROOT, sweep
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgebench.report.figures import scales, style
from edgebench.results.results import Results
from edgebench.slowdown.context import device_data
from edgebench.slowdown.models.simulated import Simulated, learn

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.slowdown.curves import Curve

#: With the loader of which they were walked.
NETWORKS = {
    "mobilenet_v3_large": "copy",
    "efficientnet_v2_s": "mmap",
    "resnext50_32x4d": "copy",
    "vit_b_32": "mmap",
    "alexnet": "copy",
    "convnext_tiny": "mmap",
}
WORDS = {"start": "start", "total": "steady"}
COLOURS = {"start": style.PHASE_COLOURS["start"], "total": style.PHASE_COLOURS["load"]}
_FINE = 200


def main() -> None:
    """Fit without each network, and draw it."""
    walked, tested = sweep("validation-one-thread"), sweep("validation-test")
    (data,), _ = device_data(Results([*walked.sweeps, *tested.sweeps]))
    known = [c for c in data.curves if c.settings["sweep"] == walked.sweeps[0].name]
    walked_names = {curve.workload_network for curve in known}
    subtitle = "schedule bulk, one thread, reads at 100 MB/s; each network left out of the fit"
    with style.figure_style():
        figure = style.new_figure("Networks that the model never saw", subtitle, tested, 5.6)
        grid = figure.subplots(2, 3, sharey=True)
        for axes, (name, loader) in zip(grid.flat, NETWORKS.items(), strict=True):
            others = [curve for curve in known if curve.workload_network != name]
            model = Simulated(learn(others, data.context), data.context)
            own = [
                curve
                for curve in (known if name in walked_names else data.curves)
                if curve.workload_network == name
                and curve.phase in WORDS
                and curve.settings["loader"] == loader
            ]
            panel(axes, f"{name}, {loader}", own, model)
        for row in grid:
            row[0].set_ylabel("slowdown")

        keys: list[Artist] = [
            Line2D([], [], color=COLOURS[p], lw=1.7, label=WORDS[p]) for p in WORDS
        ]
        keys += [Line2D([], [], color=style.INK, ls="", marker="o", ms=3.5, label="trial")]
        keys += [Patch(color=style.MUTED, alpha=0.3, lw=0, label="90 % interval")]
        style.legend_beside(grid[0][-1], handles=keys)
        made = style.figure_bytes(figure, ["png"])["png"]
    (ROOT / "docs" / "figures" / "unseen-networks.png").write_bytes(made)


def panel(axes: Axes, name: str, own: list[Curve], model: Simulated) -> None:
    """Start and steady rounds of one network."""
    limits = np.concatenate([curve.limits for curve in own])
    fine = np.geomspace(limits.min(), limits.max(), _FINE)
    scales.LimitAxis([float(fine[0]), float(fine[-1])], 3).apply(axes)
    for curve in own:
        colour = COLOURS[curve.phase]
        found = model.predict(curve.unseen(), fine)
        axes.plot(fine / 2**20, found.slowdown, color=colour, lw=1.7)
        if found.interval:
            axes.fill_between(fine / 2**20, *found.interval, color=colour, alpha=0.15, lw=0)
        axes.plot(
            curve.limit_bytes / 2**20,
            curve.slowdown,
            "o",
            color=colour,
            ms=3.5,
            mec=style.INK,
            mew=0.4,
        )
    scales.slowdown_axis(axes, 0.7, 12.0, 0)
    axes.set_ylim(0.7, 12)
    axes.set_title(name, fontsize=9)


if __name__ == "__main__":
    main()
