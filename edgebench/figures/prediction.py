"""Predicted slowdown against limit, with what was measured, if anything was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgebench.figures.axes import MIB, LimitAxis, demand_key, draw_demand, slowdown_axis
from edgebench.figures.naming import Drawn, stem_of, subtitle, title_of
from edgebench.figures.style import (
    INK,
    MUTED,
    PHASE_TITLES,
    applied,
    legend_beside,
    new_figure,
    rung_look,
    save,
)
from edgebench.slowdown.model import LEVEL

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results
    from edgebench.slowdown.data import Curve
    from edgebench.slowdown.prediction import Prediction, Predictor
    from edgebench.slowdown.voices import Told

FOLDER = "figures"
_HEIGHT_IN = 4.3
_FINE = 240
#: More panels than this would be too narrow to read: then only the round is drawn.
_MOST_PANELS = 4


def draw(
    results: Results, found: Sequence[Prediction], predictor: Predictor, folder: Path
) -> list[Path]:
    """Draw each prediction into the folder's ``figures/``; the files.

    Raises:
        ResultsError: the folder can't be written.
    """
    paths = []
    with applied():
        for stem, figure in figures(results, found, predictor):
            paths += save(figure, folder / FOLDER, stem)
    return paths


def figures(results: Results, found: Sequence[Prediction], predictor: Predictor) -> Iterator[Drawn]:
    """One figure a workload, a panel a phase."""
    taken: set[str] = set()
    for one in found:
        settings, network = one.subject.settings, one.subject.network
        stem = stem_of("prediction", settings, taken, network, settings.get("schedule"))
        limits = _range(one)
        told = predictor.tell(one.subject, limits)
        pairs = list(zip(one.subject.curves, told, strict=True))
        if len(pairs) > _MOST_PANELS:
            pairs = [(curve, said) for curve, said in pairs if curve.phase == "total"]
        how = "run before" if one.subject.was_run else "never run"
        title = f"Predicted slowdown of {title_of(network)}"
        words = subtitle(settings, how, f"by {one.rung}")
        figure = new_figure(title, words, results, _HEIGHT_IN)
        row = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
        for axes, (curve, said) in zip(row, pairs, strict=True):
            _panel(axes, one, curve, said, limits, len(pairs))
        highest = max(float(np.max(said.slowdown)) for _, said in pairs)
        measured = [s for curve, _ in pairs for s in curve.slowdown] if one.subject.was_run else []
        slowdown_axis(row[0], min([1.0, *measured]), max([highest, *measured]), 0)
        row[0].set_ylabel("slowdown (time ÷ unlimited time)")
        legend_beside(row[-1], handles=_keys(one))
        yield Drawn(stem, figure)


def _range(one: Prediction) -> np.ndarray:
    """From the tightest to the widest limit that is asked for or known."""
    known = [float(m) for curve in one.subject.curves for m in curve.limits]
    sizes = [*(at.limit_bytes for at in one.at), *known]
    sizes += [one.demand_bytes] if one.demand_bytes else []
    ends = min(sizes), max(sizes)
    if ends[0] == ends[1]:
        ends = ends[0] / 1.5, ends[1] * 1.5
    return np.geomspace(*ends, _FINE)


def _panel(
    axes: Axes, one: Prediction, curve: Curve, told: Told, limits: np.ndarray, panels: int
) -> None:
    axis = LimitAxis([float(limits[0]), float(limits[-1])], panels)
    axis.apply(axes)
    axes.set_title(PHASE_TITLES[curve.phase])
    axes.axhline(1, color=MUTED, linewidth=0.8, zorder=1)
    colour, _ = rung_look(one.rung)
    sizes = limits / MIB
    axes.plot(sizes, told.slowdown, color=colour, lw=1.7, zorder=3)
    if told.band is not None:
        axes.fill_between(sizes, *told.band, color=colour, alpha=0.15, lw=0, zorder=2)
    asked = [at for at in one.at if at.viable]
    places = [at.limit_bytes for at in asked]
    heights = np.interp(np.log(places), np.log(limits), told.slowdown)
    axes.plot(np.array(places) / MIB, heights, "o", color=colour, ms=5.5, mec="white", zorder=4)
    if len(curve.limits):
        measured = curve.limit_bytes / MIB, curve.slowdown
        axes.plot(*measured, "o", color=INK, ms=3.2, alpha=0.45, mew=0, zorder=3.5)
    if one.demand_bytes:
        draw_demand(axes, one.demand_bytes)
    _shade(axes, one, float(limits[0]))


def _shade(axes: Axes, one: Prediction, lowest: float) -> None:
    """What lies below all trials, and what is not viable."""
    if one.fitted and one.demand_bytes and lowest < one.fitted[0] * one.demand_bytes:
        ends = lowest / MIB, one.fitted[0] * one.demand_bytes / MIB
        axes.axvspan(*ends, facecolor="none", edgecolor=MUTED, hatch="////", alpha=0.25, lw=0)
    if one.least_viable_bytes and lowest < one.least_viable_bytes:
        axes.axvspan(lowest / MIB, one.least_viable_bytes / MIB, color="#c0392b", alpha=0.14, lw=0)


def _keys(one: Prediction) -> list[Artist]:
    colour, _ = rung_look(one.rung)
    keys: list[Artist] = [
        Line2D([], [], color=colour, lw=1.7, marker="o", ms=5.5, mec="white", label="predicted"),
        Patch(color=colour, alpha=0.2, lw=0, label=f"its {LEVEL:.0%} interval"),
    ]
    if one.subject.was_run:
        keys.append(Line2D([], [], color=INK, ls="", marker="o", ms=3.2, alpha=0.5, label="trial"))
    if one.demand_bytes:
        keys.append(demand_key())
    if any(at.extrapolated for at in one.at):
        keys.append(Patch(facecolor="none", edgecolor=MUTED, hatch="////", label="extrapolated"))
    if any(not at.viable for at in one.at):
        keys.append(Patch(color="#c0392b", alpha=0.2, lw=0, label="not viable"))
    return keys
