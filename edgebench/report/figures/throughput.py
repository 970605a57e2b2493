"""Figure of throughput by limit: what a workload gets done in a second, a line per workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import short_names
from edgebench.throughput import per_second_words
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.0
#: A line's name beside the figure; the rest of a command is in the tables.
_MOST_LETTERS = 32


@naming.figure_kind("throughput")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One for each unit that is counted.

    Raises:
        ResultsError: no trial counted anything.
    """
    found = sweep_facts(results.sweeps[0]).workloads
    counted = [one for one in found if any(p.throughput_per_s for p in one.points)]
    units = {p.unit for one in counted for p in one.points}
    if not units:
        raise ResultsError("no throughput was measured", where=str(results.path))
    for unit in sorted(units):
        shown = [
            one for one in found if any(p.throughput_per_s and p.unit == unit for p in one.points)
        ]
        words = per_second_words(unit)
        title = f"{words[0].upper()}{words[1:]} by memory limit"
        names, shared = short_names([one.name for one in shown])
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, _HEIGHT_IN)
        axes = figure.subplots()
        _panel(axes, shown)
        axes.set_ylabel(words)
        style.legend_beside(axes, handles=_keys(shown, names))
        stem = naming.stem_of("throughput", {}, *([unit] if unit else []))
        yield naming.NamedFigure(stem, figure)


def _panel(axes: Axes, shown: Sequence[WorkloadFacts]) -> None:
    limits = [p.limit_bytes for one in shown for p in one.points]
    sizes = [s for s in (*limits, *(one.demand_bytes for one in shown)) if s is not None]
    axis = scales.LimitAxis(sizes or [MIB])
    for number, one in enumerate(shown):
        colour, marker = style.series_style(number)
        known = [(p, p.throughput_per_s) for p in one.points if p.throughput_per_s]
        places = [(p.limit_bytes or axis.unlimited * MIB) / MIB for p, _ in known]
        medians = [rate.median for _, rate in known]
        axes.plot(places, medians, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9)
        axes.vlines(
            places, [rate.low for _, rate in known], [rate.high for _, rate in known], color=colour
        )
        if one.demand_bytes is not None:
            scales.draw_demand(axes, one.demand_bytes, colour)
        lost = [p.limit_bytes for p in one.tried if "oom-killed" in p.outcomes]
        if killed := tuple(size for size in lost if size is not None):
            scales.draw_unfinished(axes, {"oom-killed": killed}, colour, number)
    axes.set_yscale("log")
    scales.add_mark_lanes(axes, len(shown))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axis.apply(axes)


def _keys(shown: Sequence[WorkloadFacts], names: Mapping[str, str]) -> list[Line2D]:
    keys = []
    for number, one in enumerate(shown):
        colour, marker = style.series_style(number)
        name = names[one.name]
        name = name if len(name) <= _MOST_LETTERS else f"{name[:_MOST_LETTERS]}…"
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    killed = any("oom-killed" in p.outcomes for one in shown for p in one.tried)
    return [*keys, scales.demand_key(), *scales.unfinished_keys(["oom-killed"] if killed else [])]
