"""Figures of training: loss by step, and time and memory by batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import seconds_by_trial
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: With more batches than these, ticks stand at powers of two.
_MOST_TICKS = 9
PHASES = ("data", "forward", "backward", "step", "graph")
#: Settings that a figure over batch sizes has one of; the batch is its axis.
_BUT_BATCH = tuple(name for name in naming.SETTINGS if name != "batch")


@naming.figure_kind("training")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Loss by step, and cost by batch, as far as the sweep has them.

    Raises:
        ResultsError: nothing was trained here.
    """
    if not (results.trials["kind"] == "training").any():
        raise ResultsError("no network was trained in this sweep", where=str(results.path))
    yield from _losses(results)
    yield from _batches(results)


def _losses(results: Results) -> Iterator[naming.NamedFigure]:
    """One figure a workload: loss and accuracy step by step, a line a limit."""
    for settings, rows in naming.row_groups(results.steps, ("network", *naming.SETTINGS)):
        title = f"Training of {naming.title_of(settings['network'])}, step by step"
        words = naming.subtitle(
            settings, "one line per trial; lines overlap where a limit changes no result"
        )
        figure = style.new_figure(title, words, results, 3.6)
        left, right = figure.subplots(1, 2)
        limited = rows[rows["limit_label"] != "max"].sort_values("limit_bytes", ascending=False)
        labels = [*limited["limit_label"].unique(), "max"]
        colours = [*style.limit_colours(len(labels) - 1), style.UNLIMITED_COLOUR]
        for label, colour in zip(labels, colours, strict=True):
            for _, trial in rows[rows["limit_label"] == label].groupby(["sweep", "trial"]):
                left.plot(trial["step"], trial["loss"], color=colour, lw=1.2, alpha=0.8)
                right.plot(trial["step"], trial["accuracy"], color=colour, lw=1.2, alpha=0.8)
        left.set_ylabel("loss")
        right.set_ylabel("accuracy on the batch")
        for axes in (left, right):
            axes.set_xlabel("step")
        keys = [
            Line2D([], [], color=colour, label="unlimited" if label == "max" else label)
            for label, colour in zip(labels, colours, strict=True)
        ]
        style.legend_beside(right, handles=keys)
        yield naming.NamedFigure(
            naming.stem_of("training-loss", settings, settings["network"]), figure
        )


def _batches(results: Results) -> Iterator[naming.NamedFigure]:
    """One figure a network and limit with several batches: time an image, and memory."""
    trials = results.trials[results.trials["kind"] == "training"]
    times = seconds_by_trial(results)
    for settings, rows in naming.row_groups(trials, ("network", "limit_label", *_BUT_BATCH)):
        if rows["batch"].nunique() < 3:
            continue
        limit = naming.limit_name(settings["limit_label"], rows)
        title = f"Training {naming.title_of(settings['network'])} by batch size"
        figure = style.new_figure(title, naming.subtitle(settings, limit), results, 3.8)
        left, right = figure.subplots(1, 2)
        own = times.merge(rows[["sweep", "trial"]])
        _time_by_batch(left, own)
        _memory_by_batch(right, rows)
        _lost_by_batch((left, right), rows)
        looks = ((style.PHASE_COLOURS[p], style.PHASE_TITLES[p]) for p in _phases(own))
        keys = [Line2D([], [], color=colour, marker="o", label=name) for colour, name in looks]
        keys += scales.unfinished_keys(list(rows["outcome"].unique()))
        style.legend_beside(right, handles=keys)
        stem = naming.stem_of("training-batch", settings, settings["network"], limit)
        yield naming.NamedFigure(stem, figure)


def _time_by_batch(axes: Axes, times: pd.DataFrame) -> None:
    for phase in _phases(times):
        rows = times[times["phase"] == phase]
        # The update is one for all parts of a batch.
        parts = 1.0 if phase == "step" else rows["accumulation"]
        an_image = rows["seconds"] / (rows["batch"] / parts)
        colour = style.PHASE_COLOURS[phase]
        axes.plot(rows["batch"], an_image, "o", color=colour, ms=3.5, mew=0, alpha=0.4)
        middle = an_image.groupby(rows["batch"]).median()
        axes.plot(middle.index, middle, "o-", color=colour, ms=5, mec="white", mew=0.8)
    scales.seconds_axis(axes, "time per image", 1)


def _phases(times: pd.DataFrame) -> list[str]:
    return [phase for phase in PHASES if (times["phase"] == phase).any()]


def _memory_by_batch(axes: Axes, trials: pd.DataFrame) -> None:
    done = trials[trials["outcome"] == "ok"]
    axes.plot(
        done["batch"], done["peak_bytes"] / MIB, "o", color=style.MUTED, ms=3.5, mew=0, alpha=0.5
    )
    middle = done.groupby("batch")["peak_bytes"].median() / MIB
    axes.plot(middle.index, middle, "o-", color=style.UNLIMITED_COLOUR, ms=5, mec="white", mew=0.8)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.set_ylabel("kernel's peak, with base (MiB)")


def _lost_by_batch(panels: Sequence[Axes], trials: pd.DataFrame) -> None:
    lost = trials[trials["outcome"].isin(list(scales.UNFINISHED_MARKS))]
    at = {
        str(outcome): tuple(float(batch) * MIB for batch in rows["batch"].unique())
        for outcome, rows in lost.groupby("outcome")
    }
    batches = sorted(trials["batch"].unique())
    if len(batches) > _MOST_TICKS:
        batches = [float(2**n) for n in range(17) if batches[0] <= 2**n <= batches[-1]]
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(batches))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("batch (images)")
        scales.draw_unfinished(axes, at, style.MUTED)
