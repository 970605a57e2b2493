"""Slowdown against limit, a panel a phase, with the fit and its 90 % band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgebench.figures.axes import (
    MIB,
    LimitAxis,
    demand_key,
    draw_demand,
    draw_lost,
    lost_keys,
    slowdown_axis,
)
from edgebench.figures.naming import Drawn, stem_of, subtitle, title_of
from edgebench.figures.style import (
    MUTED,
    PHASE_TITLES,
    Colour,
    legend_beside,
    new_figure,
    schedule_look,
)
from edgebench.slowdown.data import PHASES, Curve, curves
from edgebench.slowdown.ladder import Step, climb
from edgebench.slowdown.model import LEVEL

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.3
#: A band from its lower to its upper end; one wider than this tells nothing.
_WIDEST_BAND = 20.0


def figures(results: Results) -> Iterator[Drawn]:
    """One a network (or pipeline) and settings; schedules share it.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    taken: set[str] = set()
    for group in _groups(curves(results)):
        about = {k: v for k, v in group[0].settings.items() if k != "schedule"}
        stem = stem_of("slowdown", about, taken, group[0].network)
        title = f"Slowdown of {title_of(group[0].network)} against its limit"
        figure = new_figure(title, subtitle(about), results, _HEIGHT_IN)
        phases = [phase for phase in PHASES if any(c.phase == phase for c in group)]
        row = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, phase in zip(row, phases, strict=True):
            _panel(axes, [c for c in group if c.phase == phase], group, len(phases))
        row[0].set_ylabel("slowdown (time ÷ unlimited time)")
        legend_beside(row[-1], handles=_keys(group))
        yield Drawn(stem, figure)


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
    axis = LimitAxis([*limits, *demands], panels)
    axis.apply(axes)
    schedules = _schedules(group)
    lanes = len(schedules) if any(c.lost_bytes for c in group) else 0
    times = [part / c.unlimited_s for c in group for part in (c.seconds, c.unlimited_seconds)]
    every = np.concatenate(times)
    slowdown_axis(axes, float(every.min()), float(every.max()), lanes)
    axes.set_title(PHASE_TITLES[shown[0].phase])
    axes.axhline(1, color=MUTED, linewidth=0.8, zorder=1)
    for curve in shown:
        schedule = curve.settings.get("schedule")
        colour, marker = schedule_look(schedule, schedules)
        _curve(axes, axis, curve, colour, marker)
        draw_lost(axes, curve.lost_bytes, colour, schedules.index(schedule))
        if curve.demand_bytes is not None:
            draw_demand(axes, curve.demand_bytes, colour if len(schedules) > 1 else MUTED)


def _curve(axes: Axes, axis: LimitAxis, curve: Curve, colour: Colour, marker: str) -> None:
    """Repeats behind their median, the fit and its band."""
    unlimited = curve.unlimited_seconds / curve.unlimited_s
    every = np.concatenate([curve.limit_bytes / MIB, np.full(len(unlimited), axis.unlimited)])
    repeats = np.concatenate([curve.slowdown, unlimited])
    axes.plot(every, repeats, marker, color=colour, alpha=0.35, markersize=3.5, mew=0, zorder=2.5)
    middles = np.append(curve.limits / MIB, axis.unlimited)
    medians = np.append(curve.medians, 1.0)
    axes.plot(middles, medians, marker, color=colour, markersize=6, mec="white", mew=0.9, zorder=4)
    if len(curve.limits) > 1:
        _fit(axes, axis, climb(curve).drawn, float(curve.limits[0]), colour)


def _fit(axes: Axes, axis: LimitAxis, step: Step, lowest: float, colour: Colour) -> None:
    assert step.fit is not None
    limits = np.geomspace(lowest, axis.high * MIB, 300)
    axes.plot(limits / MIB, step.rung.predict(step.fit, limits), color=colour, lw=1.7, zorder=3)
    band = step.rung.interval(step.fit, limits)
    if band is not None and (band[1] / band[0]).max() < _WIDEST_BAND:
        axes.fill_between(limits / MIB, *band, color=colour, alpha=0.15, lw=0, zorder=2)


def _keys(group: Sequence[Curve]) -> list[Artist]:
    schedules = _schedules(group)
    keys: list[Artist] = []
    for schedule in schedules:
        colour, marker = schedule_look(schedule, schedules)
        name = str(schedule) if schedule else "trials"
        keys.append(
            Line2D([], [], color=colour, marker=marker, mec="white", mew=0.9, ms=6, label=name)
        )
    keys.append(Line2D([], [], color=MUTED, marker="o", ms=3.5, mew=0, ls="", label="one trial"))
    keys.append(Line2D([], [], color=MUTED, lw=1.7, label="best fit"))
    keys.append(Patch(color=MUTED, alpha=0.2, lw=0, label=f"its {LEVEL:.0%} interval"))
    if any(curve.demand_bytes is not None for curve in group):
        keys.append(demand_key())
    return [*keys, *lost_keys([outcome for curve in group for outcome in curve.lost_bytes])]
