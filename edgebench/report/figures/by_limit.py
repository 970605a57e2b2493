"""Figures by memory limit: what a workload gets done in a second, and what its rounds read again.

Each workload has a line; storage has no part in what is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import seaborn as sns
from matplotlib.ticker import FuncFormatter

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import short_names
from edgebench.text import MIB, per_second_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.miss_curve import MissCurve
    from edgebench.results.results import Results

_HEIGHT_IN = 4.0
#: More miss curves in a figure can't be told apart.
_MOST = 4


@naming.figure_kind("throughput")
def throughput_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a figure for each unit that is counted.

    Raises:
        ResultsError: no trial counted anything.
    """
    workloads = sweep_facts(results.sweeps[0]).workloads
    units = {p.unit for w in workloads for p in w.points if p.throughput_per_s}
    if not units:
        raise ResultsError("no throughput was measured", where=str(results.path))
    for unit in sorted(units):
        shown = [
            w for w in workloads if any(p.throughput_per_s and p.unit == unit for p in w.points)
        ]
        words = per_second_words(unit)
        title = f"{words[0].upper()}{words[1:]} by memory limit"
        names, shared = short_names([workload.name for workload in shown])
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, _HEIGHT_IN)
        axes = figure.subplots()
        limits = [p.limit_bytes for w in shown for p in w.points]
        sizes = [size for size in (*limits, *(w.demand_bytes for w in shown)) if size is not None]
        unlimited = scales.limit_axis(axes, sizes or [MIB])
        for number, workload in enumerate(shown):
            colour, marker = style.series_style(number)
            rates = [
                ((p.limit_bytes or unlimited * MIB) / MIB, per_s)
                for p in workload.points
                if (rate := p.throughput_per_s)
                for per_s in (rate.low, rate.median, rate.high)
            ]
            places, per_second = zip(*rates, strict=True)
            label = naming.title_of(names[workload.name], 32)
            looks = {"marker": marker, "color": colour, "label": label, "ax": axes}
            sns.lineplot(x=places, y=per_second, estimator="median", errorbar=("pi", 100), **looks)
        _mark_limits(axes, shown)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** (0.07 * len(shown)))
        scales.log_ticks(axes.yaxis, FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(words)
        style.legend_beside(axes)
        stem = naming.stem_of("throughput", {}, *([unit] if unit else []))
        yield naming.NamedFigure(stem, figure)


@naming.figure_kind("misses", place=4)
def miss_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw the miss curves, a few in a figure: what a steady round reads again, and its knee.

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
        for number, (_, curve) in enumerate(shown):
            _mark_curve(axes, curve, number)
        _mark_limits(axes, [workload for workload, _ in shown])
        axes.set_ylabel("MiB read again, each steady round")
        low, high = axes.get_ylim()
        axes.set_ylim(low, max(high, 1.0) * (1 + 0.07 * len(shown)))
        style.legend_beside(axes)
        words = [first // _MOST + 1] if first else []
        yield naming.NamedFigure(naming.stem_of("misses", {}, *words), figure)


def _killed(workload: WorkloadFacts) -> list[float]:
    return [p.limit_bytes for p in workload.tried if "oom-killed" in p.outcomes and p.limit_bytes]


def _mark_limits(axes: Axes, workloads: Sequence[WorkloadFacts]) -> None:
    """Draw each workload's need, and the limits at which it was killed."""
    for number, workload in enumerate(workloads):
        colour, _ = style.series_style(number)
        if workload.demand_bytes is not None:
            scales.draw_demand(axes, workload.demand_bytes, colour)
        if killed := _killed(workload):
            scales.draw_unfinished(axes, {"oom-killed": killed}, colour, number)


def _mark_curve(axes: Axes, curve: MissCurve, number: int) -> None:
    """Draw the knee, and hollow marks on the way up or where visits disagree."""
    colour, marker = style.series_style(number)
    others = [p for p in curve.points if not (p.agree and p.direction == curve.direction)]
    for point in others:
        visits = (point.round_bytes,) if point.agree else point.visit_bytes
        places, read = [point.limit_bytes / MIB] * len(visits), [size / MIB for size in visits]
        label = "on the way up, fresh,\nor visits disagree"
        axes.plot(places, read, marker, mec=colour, mfc="none", ms=5, label=label)
    if curve.knee_bytes is not None:
        axes.axvline(curve.knee_bytes / MIB, color=colour, lw=1.2, ls="-.", zorder=1, label="knee")
