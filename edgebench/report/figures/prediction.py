"""Figure of the predicted slowdown by limit, with the measured trials if there are any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import WHOLES
from edgebench.slowdown.fit import LEVEL
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.curves import Curve
    from edgebench.slowdown.prediction import Prediction

_HEIGHT_IN = 4.3
_FINE = 240
#: More panels than this would be too narrow to read: then only whole rounds are drawn.
_MOST_PANELS = 5


def draw_predictions(results: Results, found: Sequence[Prediction], folder: Path) -> list[Path]:
    """Draw each prediction into the folder's ``figures/``; the files.

    Raises:
        ResultsError: the folder can't be written.
    """
    return naming.write_figures(figures(results, found), folder)


def figures(results: Results, found: Sequence[Prediction]) -> Iterator[naming.NamedFigure]:
    """One figure a workload, a panel a phase."""
    for one in found:
        settings, network = one.subject.settings, one.subject.network
        stem = naming.stem_of("prediction", settings, network, settings.get("schedule"))
        limits = _range(one)
        curves = list(one.subject.curves)
        if len(curves) > _MOST_PANELS:
            curves = [curve for curve in curves if curve.phase in WHOLES]
        at = [one.answers.at(float(limit)) for limit in limits]
        how = "measured before" if one.subject.was_run else "not measured"
        title = f"Predicted slowdown of {naming.title_of(network)}"
        words = naming.subtitle(settings, how)
        figure = style.new_figure(title, words, results, _HEIGHT_IN)
        row = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        slowdowns = [1.0]
        for axes, curve in zip(row, curves, strict=True):
            times = [_time(curve, answer) for answer in at]
            slowdowns += [time.slowdown for time in times if time and time.slowdown]
            slowdowns += curve.slowdown.tolist() if one.subject.was_run else []
            _panel(axes, one, curve, times, limits, len(curves))
        scales.slowdown_axis(row[0], min(slowdowns), max(slowdowns), 0)
        row[0].set_ylabel("slowdown (time ÷ unlimited time)")
        style.legend_beside(row[-1], handles=_keys(one))
        yield naming.NamedFigure(stem, figure)


def _range(one: Prediction) -> np.ndarray:
    """From the tightest to the widest limit that is asked for or known."""
    known = [float(m) for curve in one.subject.curves for m in curve.limits]
    sizes = [*(at.limit_bytes for at in one.at), *known]
    sizes += [one.needs_bytes] if one.needs_bytes else []
    ends = min(sizes), max(sizes)
    if ends[0] == ends[1]:
        ends = ends[0] / 1.5, ends[1] * 1.5
    return np.geomspace(*ends, _FINE)


def _panel(
    axes: Axes,
    one: Prediction,
    curve: Curve,
    times: Sequence[PhaseTime | None],
    limits: np.ndarray,
    panels: int,
) -> None:
    axis = scales.LimitAxis([float(limits[0]), float(limits[-1])], panels)
    axis.apply(axes)
    axes.set_title(style.PHASE_TITLES[curve.answer])
    axes.axhline(1, color=style.MUTED, linewidth=0.8, zorder=1)
    colour = style.series_style(7)[0]
    sizes = limits / MIB
    rows = [(t.slowdown, t.slowdown_low, t.slowdown_high) if t else (None,) * 3 for t in times]
    middle, low, high = np.array(rows, dtype=np.float64).T
    axes.plot(sizes, middle, color=colour, lw=1.7, zorder=3)
    axes.fill_between(sizes, low, high, color=colour, alpha=0.15, lw=0, zorder=2)
    told = [
        (at.limit_bytes / MIB, time.slowdown)
        for at in one.at
        if at.viable and (time := _time(curve, at)) and time.slowdown
    ]
    axes.plot(*np.array(told).reshape(-1, 2).T, "o", color=colour, ms=5.5, mec="white", zorder=4)
    if len(curve.limits):
        measured = curve.limit_bytes / MIB, curve.slowdown
        axes.plot(*measured, "o", color=style.INK, ms=3.2, alpha=0.45, mew=0, zorder=3.5)
    if one.needs_bytes:
        scales.draw_demand(axes, one.needs_bytes)
    _shade(axes, one, float(limits[0]))


def _time(curve: Curve, at: Answer) -> PhaseTime | None:
    own = (curve.network, curve.phase)
    return next((time for time in at.phases if (time.network, time.phase) == own), None)


def _shade(axes: Axes, one: Prediction, lowest: float) -> None:
    """What is not viable."""
    if one.least_viable_bytes and lowest < one.least_viable_bytes:
        axes.axvspan(lowest / MIB, one.least_viable_bytes / MIB, color="#c0392b", alpha=0.14, lw=0)


def _keys(one: Prediction) -> list[Artist]:
    colour = style.series_style(7)[0]
    keys: list[Artist] = [
        Line2D([], [], color=colour, lw=1.7, marker="o", ms=5.5, mec="white", label="predicted"),
        Patch(color=colour, alpha=0.2, lw=0, label=f"its {LEVEL:.0%} interval"),
    ]
    if one.subject.was_run:
        keys.append(
            Line2D([], [], color=style.INK, ls="", marker="o", ms=3.2, alpha=0.5, label="trial")
        )
    if one.needs_bytes:
        keys.append(scales.demand_key())
    if any(not at.viable for at in one.at):
        keys.append(Patch(color="#c0392b", alpha=0.2, lw=0, label="more likely killed"))
    return keys
