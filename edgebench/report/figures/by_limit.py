"""Figures by memory limit: slowdown, measured and predicted; throughput; what rounds read again.

Slowdown is that of the start and a steady round, or of each phase. Storage has no part in what is
read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns
from matplotlib.ticker import FuncFormatter

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import short_names
from edgebench.slowdown.curves import LEVEL, PHASES, WHOLES, Curve, curves
from edgebench.text import MIB, THROUGHPUT, per_second_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.miss_curve import MissCurve
    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.prediction import Prediction

_HEIGHT_IN = 4.2
#: More miss curves in a figure can't be told apart.
_MOST = 4
_FINE = 240
_COLOUR, _KILLED = style.COLOURS[7], "#c0392b"


@naming.figure_kind("slowdown", place=1)
def slowdown_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw the start and the steady round: a figure for each network and settings.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    yield from _slowdown_figures(results, "slowdown", WHOLES)


@naming.figure_kind("phases")
def phase_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw the phases: a panel for each, in a figure for each network and settings.

    Raises:
        ResultsError: no slowdown to draw, with the reason.
    """
    phases = [phase for phase in PHASES if phase not in (*WHOLES, THROUGHPUT)]
    yield from _slowdown_figures(results, "phases", phases)


def _slowdown_figures(
    results: Results, kind: str, phases: Sequence[str]
) -> Iterator[naming.NamedFigure]:
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
            _draw_curves(axes, own, group)
            axes.set_title(style.PHASE_TITLES[own[0].answer])
        # Not before: on a log axis, medians would be of the logarithms.
        every = np.concatenate([curve.slowdown for curve in group])
        lanes = len({curve.settings.get("schedule") for curve in group if curve.lost_bytes})
        style.slowdown_axis(panels[0], float(every.min()), float(every.max()), lanes)
        if len(group) == len(shown):
            for axes, phase in zip(panels, shown, strict=True):
                _add_seconds(axes, next(c.unlimited_s for c in group if c.phase == phase))
        style.legend_beside(*panels)
        panels[0].set_ylabel("slowdown (time ÷ unlimited time)")
        yield naming.NamedFigure(naming.stem_of(kind, about, group[0].network), figure)


def _draw_curves(axes: Axes, shown: Sequence[Curve], group: Sequence[Curve]) -> None:
    """Draw the median through all limits, its repeats and their range, and what did not finish."""
    sizes = [size for c in group for size in (c.demand_bytes, c.working_set_bytes) if size]
    sizes += [
        size for c in group for size in (*c.limits, *(m for n in c.lost_bytes.values() for m in n))
    ]
    unlimited = style.limit_axis(axes, sizes)
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
            style.draw_demand(axes, curve.demand_bytes, style.MUTED if single else colour)
        if size := curve.working_set_bytes:
            axes.axvline(size / MIB, color=style.MUTED, lw=1.1, ls=":", label="working set")
        if curve.lost_bytes:
            style.draw_unfinished(axes, curve.lost_bytes, colour, lost.index(schedule))


def _add_seconds(axes: Axes, unlimited_s: float) -> None:
    """Add the times of the only curve at the right."""
    to_and_from = (lambda slowdown: slowdown * unlimited_s, lambda time: time / unlimited_s)
    right = axes.secondary_yaxis("right", functions=to_and_from)
    style.log_ticks(right.yaxis, style.SECONDS)


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
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, 4.0)
        axes = figure.subplots()
        limits = [p.limit_bytes for w in shown for p in w.points]
        sizes = [size for size in (*limits, *(w.demand_bytes for w in shown)) if size is not None]
        unlimited = style.limit_axis(axes, sizes or [MIB])
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
        style.log_ticks(axes.yaxis, FuncFormatter(lambda value, _: f"{value:g}"))
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
        figure = style.new_figure(title, shared.replace(" · ", "  ·  "), results, 4.0)
        axes = figure.subplots()
        sizes = [float(point.limit_bytes) for _, curve in shown for point in curve.points]
        for workload, _ in shown:
            sizes += [size for size in (workload.demand_bytes, *_killed(workload)) if size]
        unlimited = style.limit_axis(axes, sizes)
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
            style.draw_demand(axes, workload.demand_bytes, colour)
        if killed := _killed(workload):
            style.draw_unfinished(axes, {"oom-killed": killed}, colour, number)


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


def draw_predictions(
    results: Results, predictions: Sequence[Prediction], folder: Path
) -> list[Path]:
    """Write a figure of each prediction into the folder's ``figures/``.

    Raises:
        ResultsError: the folder can't be written.
    """
    return naming.write_figures(prediction_figures(results, predictions), folder)


def prediction_figures(
    results: Results, predictions: Sequence[Prediction]
) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each workload: the start and a steady round, or what else is known."""
    for prediction in predictions:
        subject = prediction.subject
        limits = _limits_between(prediction)
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
            _draw_prediction(axes, prediction, curve, times, limits)
        style.slowdown_axis(panels[0], min(slowdowns), max(slowdowns))
        panels[0].set_ylabel("slowdown (time ÷ unlimited time)")
        style.legend_beside(*panels)
        schedule = subject.settings.get("schedule")
        stem = naming.stem_of("prediction", subject.settings, subject.network, schedule)
        yield naming.NamedFigure(stem, figure)


def _time(curve: Curve, at: Answer) -> PhaseTime | None:
    key = (curve.network, curve.phase)
    return next((time for time in at.phases if (time.network, time.phase) == key), None)


def _limits_between(prediction: Prediction) -> np.ndarray:
    """Return limits from the tightest to the widest that is asked for or known."""
    sizes = [float(size) for curve in prediction.subject.curves for size in curve.limits]
    sizes += [at.limit_bytes for at in prediction.at]
    sizes += [prediction.needs_bytes] if prediction.needs_bytes else []
    ends = min(sizes), max(sizes)
    if ends[0] == ends[1]:
        ends = ends[0] / 1.5, ends[1] * 1.5
    return np.geomspace(*ends, _FINE)


def _draw_prediction(
    axes: Axes,
    prediction: Prediction,
    curve: Curve,
    times: Sequence[PhaseTime | None],
    limits: np.ndarray,
) -> None:
    style.limit_axis(axes, [float(limits[0]), float(limits[-1])])
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
        style.draw_demand(axes, prediction.needs_bytes)
    least = prediction.least_viable_bytes
    if least and limits[0] < least:
        looks = {"color": _KILLED, "alpha": 0.14, "lw": 0, "label": "more likely killed"}
        axes.axvspan(float(sizes[0]), least / MIB, **looks)
