"""How busy each core is in each phase: a panel a phase, bars a core, over batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.ticker import PercentFormatter

from edgebench.errors import ResultsError
from edgebench.figures.naming import SETTINGS, Drawn, groups, stem_of, subtitle, title_of
from edgebench.figures.style import PHASE_TITLES, legend_beside, new_figure
from edgebench.studies.cores import core_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_BUT_BATCH = tuple(name for name in SETTINGS if name != "batch")
#: The whole round, and layers' glue, are no phases of their own here.
_ROUND = "round"


def figures(results: Results) -> Iterator[Drawn]:
    """One a workload and limit.

    Raises:
        ResultsError: no network of this sweep was looked at by core.
    """
    taken: set[str] = set()
    frame = core_frame(results)
    frame = frame[frame["phase"].ne(_ROUND) & frame["network"].notna()]
    if frame.empty:
        raise ResultsError("no network was looked at by core", where=str(results.path))
    for settings, rows in groups(frame, ("network", "schedule", "limit_label", *_BUT_BATCH)):
        title = f"CPU time by core: {title_of(settings['network'])}"
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        words = subtitle(settings, limit, "share of a phase's time for which each core worked")
        figure = new_figure(title, words, results, 3.2)
        phases = [phase for phase in PHASE_TITLES if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            _bars(axes, rows[rows["phase"] == phase])
            axes.set_title(PHASE_TITLES[phase])
        panels[0].set_ylabel("busy")
        panels[0].yaxis.set_major_formatter(PercentFormatter(1))
        legend_beside(panels[-1], title="core")
        yield Drawn(stem_of("cores", settings, taken, settings["network"], limit), figure)


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    wide: Any = rows.pivot_table(index="batch", columns="core", values="busy")
    width = 0.8 / len(wide.columns)
    colours = sns.color_palette("viridis", len(wide.columns))
    for place, core in enumerate(wide.columns):
        left = [at + (place + 0.5) * width - 0.4 for at in range(len(wide))]
        axes.bar(left, wide[core], width=width, color=colours[place], label=f"{core}")
    axes.set_xticks(range(len(wide)), [f"{batch:g}" for batch in wide.index])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, 1)
    axes.set_xlabel("batch")
