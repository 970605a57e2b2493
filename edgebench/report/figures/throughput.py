"""Figure of throughput by limit: what a workload gets done in a second, a line per workload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import seaborn as sns
from matplotlib.ticker import FuncFormatter

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import sweep_facts
from edgebench.results.workload_key import short_names
from edgebench.throughput import per_second_words
from edgebench.units import MIB

if TYPE_CHECKING:
    from edgebench.results.results import Results

_HEIGHT_IN = 4.0


@naming.figure_kind("throughput")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
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
                if p.throughput_per_s
                for per_s in (
                    p.throughput_per_s.low,
                    p.throughput_per_s.median,
                    p.throughput_per_s.high,
                )
            ]
            places, per_second = zip(*rates, strict=True)
            sns.lineplot(
                x=places,
                y=per_second,
                marker=marker,
                color=colour,
                estimator="median",
                errorbar=("pi", 100),
                label=naming.title_of(names[workload.name], 32),
                ax=axes,
            )
        for number, workload in enumerate(shown):
            colour, _ = style.series_style(number)
            if workload.demand_bytes is not None:
                scales.draw_demand(axes, workload.demand_bytes, colour)
            lost = [p.limit_bytes for p in workload.tried if "oom-killed" in p.outcomes]
            if killed := [size for size in lost if size is not None]:
                scales.draw_unfinished(axes, {"oom-killed": killed}, colour, number)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** (0.07 * len(shown)))
        scales.log_ticks(axes.yaxis, FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(words)
        style.legend_beside(axes)
        stem = naming.stem_of("throughput", {}, *([unit] if unit else []))
        yield naming.NamedFigure(stem, figure)
