"""Figure of CPU time by core: a panel per phase, a bar per core and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import seaborn as sns
from matplotlib.ticker import PercentFormatter

from edgebench.analysis.studies.phases import core_frame
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style

if TYPE_CHECKING:
    from edgebench.results.results import Results

_BUT_BATCH = tuple(name for name in naming.SETTINGS if name != "batch")
#: The whole round, and layers' glue, are no phases of their own here.
_ROUND = "round"


@naming.figure_kind("cores")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each workload and limit.

    Raises:
        ResultsError: no trial of a network measured cores.
    """
    frame = core_frame(results)
    frame = frame[frame["phase"].ne(_ROUND) & frame["network"].notna()]
    if frame.empty:
        raise ResultsError("no trial of a network measured cores", where=str(results.path))
    keys = ("network", "schedule", "limit_label", *_BUT_BATCH)
    for settings, rows in naming.row_groups(frame, keys):
        network = settings["network"]
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        what = "share of a phase's time during which each core was busy"
        words = naming.subtitle(settings, limit, what)
        title = f"CPU time by core: {naming.title_of(network)}"
        figure = style.new_figure(title, words, results, 3.2)
        phases = [phase for phase in style.PHASE_TITLES if (rows["phase"] == phase).any()]
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, phases, strict=True):
            looks = {"hue": "core", "palette": "viridis", "errorbar": None, "ax": axes}
            busy = rows[rows["phase"] == phase].astype({"batch": int})
            sns.barplot(busy, x="batch", y="busy", **looks)
            axes.set(title=style.PHASE_TITLES[phase], ylim=(0, 1))
        panels[0].set_ylabel("share of time busy")
        panels[0].yaxis.set_major_formatter(PercentFormatter(1))
        style.legend_beside(*panels, title="core")
        yield naming.NamedFigure(naming.stem_of("cores", settings, network, limit), figure)
