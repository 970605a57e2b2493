"""Figure of energy by limit: joules of a pass, and how energy and time grow as the limit tightens.

Only of points whose energy was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.point_energy import TRIAL
from edgebench.results.point_facts import PointFacts
from edgebench.results.workload_key import brief_names, short_names
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.2
_MOST_LETTERS = 32
_DASHES = (0, (4, 2))


@naming.figure_kind("energy")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One for each domain of energy.

    Raises:
        ResultsError: no energy was measured.
    """
    found = sweep_facts(results.sweeps[0]).workloads
    domains = {p.energy.domain for one in found for p in one.points if p.energy}
    if not domains:
        raise ResultsError("no energy was measured", where=str(results.path))
    for domain in sorted(domains):
        shown = [one for one in found if _points(one, domain)]
        every = [one.name for one in shown]
        names, (_, shared) = brief_names(every), short_names(every)
        shared = shared if len(shown) > 1 else every[0]
        title = f"Energy of the {domain} by memory limit"
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, _HEIGHT_IN)
        left, right = figure.subplots(1, 2)
        sizes = [size for one in shown for p in _points(one, domain) if (size := p.limit_bytes)]
        axis = scales.LimitAxis(sizes or [MIB], 2)
        for number, one in enumerate(shown):
            _joules(left, axis, _points(one, domain), number)
            _growth(right, axis, _points(one, domain), number)
        _finish(left, right, axis, shown)
        style.legend_beside(right, handles=_keys([names[one.name] for one in shown]))
        yield naming.NamedFigure(naming.stem_of("energy", {}, domain), figure)


def _points(workload: WorkloadFacts, domain: str) -> list[PointFacts]:
    return [p for p in workload.points if p.energy and p.energy.domain == domain]


def _places(axis: scales.LimitAxis, points: Sequence[PointFacts]) -> list[float]:
    return [(p.limit_bytes or axis.unlimited * MIB) / MIB for p in points]


def _joules(axes: Axes, axis: scales.LimitAxis, points: Sequence[PointFacts], number: int) -> None:
    """Medians; the bars are as long as repeats and the integration's error together."""
    colour, marker = style.series_style(number)
    told = [p.energy for p in points if p.energy]
    places = _places(axis, points)
    medians = [one.energy_j.median for one in told]
    axes.plot(places, medians, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9)
    lows = [max(one.energy_j.low - one.error_j, 0.02 * one.energy_j.median) for one in told]
    axes.vlines(places, lows, [one.energy_j.high + one.error_j for one in told], color=colour)


def _growth(axes: Axes, axis: scales.LimitAxis, points: Sequence[PointFacts], number: int) -> None:
    """Energy ÷ unlimited energy, and time ÷ unlimited time."""
    colour, marker = style.series_style(number)
    known = [p for p in points if p.energy_ratio and p.ratio]
    places = _places(axis, known)
    energy = [p.energy_ratio.median for p in known if p.energy_ratio]
    time = [p.ratio.median for p in known if p.ratio]
    axes.plot(places, energy, marker=marker, color=colour, lw=1.6, ms=6, mec="white", mew=0.9)
    axes.plot(places, time, marker=marker, color=colour, lw=1.2, ls=_DASHES, ms=5, mfc="none")


def _finish(
    left: Axes, right: Axes, axis: scales.LimitAxis, shown: Sequence[WorkloadFacts]
) -> None:
    told = [p.energy for one in shown for p in one.points if p.energy]
    left.set_ylim(0, 1.1 * max(one.energy_j.high + one.error_j for one in told))
    of = "trial" if {one.part for one in told} == {TRIAL} else "round"
    left.set_ylabel(f"energy of a {of} (J)")
    left.set_title("energy")
    ratios = [
        ratio.median
        for one in shown
        for p in one.points
        for ratio in (p.energy_ratio, p.ratio)
        if ratio
    ]
    scales.slowdown_axis(right, min(ratios, default=1.0), max(ratios, default=1.0), 0)
    right.axhline(1, color=style.MUTED, linewidth=0.8, zorder=1)
    right.set_title("energy and time ÷ unlimited")
    for axes in (left, right):
        axis.apply(axes)


def _keys(names: Sequence[str]) -> list[Line2D]:
    keys = []
    for number, name in enumerate(names):
        colour, marker = style.series_style(number)
        label = name if len(name) <= _MOST_LETTERS else f"{name[:_MOST_LETTERS]}…"
        keys.append(Line2D([], [], color=colour, marker=marker, mec="white", ms=6, label=label))
    keys.append(Line2D([], [], color=style.MUTED, lw=1.6, label="energy"))
    keys.append(Line2D([], [], color=style.MUTED, lw=1.2, ls=_DASHES, label="time"))
    return keys
