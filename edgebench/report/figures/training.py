"""Figures of training: loss by step, and time and memory by batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.ticker import NullLocator

from edgebench.errors import ResultsError
from edgebench.report.figures import naming, scales, style
from edgebench.slowdown.curves import lost_limits, seconds_by_trial
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: With more batches than these, ticks stand at powers of two.
_MOST_TICKS = 9
PHASES = ("data", "forward", "backward", "step", "graph")
#: Settings that a figure over batch sizes has one of; the batch is its axis.
_BUT_BATCH = tuple(name for name in naming.SETTINGS if name != "batch")
#: Medians and the range of repeats.
MEDIANS: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 100), "marker": "o"}


@naming.figure_kind("training")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw loss by step, and cost by batch, as far as the sweep has them.

    Raises:
        ResultsError: nothing was trained here.
    """
    trials = results.trials[results.trials["kind"] == "training"]
    if trials.empty:
        raise ResultsError("no network was trained in this sweep", where=str(results.path))
    for settings, rows in naming.row_groups(results.steps, ("network", *naming.SETTINGS)):
        title = f"Training of {naming.title_of(settings['network'])}, step by step"
        words = "one line per trial; lines overlap where a limit changes no result"
        figure = style.new_figure(title, naming.subtitle(settings, words), results, 3.6)
        panels = figure.subplots(1, 2)
        limits = rows.sort_values("limit_bytes", ascending=False, na_position="first")
        names = {str(at): "unlimited" if at == "max" else at for at in limits["limit_label"]}
        colours = [style.UNLIMITED_COLOUR, *style.limit_colours(len(names) - 1)][-len(names) :]
        named = rows.assign(limit=rows["limit_label"].map(names), run=rows["sweep"] + rows["trial"])
        looks: dict[str, Any] = {"hue": "limit", "hue_order": [*names.values()], "palette": colours}
        looks |= {"units": "run", "estimator": None, "alpha": 0.8}
        for axes, column in zip(panels, ("loss", "accuracy"), strict=True):
            sns.lineplot(named, x="step", y=column, ax=axes, **looks)
        panels[1].set_ylabel("accuracy on the batch")
        style.legend_beside(*panels)
        stem = naming.stem_of("training-loss", settings, settings["network"])
        yield naming.NamedFigure(stem, figure)
    yield from _batch_figures(results, trials)


def _batch_figures(results: Results, trials: pd.DataFrame) -> Iterator[naming.NamedFigure]:
    """Draw time an image and memory of each network and limit with several batches."""
    times = seconds_by_trial(results)
    for settings, rows in naming.row_groups(trials, ("network", "limit_label", *_BUT_BATCH)):
        if rows["batch"].nunique() < 3:
            continue
        limit = naming.limit_name(settings["limit_label"], rows)
        title = f"Training {naming.title_of(settings['network'])} by batch size"
        figure = style.new_figure(title, naming.subtitle(settings, limit), results, 3.8)
        left, right = figure.subplots(1, 2)
        own = times[times["phase"].isin(PHASES)].merge(rows[["sweep", "trial"]])
        # The update is one for all parts of a batch.
        parts = own["accumulation"].where(own["phase"] != "step", 1.0)
        titles = {p: style.PHASE_TITLES[p] for p in PHASES if (own["phase"] == p).any()}
        own = own.assign(image_s=own["seconds"] * parts / own["batch"], of=own["phase"].map(titles))
        looks = {"hue": "of", "palette": {titles[p]: style.PHASE_COLOURS[p] for p in titles}}
        sns.lineplot(own, x="batch", y="image_s", ax=left, **looks, **MEDIANS)
        done = rows[rows["outcome"] == "ok"]
        peaks = done.assign(peak=done["peak_bytes"] / MIB)
        sns.lineplot(
            peaks, x="batch", y="peak", color=style.MUTED, ax=right, label="memory", **MEDIANS
        )
        scales.seconds_axis(left, "time per image")
        right.set_ylim(bottom=0)
        right.set_ylabel("kernel's peak, with base (MiB)")
        batch_axis((left, right), rows)
        style.legend_beside(left, right)
        stem = naming.stem_of("training-batch", settings, settings["network"], limit)
        yield naming.NamedFigure(stem, figure)


def batch_axis(panels: Sequence[Axes], trials: pd.DataFrame) -> None:
    """Make log₂ axes of batches, with crosses at those that did not finish."""
    batches = sorted(trials["batch"].unique())
    if len(batches) > _MOST_TICKS:
        batches = [2.0**n for n in range(17) if batches[0] <= 2**n <= batches[-1]]
    lost = lost_limits(trials.assign(limit_bytes=trials["batch"] * MIB, memory_bytes=0.0))
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [f"{batch:g}" for batch in batches])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("batch (images)")
        scales.draw_unfinished(axes, lost, style.INK)
