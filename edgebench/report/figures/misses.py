"""Figure of the miss curve: what a steady round reads again, by memory limit, with its knee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import brief_names, short_names
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.miss_curve import MissCurve
    from edgebench.results.results import Results

_HEIGHT_IN = 4.0
#: Room for each workload's crosses below 0, as a share of the axis.
_BELOW = 0.05


@naming.figure_kind("misses")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a sweep, with a line for each workload; storage has no part in it.

    Raises:
        ResultsError: no rounds at a limit were counted.
    """
    found = sweep_facts(results.sweeps[0]).workloads
    shown = [one for one in found if one.miss_curve and one.miss_curve.points]
    if not shown:
        raise ResultsError("no round at a limit has counts", where=str(results.path))
    names = brief_names(one.name for one in shown)
    _, shared = short_names([one.name for one in shown])
    title = "What a steady round reads again, by memory limit"
    figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, _HEIGHT_IN)
    axes = figure.subplots()
    limits = [point.limit_bytes for one in shown for point in _curve(one).points]
    demands = [one.demand_bytes for one in shown if one.demand_bytes is not None]
    axis = scales.LimitAxis([*limits, *demands])
    for number, one in enumerate(shown):
        _draw(axes, axis, one, number)
    axes.set_ylabel("MiB read again, each steady round")
    high = max(axes.get_ylim()[1], 1.0)
    axes.set_ylim(-_BELOW * len(shown) * high, high)
    axis.apply(axes)
    style.legend_beside(axes, handles=_keys(shown, [names[one.name] for one in shown]))
    yield naming.NamedFigure(naming.stem_of("misses", {}), figure)


def _curve(one: WorkloadFacts) -> MissCurve:
    assert one.miss_curve
    return one.miss_curve


def _draw(axes: Axes, axis: scales.LimitAxis, one: WorkloadFacts, number: int) -> None:
    """The curve, its knee, and hollow marks: the way up, and each visit where visits disagree."""
    curve = _curve(one)
    colour, marker = style.series_style(number)
    places = [axis.unlimited, *(point.limit_bytes / MIB for point in curve.known)]
    sizes = [0.0, *(point.round_bytes / MIB for point in curve.known)]
    axes.plot(places, sizes, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9)
    for point in curve.points:
        if point.agree and point.direction == curve.direction:
            continue
        visits = (point.round_bytes,) if point.agree else point.visit_bytes
        for size in visits:
            axes.plot(point.limit_bytes / MIB, size / MIB, marker, mec=colour, mfc="none", ms=5)
    if curve.knee_bytes is not None:
        axes.axvline(curve.knee_bytes / MIB, color=colour, lw=1.2, ls="-.", zorder=1)
    lost = [p.limit_bytes for p in one.tried if "oom-killed" in p.outcomes]
    if killed := tuple(size for size in lost if size is not None):
        scales.draw_unfinished(axes, {"oom-killed": killed}, colour, number)
    if one.demand_bytes is not None:
        scales.draw_demand(axes, one.demand_bytes, colour)


def _keys(shown: Sequence[WorkloadFacts], names: Sequence[str]) -> list[Line2D]:
    keys = []
    for number, name in enumerate(names):
        colour, marker = style.series_style(number)
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    curves = [_curve(one) for one in shown]
    if any({*curve.points} - {*curve.known} for curve in curves):
        label = "on the way up, fresh, or visits disagree"
        mark = Line2D([], [], marker="o", mfc="none", ms=5, ls="", label=label)
        mark.set_markeredgecolor(style.MUTED)
        keys.append(mark)
    if any(curve.knee_bytes is not None for curve in curves):
        keys.append(Line2D([], [], color=style.MUTED, lw=1.2, ls="-.", label="knee"))
    killed = any("oom-killed" in p.outcomes for one in shown for p in one.tried)
    return [*keys, scales.demand_key(), *scales.unfinished_keys(["oom-killed"] if killed else [])]
