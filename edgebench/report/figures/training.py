"""Figures of training: loss by step, cost by batch; frameworks, parts, and inference beside it.

And of the random search of its settings: memory by each setting, and the settings' effects on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.ticker import NullFormatter, NullLocator

from edgebench.analysis.studies.hyperparameters import (
    GROUPS,
    OWN,
    SettingEffect,
    draw_frame,
    measures_of,
    search_axes,
    search_effects,
)
from edgebench.analysis.studies.training import (
    ACCELERATOR,
    FRAMEWORK_PHASES,
    FRAMEWORK_SHARED,
    HEAPS,
    SHARED,
    framework_frame,
    partial_frame,
    start_label,
    training_memory_frame,
)
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.results.derived import file_stem
from edgebench.slowdown.curves import lost_limits, seconds_by_trial
from edgebench.text import MIB, format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: With more batches than these, ticks stand at powers of two.
_MOST_TICKS = 9
#: Medians and the range of repeats.
_MEDIANS: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 100), "marker": "o"}
#: Column → its panel's label and its unit, in a figure of parts.
_PANELS = {
    "step_s": ("time per step (ms)", 1e-3),
    "own_bytes": ("memory above base (MiB)", MIB),
    "gradient_bytes": ("gradients (MiB)", MIB),
    "accuracy": ("test accuracy (%)", 0.01),
}
#: Column → its name, in a figure of memory.
_MEMORY = {
    "demand_bytes": "cgroup's demand",
    "above_bytes": "kernel's peak above base",
    **{f"{name}_bytes": f"heap ({name})" for name in HEAPS},
    ACCELERATOR: "accelerator's peak",
}


@naming.figure_kind("training")
def training_figures(results: Results) -> Iterator[naming.NamedFigure]:
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
    for settings, rows in naming.row_groups(trials, ("network", "limit_label", *naming.BUT_BATCH)):
        if rows["batch"].nunique() < 3:
            continue
        limit = naming.limit_name(settings["limit_label"], rows)
        title = f"Training {naming.title_of(settings['network'])} by batch size"
        figure = style.new_figure(title, naming.subtitle(settings, limit), results, 3.8)
        left, right = figure.subplots(1, 2)
        own = times[times["phase"].isin(FRAMEWORK_PHASES)].merge(rows[["sweep", "trial"]])
        # The update is one for all parts of a batch.
        parts = own["accumulation"].where(own["phase"] != "step", 1.0)
        titles = {p: style.PHASE_TITLES[p] for p in FRAMEWORK_PHASES if (own["phase"] == p).any()}
        own = own.assign(image_s=own["seconds"] * parts / own["batch"], of=own["phase"].map(titles))
        looks = {"hue": "of", "palette": {titles[p]: style.PHASE_COLOURS[p] for p in titles}}
        sns.lineplot(own, x="batch", y="image_s", ax=left, **looks, **_MEDIANS)
        done = rows[rows["outcome"] == "ok"]
        peaks = done.assign(peak=done["peak_bytes"] / MIB)
        sns.lineplot(
            peaks, x="batch", y="peak", color=style.MUTED, ax=right, label="memory", **_MEDIANS
        )
        style.seconds_axis(left, "time per image")
        right.set_ylim(bottom=0)
        right.set_ylabel("kernel's peak, with base (MiB)")
        _batch_axis((left, right), rows)
        style.legend_beside(left, right)
        stem = naming.stem_of("training-batch", settings, settings["network"], limit)
        yield naming.NamedFigure(stem, figure)


def _batch_axis(panels: Sequence[Axes], trials: pd.DataFrame) -> None:
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
        style.draw_unfinished(axes, lost, style.INK)


@naming.figure_kind("frameworks")
def framework_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each network, images' shape and limit.

    Raises:
        ResultsError: this sweep trained in one framework, or in none.
    """
    frame = framework_frame(results)
    names = sorted(frame["framework"].unique())
    but_batch = [name for name in FRAMEWORK_SHARED if name != "batch"]
    for settings, rows in naming.row_groups(frame, but_batch):
        if rows["peak_bytes"].isna().all():
            continue
        limit = "unlimited" if settings["limit_label"] == "max" else settings["limit_label"]
        network = settings["network"]
        title = f"Training {naming.title_of(network)} in {len(names)} frameworks"
        figure = style.new_figure(title, naming.subtitle(settings, limit), results, 3.8)
        memory, time, phases = figure.subplots(1, 3)
        looks: dict[str, Any] = {"hue": "framework", "hue_order": names, **_MEDIANS}
        looks |= {"palette": style.COLOURS[5 : 5 + len(names)]}
        peaks = rows.assign(peak=rows["peak_bytes"] / MIB)
        sns.lineplot(peaks, x="batch", y="peak", ax=memory, **looks)
        memory.set_ylim(bottom=0)
        memory.set_ylabel("kernel's peak (MiB)")
        sns.lineplot(rows, x="batch", y="whole_s", ax=time, **looks)
        style.seconds_axis(time, "time of a step per image")
        _batch_axis((memory, time), rows)
        _draw_phases(phases, rows)
        style.legend_beside(memory, time, phases)
        stem = naming.stem_of("frameworks", {}, network, settings["shape"], limit)
        yield naming.NamedFigure(stem, figure)


