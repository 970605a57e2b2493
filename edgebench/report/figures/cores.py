"""Figure of CPU time by core: a panel per phase, a bar per core and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.ticker import PercentFormatter

from edgebench.analysis.studies.cores import core_frame
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_BUT_BATCH = tuple(name for name in naming.SETTINGS if name != "batch")
#: The whole round, and layers' glue, are no phases of their own here.
_ROUND = "round"


@naming.figure_kind("cores")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a workload and limit.

    Raises:
        ResultsError: no trial of a network measured cores.
    """
    frame = core_frame(results)
    frame = frame[frame["phase"].ne(_ROUND) & frame["network"].notna()]
    if frame.empty:
        raise ResultsError("no trial of a network measured cores", where=str(results.path))
    for settings, rows in naming.row_groups(
        frame, ("network", "schedule", "limit_label", *_BUT_BATCH)
    ):
        title = f"CPU time by core: {naming.title_of(settings['network'])}"
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        words = naming.subtitle(
            settings, limit, "share of a phase's time during which each core was busy"
        )
        figure = style.new_figure(title, words, results, 3.2)
        phases = [phase for phase in style.PHASE_TITLES if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            _bars(axes, rows[rows["phase"] == phase])
            axes.set_title(style.PHASE_TITLES[phase])
        panels[0].set_ylabel("share of time busy")
        panels[0].yaxis.set_major_formatter(PercentFormatter(1))
        style.legend_beside(panels[-1], title="core")
        yield naming.NamedFigure(
            naming.stem_of("cores", settings, settings["network"], limit), figure
        )


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    wide: Any = rows.pivot_table(index="batch", columns="core", values="busy")
    width = 0.8 / len(wide.columns)
    import seaborn as sns

    colours = sns.color_palette("viridis", len(wide.columns))
    for place, core in enumerate(wide.columns):
        left = [at + (place + 0.5) * width - 0.4 for at in range(len(wide))]
        axes.bar(left, wide[core], width=width, color=colours[place], label=f"{core}")
    axes.set_xticks(range(len(wide)), [f"{batch:g}" for batch in wide.index])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, 1)
    axes.set_xlabel("batch")
