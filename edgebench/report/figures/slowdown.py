"""Figure of slowdown by limit: a panel per phase, with a model and its 90 % interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import PHASES, Curve, curves, upward_seconds, upward_slowdown
from edgebench.slowdown.fit import LEVEL, Fit, fit_curve
from edgebench.units import MIB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.3
#: A band from its lower to its upper end; a wider one is not drawn.
_WIDEST_BAND = 20.0


@naming.figure_kind("slowdown", place=1)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One a network (or pipeline) and settings; schedules share it.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    upward = upward_seconds(results)
    made = curves(results)
    for group in _groups(made):
        # What steady rounds need, where a walk watched it.
        needed = {c.working_set_bytes: "working set" for c in group if c.working_set_bytes}
        about = {k: v for k, v in group[0].settings.items() if k != "schedule"}
        stem = naming.stem_of("slowdown", about, group[0].network)
        title = f"Slowdown of {naming.title_of(group[0].network)} by memory limit"
        figure = style.new_figure(title, naming.subtitle(about), results, _HEIGHT_IN)
        phases = [phase for phase in PHASES if any(c.phase == phase for c in group)]
        row = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(row, phases, strict=True):
            shown = [c for c in group if c.phase == phase]
            _panel(axes, shown, group, len(phases))
            for size in needed:
                scales.draw_needed(axes, size)
            if upward is not None:
                _way_up(axes, shown, group, upward)
        row[0].set_ylabel("slowdown (time ÷ unlimited time)")
        style.legend_beside(row[-1], handles=_keys(group, upward is not None, needed))
        yield naming.NamedFigure(stem, figure)


def _groups(made: Sequence[Curve]) -> list[list[Curve]]:
    groups: dict[str, list[Curve]] = {}
    for curve in made:
        about = {k: v for k, v in curve.settings.items() if k != "schedule"}
        groups.setdefault(f"{curve.network} {sorted(about.items())}", []).append(curve)
    return list(groups.values())


def _schedules(group: Sequence[Curve]) -> list[object]:
    return list(dict.fromkeys(curve.settings.get("schedule") for curve in group))


def _panel(axes: Axes, shown: Sequence[Curve], group: Sequence[Curve], panels: int) -> None:
    limits = [float(m) for c in group for m in c.limits]
    limits += [m for c in group for lost in c.lost_bytes.values() for m in lost]
    demands = [c.demand_bytes for c in group if c.demand_bytes is not None]
    watched = [c.working_set_bytes for c in group if c.working_set_bytes]
    axis = scales.LimitAxis([*limits, *demands, *watched], panels)
    axis.apply(axes)
    schedules = _schedules(group)
    lanes = len(schedules) if any(c.lost_bytes for c in group) else 0
    times = [part / c.unlimited_s for c in group for part in (c.seconds, c.unlimited_seconds)]
    every = np.concatenate(times)
    scales.slowdown_axis(axes, float(every.min()), float(every.max()), lanes)
    axes.set_title(style.PHASE_TITLES[shown[0].answer])
    axes.axhline(1, color=style.MUTED, linewidth=0.8, zorder=1)
    for curve in shown:
        schedule = curve.settings.get("schedule")
        colour, marker = style.schedule_style(schedule, schedules)
        _curve(axes, axis, curve, colour, marker)
        scales.draw_unfinished(axes, curve.lost_bytes, colour, schedules.index(schedule))
        if curve.demand_bytes is not None:
            scales.draw_demand(
                axes, curve.demand_bytes, colour if len(schedules) > 1 else style.MUTED
            )


def _curve(
    axes: Axes, axis: scales.LimitAxis, curve: Curve, colour: style.Colour, marker: str
) -> None:
    """Repeats behind their median, the fit and its band."""
    unlimited = curve.unlimited_seconds / curve.unlimited_s
    every = np.concatenate([curve.limit_bytes / MIB, np.full(len(unlimited), axis.unlimited)])
    repeats = np.concatenate([curve.slowdown, unlimited])
    axes.plot(every, repeats, marker, color=colour, alpha=0.35, markersize=3.5, mew=0, zorder=2.5)
    middles = np.append(curve.limits / MIB, axis.unlimited)
    medians = np.append(curve.medians, 1.0)
    axes.plot(middles, medians, marker, color=colour, markersize=6, mec="white", mew=0.9, zorder=4)
    if len(curve.limits) > 1:
        _fit(axes, axis, fit_curve(curve), colour)


def _fit(axes: Axes, axis: scales.LimitAxis, fit: Fit, colour: style.Colour) -> None:
    limits = np.geomspace(float(fit.curve.limits[0]), axis.high * MIB, 150)
    axes.plot(limits / MIB, fit.slowdown(limits), color=colour, lw=1.7, zorder=3)
    band = fit.interval(limits)
    if (band[1] / band[0]).max() < _WIDEST_BAND:
        axes.fill_between(limits / MIB, *band, color=colour, alpha=0.15, lw=0, zorder=2)


def _way_up(
    axes: Axes, shown: Sequence[Curve], group: Sequence[Curve], upward: pd.DataFrame
) -> None:
    """What walks found on their way up, in hollow marks."""
    schedules = _schedules(group)
    for curve in shown:
        colour, marker = style.schedule_style(curve.settings.get("schedule"), schedules)
        limits, slowdown = upward_slowdown(curve, upward)
        axes.plot(limits / MIB, slowdown, marker, mec=colour, mfc="none", ms=5, mew=1, zorder=3.5)


def _keys(group: Sequence[Curve], walked: bool, needed: dict[float, str]) -> list[Artist]:
    schedules = _schedules(group)
    keys: list[Artist] = []
    for schedule in schedules:
        colour, marker = style.schedule_style(schedule, schedules)
        name = str(schedule) if schedule else "trials"
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    keys.append(
        Line2D([], [], color=style.MUTED, marker="o", ms=3.5, mew=0, ls="", label="one trial")
    )
    if walked:
        mark = Line2D([], [], marker="o", mfc="none", ms=5, ls="", label="on the way up")
        mark.set_markeredgecolor(style.MUTED)
        keys.append(mark)
    keys.append(Line2D([], [], color=style.MUTED, lw=1.7, label="model"))
    keys.append(Patch(color=style.MUTED, alpha=0.2, lw=0, label=f"its {LEVEL:.0%} interval"))
    if any(curve.demand_bytes is not None for curve in group):
        keys.append(scales.demand_key())
    keys += map(scales.needed_key, dict.fromkeys(needed.values()))
    return [
        *keys,
        *scales.unfinished_keys([outcome for curve in group for outcome in curve.lost_bytes]),
    ]
