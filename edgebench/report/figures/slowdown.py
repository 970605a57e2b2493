"""Figures of slowdown by limit: of the start and a steady round, and of each phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import PHASES, WHOLES, Curve, curves
from edgebench.text import MIB, THROUGHPUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.2


@naming.figure_kind("slowdown", place=1)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw the start and the steady round: a figure for each network and settings.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    yield from _figures(results, "slowdown", WHOLES)


@naming.figure_kind("phases")
def phase_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw the phases: a panel for each, in a figure for each network and settings.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    phases = [phase for phase in PHASES if phase not in (*WHOLES, THROUGHPUT)]
    yield from _figures(results, "phases", phases)


def _figures(results: Results, kind: str, phases: Sequence[str]) -> Iterator[naming.NamedFigure]:
    groups: dict[str, list[Curve]] = {}
    for curve in curves(results):
        if curve.phase in phases:
            about = {k: v for k, v in curve.settings.items() if k != "schedule"}
            groups.setdefault(f"{curve.network} {sorted(about.items())}", []).append(curve)
    if not groups:
        raise ResultsError(f"no {kind} was timed below a limit", where=str(results.path))
    for group in groups.values():
        about = {k: v for k, v in group[0].settings.items() if k != "schedule"}
        network = naming.title_of(group[0].network)
        title, words = f"Slowdown of {network} by memory limit", naming.subtitle(about)
        figure = style.new_figure(title, words, results, _HEIGHT_IN)
        shown = [phase for phase in phases if any(curve.phase == phase for curve in group)]
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, phase in zip(panels, shown, strict=True):
            own = [curve for curve in group if curve.phase == phase]
            _draw_panel(axes, own, group)
            axes.set_title(style.PHASE_TITLES[own[0].answer])
        # Not before: on a log axis, medians would be of the logarithms.
        every = np.concatenate([curve.slowdown for curve in group])
        lanes = len({curve.settings.get("schedule") for curve in group if curve.lost_bytes})
        scales.slowdown_axis(panels[0], float(every.min()), float(every.max()), lanes)
        if len(group) == len(shown):
            for axes, phase in zip(panels, shown, strict=True):
                _add_seconds(axes, next(c.unlimited_s for c in group if c.phase == phase))
        style.legend_beside(*panels)
        panels[0].set_ylabel("slowdown (time ÷ unlimited time)")
        yield naming.NamedFigure(naming.stem_of(kind, about, group[0].network), figure)


def _draw_panel(axes: Axes, shown: Sequence[Curve], group: Sequence[Curve]) -> None:
    """Draw the median through all limits, its repeats and their range, and what did not finish."""
    sizes = [size for c in group for size in (c.demand_bytes, c.working_set_bytes) if size]
    sizes += [
        size for c in group for size in (*c.limits, *(m for n in c.lost_bytes.values() for m in n))
    ]
    unlimited = scales.limit_axis(axes, sizes)
    schedules = list(dict.fromkeys(curve.settings.get("schedule") for curve in group))
    lost = list(dict.fromkeys(c.settings.get("schedule") for c in group if c.lost_bytes))
    colours = {}
    for curve in shown:
        schedule = curve.settings.get("schedule")
        colours[schedule], marker = style.schedule_style(schedule, schedules)
        base = curve.unlimited_seconds / curve.unlimited_s
        places = np.append(curve.limit_bytes / MIB, np.full(len(base), unlimited))
        looks: dict[str, Any] = {"x": places, "y": np.append(curve.slowdown, base), "ax": axes}
        looks |= {"color": colours[schedule], "marker": marker}
        label = str(schedule) if schedule else "median and range"
        sns.scatterplot(**looks, alpha=0.35, s=14, linewidth=0)
        sns.lineplot(**looks, estimator="median", errorbar=("pi", 100), label=label)
    for curve in shown:
        schedule = curve.settings.get("schedule")
        colour = colours[schedule]
        if curve.demand_bytes is not None:
            single = len(schedules) == 1
            scales.draw_demand(axes, curve.demand_bytes, style.MUTED if single else colour)
        if size := curve.working_set_bytes:
            axes.axvline(size / MIB, color=style.MUTED, lw=1.1, ls=":", label="working set")
        if curve.lost_bytes:
            scales.draw_unfinished(axes, curve.lost_bytes, colour, lost.index(schedule))


def _add_seconds(axes: Axes, unlimited_s: float) -> None:
    """Add the times of the only curve at the right."""
    to_and_from = (lambda slowdown: slowdown * unlimited_s, lambda time: time / unlimited_s)
    right = axes.secondary_yaxis("right", functions=to_and_from)
    scales.log_ticks(right.yaxis, scales.SECONDS)
