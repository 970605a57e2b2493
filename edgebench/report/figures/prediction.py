"""Figure of the predicted slowdown by limit, with the measured trials if there are any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns

from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import WHOLES
from edgebench.slowdown.fit import LEVEL
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.curves import Curve
    from edgebench.slowdown.prediction import Prediction

_HEIGHT_IN = 4.2
_FINE = 240
_COLOUR, _KILLED = style.COLOURS[7], "#c0392b"


def draw_predictions(
    results: Results, predictions: Sequence[Prediction], folder: Path
) -> list[Path]:
    """Write a figure of each prediction into the folder's ``figures/``.

    Raises:
        ResultsError: the folder can't be written.
    """
    return naming.write_figures(figures(results, predictions), folder)


def figures(results: Results, predictions: Sequence[Prediction]) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each workload: the start and a steady round, or what else is known."""
    for prediction in predictions:
        subject = prediction.subject
        limits = _limits(prediction)
        answers = [prediction.answers.at(float(limit)) for limit in limits]
        curves = [c for c in subject.curves if c.phase in WHOLES] or list(subject.curves)
        how = "measured before" if subject.was_run else "not measured"
        title = f"Predicted slowdown of {naming.title_of(subject.network)}"
        words = naming.subtitle(subject.settings, how)
        figure = style.new_figure(title, words, results, _HEIGHT_IN)
        panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        slowdowns = [1.0]
        for axes, curve in zip(panels, curves, strict=True):
            times = [_time(curve, answer) for answer in answers]
            slowdowns += [time.slowdown for time in times if time and time.slowdown]
            slowdowns += curve.slowdown.tolist() if subject.was_run else []
            _draw_panel(axes, prediction, curve, times, limits)
        scales.slowdown_axis(panels[0], min(slowdowns), max(slowdowns))
        panels[0].set_ylabel("slowdown (time ÷ unlimited time)")
        style.legend_beside(*panels)
        schedule = subject.settings.get("schedule")
        stem = naming.stem_of("prediction", subject.settings, subject.network, schedule)
        yield naming.NamedFigure(stem, figure)


def _time(curve: Curve, at: Answer) -> PhaseTime | None:
    key = (curve.network, curve.phase)
    return next((time for time in at.phases if (time.network, time.phase) == key), None)


def _limits(prediction: Prediction) -> np.ndarray:
    """Return limits from the tightest to the widest that is asked for or known."""
    sizes = [float(size) for curve in prediction.subject.curves for size in curve.limits]
    sizes += [at.limit_bytes for at in prediction.at]
    sizes += [prediction.needs_bytes] if prediction.needs_bytes else []
    ends = min(sizes), max(sizes)
    if ends[0] == ends[1]:
        ends = ends[0] / 1.5, ends[1] * 1.5
    return np.geomspace(*ends, _FINE)


def _draw_panel(
    axes: Axes,
    prediction: Prediction,
    curve: Curve,
    times: Sequence[PhaseTime | None],
    limits: np.ndarray,
) -> None:
    scales.limit_axis(axes, [float(limits[0]), float(limits[-1])])
    axes.set_title(style.PHASE_TITLES[curve.answer])
    axes.axhline(1, color=style.MUTED, lw=0.8, zorder=1)
    sizes = limits / MIB
    rows = [(t.slowdown, t.slowdown_low, t.slowdown_high) if t else (None,) * 3 for t in times]
    middle, low, high = np.array(rows, dtype=np.float64).T
    looks: dict[str, Any] = {"color": _COLOUR, "alpha": 0.15, "lw": 0}
    axes.fill_between(sizes, low, high, **looks, label=f"its {LEVEL:.0%} interval")
    # No line joins the two sides of a gap.
    axes.plot(sizes, middle, color=_COLOUR, label="predicted")
    asked = [
        (at.limit_bytes / MIB, time.slowdown)
        for at in prediction.at
        if at.viable and (time := _time(curve, at)) and time.slowdown
    ]
    if asked:
        axes.plot(*zip(*asked, strict=True), "o", color=_COLOUR, mec="white", label="asked for")
    if len(curve.limits):
        places = {"x": curve.limit_bytes / MIB, "y": curve.slowdown}
        sns.scatterplot(**places, color=style.INK, alpha=0.45, s=12, ax=axes, label="trial")
    if prediction.needs_bytes:
        scales.draw_demand(axes, prediction.needs_bytes)
    least = prediction.least_viable_bytes
    if least and limits[0] < least:
        looks = {"color": _KILLED, "alpha": 0.14, "lw": 0, "label": "more likely killed"}
        axes.axvspan(float(sizes[0]), least / MIB, **looks)
