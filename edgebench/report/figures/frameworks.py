"""Figure of one training in several frameworks: memory and time by batch, and time by phase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns

from edgebench.analysis.studies.training import FRAMEWORK_PHASES, FRAMEWORK_SHARED, framework_frame
from edgebench.report.figures import naming, scales, style
from edgebench.report.figures.training import MEDIANS, batch_axis
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_BUT_BATCH = tuple(name for name in FRAMEWORK_SHARED if name != "batch")


@naming.figure_kind("frameworks")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each network, images' shape and limit.

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
        looks: dict[str, Any] = {"hue": "framework", "hue_order": names, **MEDIANS}
        looks |= {"palette": style.COLOURS[5 : 5 + len(names)]}
        peaks = rows.assign(peak=rows["peak_bytes"] / MIB)
        sns.lineplot(peaks, x="batch", y="peak", ax=memory, **looks)
        memory.set_ylim(bottom=0)
        memory.set_ylabel("kernel's peak (MiB)")
        sns.lineplot(rows, x="batch", y="whole_s", ax=time, **looks)
        scales.seconds_axis(time, "time of a step per image")
        batch_axis((memory, time), rows)
        _draw_phases(phases, rows)
        style.legend_beside(memory, time, phases)
        stem = naming.stem_of("frameworks", {}, network, settings["shape"], limit)
        yield naming.NamedFigure(stem, figure)


def _draw_phases(axes: Axes, rows: pd.DataFrame) -> None:
    """Stack a bar for each framework, at the largest batch that all of them finished."""
    done = rows[rows["whole_s"].notna()]
    counts = done.groupby("batch")["framework"].nunique()
    batch = counts[counts == counts.max()].index.max()
    columns = {f"{phase}_s": style.PHASE_TITLES[phase] for phase in FRAMEWORK_PHASES}
    medians = done[done["batch"] == batch].groupby("framework")[[*columns]].median() * 1000
    colours = [style.PHASE_COLOURS[phase] for phase in FRAMEWORK_PHASES]
    known = medians.rename(columns=columns).dropna(axis=1, how="all")
    known.index = known.index.str.replace(" ", "\n")
    known.plot.barh(stacked=True, ax=axes, color=colours, width=0.7, legend=False)
    axes.set(title=f"batch {batch:g}", ylabel="", xlabel="ms per image, by phase")