def _draw_phases(axes: Axes, rows: pd.DataFrame) -> None:
    """Stack a bar for each framework, at the largest batch that all of them finished."""
    done = rows[rows["whole_s"].notna()]
    counts = done.groupby("batch")["framework"].nunique()
    batch = counts[counts == counts.max()].index.max()
    columns = {f"{phase}_s": style.PHASE_TITLES[phase] for phase in FRAMEWORK_PHASES}
    medians = done[done["batch"] == batch].groupby("framework")[[*columns]].median() * 1000
    colours = [style.PHASE_COLOURS[phase] for phase in FRAMEWORK_PHASES]
    known = medians.rename(columns=columns).dropna(axis=1, how="all")
    known.index = known.index.str.replace(" ", "\n")
    known.plot.barh(stacked=True, ax=axes, color=colours, width=0.7, legend=False)
    axes.set(title=f"batch {batch:g}", ylabel="", xlabel="ms per image, by phase")


@naming.figure_kind("partial")
def partial_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each network, data set, start and limit.

    Raises:
        ResultsError: no parts were trained, or no trial of them finished.
    """
    frame = partial_frame(results)
    done = frame[frame["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the parts finished", where=str(results.path))
    for number, (values, rows) in enumerate(done.groupby(list(SHARED), dropna=False, sort=True)):
        shared = dict(zip(SHARED, tuple(values), strict=True))
        words = (
            f"{shared['data']}, batch {shared['batch']:g}, {start_label(shared['start'])}, "
            f"limit {shared['limit_label']}: bars are medians, lines the range of trials"
        )
        height = 1.4 + 0.36 * max(rows["trained"].nunique(), 4)
        title = f"Training a part of {shared['network']}"
        figure = style.new_figure(title, words, results, height)
        known = {name: panel for name, panel in _PANELS.items() if rows[name].notna().any()}
        panels = figure.subplots(1, len(known), sharey=True, squeeze=False)[0]
        looks: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 100)}
        looks |= {"color": style.COLOURS[0], "saturation": 1, "err_kws": {"linewidth": 1.2}}
        for axes, (name, (label, unit)) in zip(panels, known.items(), strict=True):
            sns.barplot(
                rows.assign(value=rows[name] / unit), x="value", y="trained", ax=axes, **looks
            )
            axes.set(xlabel=label, ylabel="")
        stem = file_stem("partial", shared["network"], shared["data"], number)
        yield naming.NamedFigure(stem, figure)


@naming.figure_kind("training-memory")
def memory_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw a panel for training and one for inference; networks and batches along them.

    Raises:
        ResultsError: no heap profiler ran on a training workload in this sweep.
    """
    frame = training_memory_frame(results)
    title = "Memory of training and of inference"
    words = "medians; base: the footprint of the runtime, part of every bar but 'above base'"
    figure = style.new_figure(title, words, results, 3.8)
    modes = [mode for mode in ("training", "inference") if (frame["mode"] == mode).any()]
    panels = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    measures = [name for name in _MEMORY if name in frame]
    named = frame.assign(
        workload=[
            f"{row.network}\nbatch {row.batch:g}\n{row.accelerator}".strip()
            for row in frame.itertuples()
        ]
    )
    long = named.melt(["workload", "mode"], measures, "measure", "bytes")
    long = long.assign(MiB=long["bytes"] / MIB, measure=long["measure"].map(_MEMORY))
    for axes, mode in zip(panels, modes, strict=True):
        rows = long[long["mode"] == mode]
        sns.barplot(rows, x="workload", y="MiB", hue="measure", errorbar=None, ax=axes)
        axes.set(title=mode, xlabel="")
        axes.tick_params(axis="x", labelsize="x-small")
    style.legend_beside(*panels)
    yield naming.NamedFigure("memory-training-inference", figure)


