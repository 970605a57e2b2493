"""Figure of the miss curve: what a steady round reads again, by memory limit, with its knee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import seaborn as sns

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import short_names
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.miss_curve import MissCurve
    from edgebench.results.results import Results

_HEIGHT_IN = 4.0
#: More lines can't be told apart.
_MOST = 4


@naming.figure_kind("misses", place=4)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a line for each workload of the sweep, a few in a figure; storage has no part in it.

    Raises:
        ResultsError: no rounds at a limit were counted.
    """
    workloads = sweep_facts(results.sweeps[0]).workloads
    counted = [(w, w.miss_curve) for w in workloads if w.miss_curve and w.miss_curve.points]
    if not counted:
        raise ResultsError("no round at a limit has counts", where=str(results.path))
    names, shared = short_names([workload.name for workload, _ in counted])
    title = "What a steady round reads again, by memory limit"
    for first in range(0, len(counted), _MOST):
        shown = counted[first : first + _MOST]
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, _HEIGHT_IN)
        axes = figure.subplots()
        sizes = [float(point.limit_bytes) for _, curve in shown for point in curve.points]
        for workload, _ in shown:
            sizes += [size for size in (workload.demand_bytes, *_killed(workload)) if size]
        unlimited = scales.limit_axis(axes, sizes)
        for number, (workload, curve) in enumerate(shown):
            colour, marker = style.series_style(number)
            places = [unlimited, *(point.limit_bytes / MIB for point in curve.known)]
            read = [0.0, *(point.round_bytes / MIB for point in curve.known)]
            label = naming.title_of(names[workload.name], 32)
            sns.lineplot(x=places, y=read, marker=marker, color=colour, ax=axes, label=label)
        for number, (workload, curve) in enumerate(shown):
            _draw_marks(axes, workload, curve, number)
        axes.set_ylabel("MiB read again, each steady round")
        low, high = axes.get_ylim()
        axes.set_ylim(low, max(high, 1.0) * (1 + 0.07 * len(shown)))
        style.legend_beside(axes)
        words = [first // _MOST + 1] if first else []
        yield naming.NamedFigure(naming.stem_of("misses", {}, *words), figure)


def _killed(workload: WorkloadFacts) -> list[float]:
    return [p.limit_bytes for p in workload.tried if "oom-killed" in p.outcomes and p.limit_bytes]


def _draw_marks(axes: Axes, workload: WorkloadFacts, curve: MissCurve, number: int) -> None:
    """Draw the knee, the need, kills, and hollow marks on the way up or where visits disagree."""
    colour, marker = style.series_style(number)
    others = [p for p in curve.points if not (p.agree and p.direction == curve.direction)]
    for point in others:
        visits = (point.round_bytes,) if point.agree else point.visit_bytes
        axes.plot(
            [point.limit_bytes / MIB] * len(visits),
            [size / MIB for size in visits],
            marker,
            mec=colour,
            mfc="none",
            ms=5,
            label="on the way up, fresh,\nor visits disagree",
        )
    if curve.knee_bytes is not None:
        axes.axvline(curve.knee_bytes / MIB, color=colour, lw=1.2, ls="-.", zorder=1, label="knee")
    if killed := _killed(workload):
        scales.draw_unfinished(axes, {"oom-killed": killed}, colour, number)
    if workload.demand_bytes is not None:
        scales.draw_demand(axes, workload.demand_bytes, colour)
