"""Figure of one training in several frameworks: memory and time by batch, and time by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from edgebench.analysis.studies.frameworks import PHASES, SHARED, framework_frame
from edgebench.report.figures import naming, scales, style
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_BUT_BATCH = tuple(name for name in SHARED if name != "batch")
_MARKERS = "os^D"


@naming.figure_kind("frameworks")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a network, images' shape and limit.

    Raises:
        ResultsError: this sweep trained in one framework, or in none.
    """
    frame = framework_frame(results)
    names = sorted(frame["framework"].unique())
    for settings, rows in naming.row_groups(frame, _BUT_BATCH):
        if rows["peak_bytes"].isna().all():
            continue
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        network = settings["network"]
        title = f"Training {naming.title_of(network)} in {len(names)} frameworks"
        figure = style.new_figure(title, naming.subtitle(settings, limit), results, 3.8)
        memory, time, phases = figure.subplots(1, 3)
        pairs = zip(style.limit_colours(len(names)), _MARKERS, strict=False)
        looks = dict(zip(names, pairs, strict=True))
        _by_batch(memory, rows, "peak_bytes", MIB, looks)
        memory.set_ylim(0, 1.1 * memory.get_ylim()[1])
        memory.set_ylabel("kernel's peak, with base (MiB)")
        _by_batch(time, rows, "whole_s", 1, looks)
        scales.seconds_axis(time, "time of a step per image", 1)
        _by_phase(phases, rows)
        keys: list[Any] = [
            Line2D([], [], color=colour, marker=marker, label=name)
            for name, (colour, marker) in looks.items()
        ]
        keys += [
            Patch(color=style.PHASE_COLOURS[phase], lw=0, label=style.PHASE_TITLES[phase])
            for phase in PHASES
            if rows[f"{phase}_s"].notna().any()
        ]
        style.legend_beside(phases, handles=keys)
        stem = naming.stem_of("frameworks", {}, network, settings["shape"], limit)
        yield naming.NamedFigure(stem, figure)


def _by_batch(
    axes: Axes, rows: pd.DataFrame, value: str, unit: float, looks: Mapping[str, Any]
) -> None:
    """A line a framework through the medians; killed batches have no point."""
    for name, (colour, marker) in looks.items():
        own = rows[rows["framework"] == name]
        axes.plot(own["batch"], own[value] / unit, marker, color=colour, ms=3.5, mew=0, alpha=0.4)
        middle = (own.groupby("batch")[value].median() / unit).dropna()
        axes.plot(middle.index, middle, f"{marker}-", color=colour, ms=5, mec="white", mew=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(rows["batch"].unique())))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axes.set_xlabel("batch (images)")


def _by_phase(axes: Axes, rows: pd.DataFrame) -> None:
    """A stacked bar a framework, at the largest batch that all of them finished."""
    done = rows[rows["whole_s"].notna()]
    counts = done.groupby("batch")["framework"].nunique()
    batch = counts[counts == counts.max()].index.max()
    medians = done[done["batch"] == batch].groupby("framework")[[f"{p}_s" for p in PHASES]].median()
    below = medians[f"{PHASES[0]}_s"] * 0.0
    places = range(len(medians))
    for phase in PHASES:
        taken = medians[f"{phase}_s"].fillna(0.0) * 1000
        axes.bar(places, taken, bottom=below, width=0.7, color=style.PHASE_COLOURS[phase])
        below = below + taken
    axes.set_xticks(places, [name.replace(" ", "\n") for name in medians.index], rotation=30)
    axes.set_title(f"batch {batch:g}")
    axes.set_ylabel("ms per image, by phase")
    axes.grid(visible=False, axis="x")
