"""Training: each phase's time and the loss, memory by category, and all of it over batch sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from edgebench.errors import ResultsError
from edgebench.figures.axes import MIB, draw_lost, lost_keys, seconds_axis
from edgebench.figures.naming import (
    SETTINGS,
    Drawn,
    groups,
    limit_name,
    stem_of,
    subtitle,
    title_of,
)
from edgebench.figures.style import (
    LOST_MARKS,
    MUTED,
    PHASE_COLOURS,
    PHASE_TITLES,
    UNLIMITED_COLOUR,
    legend_beside,
    limit_colours,
    new_figure,
)
from edgebench.measures.categories import NAMES, PEAK
from edgebench.slowdown.data import trial_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: With more batches than these, ticks stand at powers of two.
_MOST_TICKS = 9
PHASES = ("data", "forward", "backward", "step")
#: What memory is split by, in the order in which it is stacked.
_CATEGORY_COLOURS = dict(
    zip(
        NAMES,
        ("#c9c9c9", "#0173b2", "#56b4e9", "#029e73", "#ece133", "#de8f05", "#9a9a9a"),
        strict=True,
    )
)
#: Settings that a figure over batch sizes has one of; the batch is its axis.
_BUT_BATCH = tuple(name for name in SETTINGS if name != "batch")


def figures(results: Results) -> Iterator[Drawn]:
    """Loss by step, memory by category, and cost by batch, as far as the sweep has them.

    Raises:
        ResultsError: nothing was trained here.
    """
    if not (results.trials["kind"] == "training").any():
        raise ResultsError("no network was trained in this sweep", where=str(results.path))
    taken: set[str] = set()
    yield from _losses(results, taken)
    yield from _categories(results, taken)
    yield from _batches(results, taken)


def _losses(results: Results, taken: set[str]) -> Iterator[Drawn]:
    """One figure a workload: loss and accuracy step by step, a line a limit."""
    for settings, rows in groups(results.steps, ("network", *SETTINGS)):
        title = f"Training of {title_of(settings['network'])}, step by step"
        words = subtitle(settings, "one line a trial: under a limit they should lie on each other")
        figure = new_figure(title, words, results, 3.6)
        left, right = figure.subplots(1, 2)
        labels = [*_limits(rows), "max"]
        colours = [*limit_colours(len(labels) - 1), UNLIMITED_COLOUR]
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
        legend_beside(right, handles=keys)
        yield Drawn(stem_of("training-loss", settings, taken, settings["network"]), figure)


def _limits(rows: pd.DataFrame) -> list[str]:
    limited = rows[rows["limit_label"] != "max"].sort_values("limit_bytes", ascending=False)
    return [str(label) for label in limited["limit_label"].unique()]


def _categories(results: Results, taken: set[str]) -> Iterator[Drawn]:
    """One figure a network: what each phase held at its most, a bar a phase and batch."""
    frame = results.categories
    frame = frame[frame["limit_label"] == "max"]
    for settings, rows in groups(frame, ("network", *_BUT_BATCH)):
        batches = sorted(rows["batch"].unique())
        title = f"Memory by category: training {title_of(settings['network'])}"
        words = subtitle(settings, "what torch's allocator handed out, when a phase held most")
        figure = new_figure(title, words, results, 3.8)
        panels = figure.subplots(1, len(batches), sharey=True, squeeze=False)[0]
        for axes, batch in zip(panels, batches, strict=True):
            _stack(axes, rows[rows["batch"] == batch])
            axes.set_title(f"batch {batch:g}")
        panels[0].set_ylabel("MiB")
        legend_beside(panels[-1], reverse=True)
        yield Drawn(stem_of("training-memory", settings, taken, settings["network"]), figure)


def _stack(axes: Axes, rows: pd.DataFrame) -> None:
    phases = [phase for phase in (*PHASES, PEAK) if (rows["phase"] == phase).any()]
    held = rows.pivot_table(index="phase", columns="category", values="held_bytes").loc[phases]
    names = ["whole trial" if phase == PEAK else PHASE_TITLES[phase] for phase in phases]
    below = held["data"] * 0.0
    for category in NAMES:
        size = held[category] / MIB
        colour = _CATEGORY_COLOURS[category]
        axes.bar(names, size, bottom=below, color=colour, width=0.75, label=category)
        below = below + size
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", labelrotation=30)


def _batches(results: Results, taken: set[str]) -> Iterator[Drawn]:
    """One figure a network and limit with several batches: time an image, and memory."""
    trials = results.trials[results.trials["kind"] == "training"]
    times = trial_times(results)
    for settings, rows in groups(trials, ("network", "limit_label", *_BUT_BATCH)):
        if rows["batch"].nunique() < 3:
            continue
        limit = limit_name(settings["limit_label"], rows)
        title = f"Training {title_of(settings['network'])} by batch size"
        figure = new_figure(title, subtitle(settings, limit), results, 3.8)
        left, right = figure.subplots(1, 2)
        own = times.merge(rows[["sweep", "trial"]])
        _time_by_batch(left, own)
        _memory_by_batch(right, rows)
        _lost_by_batch((left, right), rows)
        legend_beside(right, handles=_batch_keys(own, rows))
        stem = stem_of("training-batch", settings, taken, settings["network"], limit)
        yield Drawn(stem, figure)


def _time_by_batch(axes: Axes, times: pd.DataFrame) -> None:
    for phase in _phases(times):
        rows = times[times["phase"] == phase]
        # The update is one for all parts of a batch.
        parts = 1.0 if phase == "step" else rows["accumulation"]
        an_image = rows["seconds"] / (rows["batch"] / parts)
        colour = PHASE_COLOURS[phase]
        axes.plot(rows["batch"], an_image, "o", color=colour, ms=3.5, mew=0, alpha=0.4)
        middle = an_image.groupby(rows["batch"]).median()
        axes.plot(middle.index, middle, "o-", color=colour, ms=5, mec="white", mew=0.8)
    seconds_axis(axes, "time per image", 1)


def _phases(times: pd.DataFrame) -> list[str]:
    return [phase for phase in PHASES if (times["phase"] == phase).any()]


def _memory_by_batch(axes: Axes, trials: pd.DataFrame) -> None:
    done = trials[trials["outcome"] == "ok"]
    axes.plot(done["batch"], done["peak_bytes"] / MIB, "o", color=MUTED, ms=3.5, mew=0, alpha=0.5)
    middle = done.groupby("batch")["peak_bytes"].median() / MIB
    axes.plot(middle.index, middle, "o-", color=UNLIMITED_COLOUR, ms=5, mec="white", mew=0.8)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.set_ylabel("kernel's peak (MiB), base included")


def _lost_by_batch(panels: Sequence[Axes], trials: pd.DataFrame) -> None:
    lost = trials[trials["outcome"].isin(list(LOST_MARKS))]
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
        draw_lost(axes, at, MUTED)


def _batch_keys(times: pd.DataFrame, trials: pd.DataFrame) -> list[Any]:
    keys: list[Any] = [
        Line2D([], [], color=PHASE_COLOURS[phase], marker="o", label=PHASE_TITLES[phase])
        for phase in _phases(times)
    ]
    return [*keys, *lost_keys(list(trials["outcome"].unique()))]
