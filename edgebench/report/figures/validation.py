"""Figures of the models' validation: predictions, errors by limit, intervals, viability."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.evaluation.evaluation import Evaluation
from edgebench.slowdown.evaluation.scores import HeldOutPrediction
from edgebench.slowdown.models.base import LEVEL
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: The splits that are drawn, and how they are called.
_SPLITS = {
    "limit-inside": "one limit left out",
    "network": "one network left out",
    "held-out": "families held out",
}
#: Bins of the limit as a share of demand, where errors and intervals are summed up.
_SHARES = (0.0, 0.55, 0.65, 0.75, 0.84, 0.92, 1.05, 9.9)
#: Errors beyond these are drawn at the edge.
_LARGEST = 1.0


#: Link → the least that is drawn, its unit, its title.
_UNITS = {
    "missed": (1 << 20, 1 << 20, "back from swap (MiB)"),
    "missed-file": (1 << 20, 1 << 20, "file read again (MiB)"),
    "faults": (100, 1, "major faults"),
    "io": (0.01, 1, "I/O time (s)"),
}


def draw_validation(results: Results, proof: Evaluation, folder: Path) -> list[Path]:
    """Draw all that can be into the folder's ``figures/``; the files.

    Raises:
        ResultsError: the folder can't be written.
    """
    kinds = (predicted_measured, error_by_limit, interval_coverage, viability, chain)
    drawn = (figure for figures in kinds for figure in figures(results, proof))
    return naming.write_figures(drawn, folder)


def predicted_measured(results: Results, proof: Evaluation) -> Iterator[naming.NamedFigure]:
    """Seconds predicted against seconds measured: a row a split, a column a model."""
    splits, models = _drawn(proof)
    if not splits:
        return
    title = "Predicted and measured time, at limits and networks left out of the fit"
    figure = style.new_figure(title, _extent(proof), results, 1.2 + 2.5 * len(splits))
    every = figure.subplots(len(splits), len(models), sharex=True, sharey=True, squeeze=False)
    seconds = [s for a in proof.answers for s in (a.measured_s, a.predicted_s)]
    ends = min(seconds) / 1.3, max(seconds) * 1.3
    for top, foot, model in zip(every[0], every[-1], models, strict=True):
        top.set_title(model)
        foot.set_xlabel("measured")
    for row, split in zip(every, splits, strict=True):
        for axes, model in zip(row, models, strict=True):
            _scatter(axes, _of(proof, split, model), ends)
        row[0].set_ylabel(f"{_SPLITS[split]}\npredicted")
    drawn = {answer.curve.answer for answer in proof.answers}
    phases = [phase for phase in style.PHASE_TITLES if phase in drawn]
    keys = [_dot(style.PHASE_COLOURS.get(p, style.INK), style.PHASE_TITLES[p]) for p in phases]
    keys.append(Line2D([], [], color=style.MUTED, lw=0.8, ls=":", label="±25 %"))
    style.legend_beside(every[0][-1], handles=keys)
    yield naming.NamedFigure("validation-predicted", figure)


def error_by_limit(results: Results, proof: Evaluation) -> Iterator[naming.NamedFigure]:
    """Signed errors against the limit as a share of demand: medians, and where half of them lie."""
    splits, models = _drawn(proof)
    if not splits:
        return
    title = "Error of the predicted time by limit"
    figure = style.new_figure(title, "median and middle half of the errors", results, 3.9)
    for axes in _panels_by_limit(figure, proof, splits, models, _errors):
        axes.axhspan(-0.1, 0.1, color=style.MUTED, alpha=0.12, lw=0)
        axes.axhline(0, color=style.MUTED, lw=0.8)
        axes.set_ylim(-_LARGEST, _LARGEST)
    figure.axes[0].set_ylabel("error of predicted time")
    yield naming.NamedFigure("validation-error", figure)


def interval_coverage(results: Results, proof: Evaluation) -> Iterator[naming.NamedFigure]:
    """How many trials lie in the 90 % intervals, by limit."""
    splits, _ = _drawn(proof)
    models = list(dict.fromkeys(a.model for a in proof.answers if a.inside_interval))
    if not splits or not models:
        return
    title = f"Share of trials inside the {LEVEL:.0%} intervals"
    figure = style.new_figure(title, "grey band: 85 to 95 %", results, 3.6)
    for axes in _panels_by_limit(figure, proof, splits, models, _coverage):
        axes.axhspan(0.85, 0.95, color=style.MUTED, alpha=0.15, lw=0)
        axes.set_ylim(0, 1.03)
    figure.axes[0].set_ylabel("trials in the interval")
    yield naming.NamedFigure("validation-intervals", figure)


def _panels_by_limit(
    figure: Figure,
    proof: Evaluation,
    splits: Sequence[str],
    models: Sequence[str],
    summary: Callable[[Sequence[HeldOutPrediction]], list[float]],
) -> list[Axes]:
    """A panel per split, a line per model; ``summary``: of a bin the line, and its band if any."""
    row: list[Axes] = list(figure.subplots(1, len(splits), sharey=True, squeeze=False)[0])
    for axes, split in zip(row, splits, strict=True):
        for model in models:
            if bins := list(_bins(_of(proof, split, model))):
                places, looks = [place for place, _ in bins], style.model_looks(model)
                middle, *band = np.transpose([summary(answers) for _, answers in bins])
                axes.plot(places, middle, **looks, mec="white", mew=0.7)
                if band:
                    axes.fill_between(places, *band, color=looks["color"], alpha=0.12, lw=0)
        axes.set(title=_SPLITS[split], xlabel="limit, share of demand")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    style.legend_beside(
        row[-1], handles=[Line2D([], [], **style.model_looks(m), label=m) for m in models]
    )
    return row


def viability(results: Results, proof: Evaluation) -> Iterator[naming.NamedFigure]:
    """The least viable limit: seen as an interval, predicted as a dot; a row a workload."""
    edges = [(s, e) for s in ("network", "held-out") for e in proof.edges.get(s, ())]
    if not edges:
        return
    edges.sort(key=lambda pair: pair[1].viable_bytes)
    title = "Least viable limit, measured and predicted"
    subtitle = "predicted without the network's own trials below a limit"
    figure = style.new_figure(title, subtitle, results, 1.4 + 0.22 * len(edges))
    axes, names = figure.subplots(), []
    for place, (split, edge) in enumerate(edges):
        ends = [edge.killed_bytes / MIB, edge.viable_bytes / MIB]
        axes.plot(ends, [place, place], color=style.MUTED, lw=4, alpha=0.5, solid_capstyle="butt")
        mark = "D" if split == "held-out" else "o"
        axes.plot(edge.predicted_bytes / MIB, place, mark, color=style.INK, ms=5)
        swap = f"swap {edge.swap_bytes / MIB:.0f} MiB" if edge.swap_bytes else "no swap"
        names.append(f"{edge.network}, {swap}")
    axes.set_yticks(range(len(edges)), names)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("limit (MiB)")
    keys = [Line2D([], [], color=style.MUTED, lw=4, alpha=0.5, label="killed … finished")]
    keys.append(_dot(style.INK, "predicted"))
    if any(split == "held-out" for split, _ in edges):
        keys.append(_dot(style.INK, "of a held-out family", marker="D", ms=5))
    style.legend_beside(axes, handles=keys)
    yield naming.NamedFigure("validation-viability", figure)


def chain(results: Results, proof: Evaluation) -> Iterator[naming.NamedFigure]:
    """Each link of the physical model: predicted against counted."""
    names = [score.name for score in proof.link_scores]
    if not names:
        return
    title = "Each step of the simulation: predicted and measured"
    subtitle = "one dot per workload and limit; the line is equality"
    figure = style.new_figure(title, subtitle, results, 3.4)
    row = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(row, names, strict=True):
        floor, unit, words = _UNITS[name]
        for loader, phase in (("copy", "load"), ("mmap", "first")):
            colour = style.PHASE_COLOURS[phase]
            links = [one for one in proof.links if (one.name, one.loader) == (name, loader)]
            counted = [max(link.measured, floor) / unit for link in links]
            predicted = [max(link.predicted, floor) / unit for link in links]
            axes.plot(counted, predicted, "o", color=colour, ms=3.5, alpha=0.5, mew=0, label=loader)
        ends = floor / unit / 1.3, max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.set(xscale="log", yscale="log", xlabel="measured")
        axes.plot(ends, ends, color=style.MUTED, lw=0.8, zorder=1)
        axes.set_title(words, fontsize=9)
    row[0].set_ylabel("predicted")
    style.legend_beside(row[-1])
    yield naming.NamedFigure("validation-chain", figure)


def _drawn(proof: Evaluation) -> tuple[list[str], list[str]]:
    splits = [split for split in _SPLITS if any(a.split == split for a in proof.answers)]
    # A model that predicts no slowdown is not drawn.
    shown = (a.model for a in proof.answers if a.split in splits and a.model != "unslowed")
    return splits, list(dict.fromkeys(shown))


def _extent(proof: Evaluation) -> str:
    networks = {id(answer.curve): answer.curve.network for answer in proof.answers}
    words = f"{len(networks)} curves of {len(set(networks.values()))} networks"
    words += "; one dot per limit of a curve"
    return words + (f"; held out: {', '.join(proof.held_out)}" if proof.held_out else "")


def _of(proof: Evaluation, split: str, model: str) -> list[HeldOutPrediction]:
    return [a for a in proof.answers if a.split == split and a.model == model]


def _scatter(axes: Axes, answers: Sequence[HeldOutPrediction], ends: tuple[float, float]) -> None:
    line = np.array(ends)
    for factor, dashes in ((1.0, "-"), (0.75, ":"), (1.25, ":")) if answers else ():
        axes.plot(line, line * factor, color=style.MUTED, lw=0.8, ls=dashes, zorder=1)
    for one in answers:
        colour = style.PHASE_COLOURS.get(one.curve.answer, style.INK)
        axes.plot(one.measured_s, one.predicted_s, "o", color=colour, ms=2.6, alpha=0.5, mew=0)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=100 if ends[1] / ends[0] > 1e3 else 10))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: scales.short_seconds(value)))
    if not answers:
        words = "needs trials\nof the network"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", color=style.MUTED)


def _bins(answers: Sequence[HeldOutPrediction]) -> Iterator[tuple[float, list[HeldOutPrediction]]]:
    """Middle of each bin of limits, and the answers in it; of fewer than five nothing is drawn."""
    for low, high in itertools.pairwise(_SHARES):
        own = [a for a in answers if a.share is not None and low <= a.share < high]
        if len(own) >= 5:
            yield float(np.median([a.share for a in own if a.share is not None])), own


def _errors(answers: Sequence[HeldOutPrediction]) -> list[float]:
    """Median, and the ends of the middle half."""
    errors = np.quantile([answer.error for answer in answers], (0.5, 0.25, 0.75))
    return [float(error) for error in errors.clip(-_LARGEST, _LARGEST)]


def _coverage(answers: Sequence[HeldOutPrediction]) -> list[float]:
    hits = [hit for answer in answers for hit in answer.inside_interval]
    return [sum(hits) / len(hits) if hits else np.nan]


def _dot(colour: Any, name: str, marker: str = "o", ms: float = 4) -> Line2D:
    return Line2D([], [], color=colour, ls="", marker=marker, ms=ms, label=name)
