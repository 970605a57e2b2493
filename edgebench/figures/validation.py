"""How right the models are: predicted against measured, error by limit, intervals, viability."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from edgebench.figures.axes import MIB, short_seconds
from edgebench.figures.naming import Drawn
from edgebench.figures.style import (
    INK,
    MUTED,
    PHASE_COLOURS,
    PHASE_TITLES,
    applied,
    legend_beside,
    new_figure,
    rung_look,
    save,
)
from edgebench.slowdown.model import LEVEL
from edgebench.slowdown.proof import Proof
from edgebench.slowdown.scores import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

FOLDER = "figures"
#: The splits that are drawn, and how they are called.
_SPLITS = {
    "limit-inside": "one limit left out",
    "network": "one network left out",
    "held-out": "families held out",
}
#: Rungs that say "no slowdown" need no picture.
_UNDRAWN = ("unslowed",)
#: Bins of the limit as a share of demand, where errors and intervals are summed up.
_SHARES = (0.0, 0.55, 0.65, 0.75, 0.84, 0.92, 1.05, 9.9)
_LEAST_IN_BIN = 5
#: Errors beyond these are drawn at the edge.
_LARGEST = 1.0


def draw(results: Results, proof: Proof, folder: Path) -> list[Path]:
    """Draw all that can be into the folder's ``figures/``; the files.

    Raises:
        ResultsError: the folder can't be written.
    """
    paths = []
    with applied():
        for figures in _KINDS:
            for stem, figure in figures(results, proof):
                paths += save(figure, folder / FOLDER, stem)
    return paths


def predicted_measured(results: Results, proof: Proof) -> Iterator[Drawn]:
    """Seconds predicted against seconds measured: a row a split, a column a rung."""
    splits, rungs = _drawn(proof)
    if not splits:
        return
    title = "Predicted against measured time, at limits and networks not shown"
    figure = new_figure(title, _asked(proof), results, 1.2 + 2.5 * len(splits))
    every = figure.subplots(len(splits), len(rungs), sharex=True, sharey=True, squeeze=False)
    seconds = [s for a in proof.answers for s in (a.measured_s, a.predicted_s)]
    ends = min(seconds) / 1.3, max(seconds) * 1.3
    for axes, rung in zip(every[0], rungs, strict=True):
        axes.set_title(rung)
    for axes in every[-1]:
        axes.set_xlabel("measured")
    for row, split in zip(every, splits, strict=True):
        for axes, rung in zip(row, rungs, strict=True):
            _scatter(axes, _of(proof, split, rung), ends)
        row[0].set_ylabel(f"{_SPLITS[split]}\npredicted")
    phases = [p for p in PHASE_TITLES if any(a.curve.phase == p for a in proof.answers)]
    keys = [_dot(PHASE_COLOURS.get(phase, INK), PHASE_TITLES[phase]) for phase in phases]
    keys.append(Line2D([], [], color=MUTED, lw=0.8, ls=":", label="±25 %"))
    legend_beside(every[0][-1], handles=keys)
    yield Drawn("validation-predicted", figure)


def error_by_limit(results: Results, proof: Proof) -> Iterator[Drawn]:
    """Signed errors against the limit as a share of demand: medians, and where half of them lie."""
    splits, rungs = _drawn(proof)
    if not splits:
        return
    title = "Error of the predicted time against the limit"
    figure = new_figure(title, "median, and where half of the errors lie", results, 3.9)
    row = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    for axes, split in zip(row, splits, strict=True):
        axes.axhspan(-0.1, 0.1, color=MUTED, alpha=0.12, lw=0)
        axes.axhline(0, color=MUTED, lw=0.8)
        for rung in rungs:
            _error_line(axes, _of(proof, split, rung), rung)
        axes.set_title(_SPLITS[split])
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("limit, share of demand")
        axes.set_ylim(-_LARGEST, _LARGEST)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    row[0].set_ylabel("error of predicted time")
    legend_beside(row[-1], handles=[_line(rung) for rung in rungs])
    yield Drawn("validation-error", figure)


def interval_coverage(results: Results, proof: Proof) -> Iterator[Drawn]:
    """How many trials lie in the 90 % intervals, by limit."""
    splits, _ = _drawn(proof)
    telling = [a for a in proof.answers if a.inside_interval]
    rungs = list(dict.fromkeys(a.rung for a in telling))
    if not splits or not rungs:
        return
    title = f"Do {LEVEL:.0%} intervals hold {LEVEL:.0%} of the trials?"
    figure = new_figure(title, "the band is 85 to 95 %", results, 3.6)
    row = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    for axes, split in zip(row, splits, strict=True):
        axes.axhspan(0.85, 0.95, color=MUTED, alpha=0.15, lw=0)
        for rung in rungs:
            _coverage_line(axes, _of(proof, split, rung), rung)
        axes.set_title(_SPLITS[split])
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("limit, share of demand")
        axes.set_ylim(0, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    row[0].set_ylabel("trials in the interval")
    legend_beside(row[-1], handles=[_line(rung) for rung in rungs])
    yield Drawn("validation-intervals", figure)


def viability(results: Results, proof: Proof) -> Iterator[Drawn]:
    """The least viable limit: seen as an interval, predicted as a dot; a row a workload."""
    edges = [(s, e) for s in ("network", "held-out") for e in proof.edges.get(s, ())]
    if not edges:
        return
    edges.sort(key=lambda pair: pair[1].viable_bytes)
    title = "Least viable limit: between killed and finished, and as predicted"
    subtitle = "predicted without the network's own trials below a limit"
    figure = new_figure(title, subtitle, results, 1.4 + 0.22 * len(edges))
    axes = figure.subplots()
    for place, (split, edge) in enumerate(edges):
        ends = [edge.killed_bytes / MIB, edge.viable_bytes / MIB]
        axes.plot(ends, [place, place], color=MUTED, lw=4, alpha=0.5, solid_capstyle="butt")
        mark = "D" if split == "held-out" else "o"
        axes.plot(edge.predicted_bytes / MIB, place, mark, color=INK, ms=5)
    axes.set_yticks(range(len(edges)), [_edge_name(edge) for _, edge in edges])
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("limit (MiB)")
    keys = [Line2D([], [], color=MUTED, lw=4, alpha=0.5, label="killed … finished")]
    keys.append(_dot(INK, "predicted"))
    if any(split == "held-out" for split, _ in edges):
        keys.append(
            Line2D([], [], color=INK, ls="", marker="D", ms=5, label="of a held-out family")
        )
    legend_beside(axes, handles=keys)
    yield Drawn("validation-viability", figure)


def chain(results: Results, proof: Proof) -> Iterator[Drawn]:
    """Each link of the physical model: predicted against counted."""
    names = [score.name for score in proof.link_scores]
    if not names:
        return
    title = "Each link of the physical model alone: predicted against counted"
    figure = new_figure(title, "a dot a workload and limit; the line is equality", results, 3.4)
    row = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(row, names, strict=True):
        own = [link for link in proof.links if link.name == name]
        floor, unit, says = _UNITS[name]
        for loader, colour in (("copy", PHASE_COLOURS["load"]), ("mmap", PHASE_COLOURS["first"])):
            of = [link for link in own if link.loader == loader]
            counted = [max(link.measured, floor) / unit for link in of]
            told = [max(link.predicted, floor) / unit for link in of]
            axes.plot(counted, told, "o", color=colour, ms=3.5, alpha=0.5, mew=0, label=loader)
        ends = axes.get_xlim()[0], max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.set_xscale("log")
        axes.set_yscale("log")
        low = floor / unit / 1.3
        axes.plot([low, ends[1]], [low, ends[1]], color=MUTED, lw=0.8, zorder=1)
        axes.set_title(says, fontsize=9)
        axes.set_xlabel("counted")
    row[0].set_ylabel("predicted")
    legend_beside(row[-1])
    yield Drawn("validation-chain", figure)


_KINDS: tuple[Callable[[Any, Proof], Iterator[Drawn]], ...] = (
    predicted_measured,
    error_by_limit,
    interval_coverage,
    viability,
    chain,
)
#: Link → the least that is drawn, its unit, its title.
_UNITS = {
    "missed": (1 << 20, 1 << 20, "back from swap (MiB)"),
    "missed-file": (1 << 20, 1 << 20, "file read again (MiB)"),
    "faults": (100, 1, "major faults"),
    "io": (0.01, 1, "I/O time (s)"),
}


def _drawn(proof: Proof) -> tuple[list[str], list[str]]:
    splits = [split for split in _SPLITS if any(a.split == split for a in proof.answers)]
    shown = [a for a in proof.answers if a.split in splits and a.rung not in _UNDRAWN]
    return splits, list(dict.fromkeys(answer.rung for answer in shown))


def _asked(proof: Proof) -> str:
    curves = {id(answer.curve) for answer in proof.answers}
    networks = {answer.curve.network for answer in proof.answers}
    words = f"{len(curves)} curves of {len(networks)} networks; a dot a limit of a curve"
    return words + (f"; held out: {', '.join(proof.held_out)}" if proof.held_out else "")


def _of(proof: Proof, split: str, rung: str) -> list[Answer]:
    return [a for a in proof.answers if a.split == split and a.rung == rung]


def _scatter(axes: Axes, answers: Sequence[Answer], ends: tuple[float, float]) -> None:
    line = np.array(ends)
    axes.plot(line, line, color=MUTED, lw=0.8, zorder=1)
    for factor in (0.75, 1.25):
        axes.plot(line, line * factor, color=MUTED, lw=0.8, ls=":", zorder=1)
    for answer in answers:
        colour = PHASE_COLOURS.get(answer.curve.phase, INK)
        axes.plot(
            answer.measured_s, answer.predicted_s, "o", color=colour, ms=2.6, alpha=0.5, mew=0
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=100 if ends[1] / ends[0] > 1e3 else 10))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))
    if not answers:
        axes.text(
            0.5,
            0.5,
            "needs trials\nof the network",
            transform=axes.transAxes,
            ha="center",
            color=MUTED,
        )


def _bins(answers: Sequence[Answer]) -> Iterator[tuple[float, list[Answer]]]:
    """Middle of each bin of limits, and the answers in it; thin bins are left out."""
    for low, high in itertools.pairwise(_SHARES):
        own = [a for a in answers if a.share is not None and low <= a.share < high]
        if len(own) >= _LEAST_IN_BIN:
            yield float(np.median([a.share for a in own if a.share is not None])), own


def _error_line(axes: Axes, answers: Sequence[Answer], rung: str) -> None:
    bins = list(_bins(answers))
    if not bins:
        return
    places = [place for place, _ in bins]
    errors = [np.quantile([a.error for a in own], (0.25, 0.5, 0.75)) for _, own in bins]
    low, middle, high = np.clip(np.array(errors), -_LARGEST, _LARGEST).T
    colour, mark = rung_look(rung)
    axes.plot(places, middle, color=colour, marker=mark, ms=4.5, mec="white", mew=0.7, lw=1.5)
    axes.fill_between(places, low, high, color=colour, alpha=0.12, lw=0)


def _coverage_line(axes: Axes, answers: Sequence[Answer], rung: str) -> None:
    bins = list(_bins(answers))
    hits = [[hit for a in own for hit in a.inside_interval] for _, own in bins]
    shares = [sum(of) / len(of) if of else np.nan for of in hits]
    colour, mark = rung_look(rung)
    places = [place for place, _ in bins]
    axes.plot(places, shares, color=colour, marker=mark, ms=4.5, mec="white", mew=0.7, lw=1.5)


def _edge_name(edge: Any) -> str:
    swap = f"swap {edge.swap_bytes / MIB:.0f} MiB" if edge.swap_bytes else "no swap"
    return f"{edge.network}, {swap}"


def _dot(colour: Any, name: str) -> Line2D:
    return Line2D([], [], color=colour, ls="", marker="o", ms=4, label=name)


def _line(rung: str) -> Line2D:
    colour, mark = rung_look(rung)
    return Line2D([], [], color=colour, marker=mark, ms=4.5, lw=1.5, label=rung)