@naming.figure_kind("hyperparameters")
def search_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw memory against each setting, and the effects with their intervals.

    Raises:
        ResultsError: no random search, or none of its trials finished.
    """
    draws = draw_frame(results)
    done = draws[draws["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the search finished", where=str(results.path))
    memory = _draw_memory(results, done, search_axes(results.sweeps[0]))
    yield naming.NamedFigure("hyperparameters-memory", memory)
    try:
        effects = search_effects(results)
    except ResultsError:
        return  # So few draws that `edgebench show --study` says why there are no effects.
    yield naming.NamedFigure("hyperparameters-effects", _draw_effects(results, effects))


def _measure_title(measure: str) -> str:
    """Name ``own_bytes`` and ``system_5s_bytes``."""
    if measure == OWN:
        return "trial's own memory"
    every = measure.removeprefix("system_").removesuffix("_bytes")
    return f"system's memory, every {every[:-1]} s"


def _group_title(group: Mapping[Any, Any]) -> str:
    words = [str(value) for name, value in group.items() if name != "background_bytes"]
    if "background_bytes" in group:
        size = group["background_bytes"]
        words.append(f"background {format_size(size)}" if size else "no background")
    return ", ".join(words) or "all draws"


def _draw_memory(results: Results, done: pd.DataFrame, settings: Mapping[str, str]) -> Figure:
    measures = measures_of(done)
    title = "Memory by each drawn setting"
    words = "one mark per trial; top: the trial's own memory, below: the whole system's"
    figure = style.new_figure(title, words, results, 1.2 + 2.2 * len(measures))
    grid = figure.subplots(len(measures), len(settings), squeeze=False, sharex="col", sharey="row")
    names = [name for name in GROUPS if name in done and done[name].nunique() > 1]
    groups = (
        [_group_title(dict(row)) for _, row in done[names].iterrows()] if names else "one trial"
    )
    marked = done.assign(group=groups, **{m: done[m] / MIB for m in measures})
    for row, measure in zip(grid, measures, strict=True):
        row[0].set_ylabel(f"{_measure_title(measure)}\n(MiB)")
        for axes, (name, scale) in zip(row, settings.items(), strict=True):
            if scale == "log":
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
            looks = {"hue": "group", "style": "group", "alpha": 0.65, "ax": axes}
            sns.scatterplot(marked, x=name, y=measure, **looks)
            axes.set_ylabel(f"{_measure_title(measure)}\n(MiB)")
    style.legend_beside(*grid.flat)
    return figure


def _draw_effects(results: Results, effects: Sequence[SettingEffect]) -> Figure:
    """Draw each effect with its interval: a panel a group, a colour a measure."""
    groups = list(dict.fromkeys(tuple(effect.group.items()) for effect in effects))
    settings = list(dict.fromkeys(effect.setting for effect in effects))
    measures = list(dict.fromkeys(effect.measure for effect in effects))
    title = "Effect of each setting on memory"
    words = "standard deviations of memory per standard deviation of the setting; 95 % intervals"
    height = 1.4 + max(2.0, 0.27 * len(settings) * len(measures))
    figure = style.new_figure(title, words, results, height)
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True, sharex=True)[0]
    for axes, group in zip(panels, groups, strict=True):
        axes.axvline(0, color=style.MUTED, lw=1)
        for number, measure in enumerate(measures):
            shown = [e for e in effects if tuple(e.group.items()) == group and e.measure == measure]
            colour, marker = style.series_style(number)
            shift = 0.44 * (number + 0.5) / len(measures) - 0.22
            axes.errorbar(
                [effect.size for effect in shown],
                [settings.index(effect.setting) + shift for effect in shown],
                xerr=[[e.size - e.low for e in shown], [e.high - e.size for e in shown]],
                fmt=marker,
                color=colour,
                label=_measure_title(measure),
            )
        differing = {k: v for k, v in group if len({dict(g).get(k) for g in groups}) > 1}
        axes.set_title(_group_title(differing).replace(", ", "\n"), fontsize="small")
        axes.set_xlabel("effect")
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].invert_yaxis()
    style.legend_beside(*panels, title="memory")
    return figure
