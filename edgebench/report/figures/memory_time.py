"""Figures of memory over time: of one trial, and by every strategy, layer by layer.

Each strategy has its own trial and its own pace. So the axis is not time but what was done: one
slot for each load and execution, the same for all; within a slot a line runs in its own time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from edgebench.analysis.reconciliation import Reconciliation, reconcile_sweep
from edgebench.errors import ResultsError
from edgebench.measures.strategies import strategy_of
from edgebench.measures.strategies.recorded import STATISTICS
from edgebench.report.figures import naming, style
from edgebench.report.figures.layers import workloads_by_slowdown
from edgebench.results.frames import SpanKey, TrialReadings
from edgebench.results.workload_key import settings_columns
from edgebench.spans import Span, finished_spans
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: Column → colour and name. The last two are of a trial that read memory.stat below its limit.
_LINES = {
    "usage_bytes": ("#1b1b1b", "memory (sampled)"),
    "swap_bytes": ("#CC78BC", "swap (sampled)"),
    "anon_bytes": ("#029E73", "anonymous (memory.stat)"),
    "file_bytes": ("#DE8F05", "page cache (memory.stat)"),
}
#: More samples or spans than these, side by side, can't be seen on a page.
_MOST_SAMPLES, _MANY_SPANS = 1500, 150
_PHASES = ("import", "init", "load", "first")
#: Nearer to each other than this share of the axis, names can't be read.
_NAME_ROOM = 1 / 52
#: How each strategy is drawn, in the order of the legend: what counts most comes first.
_LOOKS: dict[str, dict[str, Any]] = {
    "kernel": {"color": "#0B3C5D", "lw": 2.0},
    "sampled": {"color": "#56B4E9", "lw": 0.9},
    "process": {"color": "#E69F00", "lw": 1.8},
    "process-swap": {"color": "#E69F00", "lw": 1.0, "ls": "--"},
    "tcmalloc": {"color": "#117733", "lw": 1.2},
    "memray": {"color": "#44AA66", "lw": 1.2},
    "massif": {"color": "#88AA22", "lw": 1.2},
    "malloc": {"color": "#6b6b6b", "lw": 1.0, "ls": "--"},
    "analytic": {"color": "#882255", "lw": 1.2, "ls": ":"},
    "torch": {"color": "#AA4499", "lw": 1.4},
}


@naming.figure_kind("memory-time", place=5)
def trial_figures(results: Results, trial: str | None = None) -> Iterator[naming.NamedFigure]:
    """Draw for each workload the trial at the tightest viable limit and its unlimited one.

    Also each trial for statistics, which splits memory by kind. With ``trial`` that one alone.

    Raises:
        ResultsError: no such trial, or no trial has samples.
    """
    missing: list[ResultsError] = []
    chosen = _chosen(results, trial)
    for row in chosen:
        try:
            samples = results.samples(row["trial"])
        except ResultsError as error:
            missing.append(error)
            continue
        if row.get("strategy") == STATISTICS:
            samples = pd.concat([samples, results.stat(row["trial"])])
        workload = row.get("network", row.get("command", row["kind"]))
        words = (workload, row.get("schedule", ""), row["limit_label"], row["trial"])
        stem = naming.stem_of("memory-time", row, *words)
        yield naming.NamedFigure(stem, _draw_trial(results, row, samples))
    if missing and len(missing) == len(chosen):
        raise missing[0]


def _chosen(results: Results, trial: str | None) -> list[dict[str, Any]]:
    trials, statistics = results.trials, results.own_trials
    statistics = statistics[statistics["strategy"] == STATISTICS]
    rows: list[pd.Series[Any]] = []
    if trial is None:
        for workload in workloads_by_slowdown(results):
            # Samples are of a whole walk, in the name of its first limit.
            group = workload.trials[~(workload.trials["walk_step"] > 0)]
            done = group[group["outcome"] == "ok"]
            tightest = done[done["memory_bytes"] == done["memory_bytes"].min()]
            # Of repeats the trial of the middle time; where nothing finished, the widest limit.
            parts = (
                part.sort_values("wall_s") for part in (tightest, done[done["memory_bytes"].isna()])
            )
            middles = [part.iloc[len(part) // 2] for part in parts if len(part)]
            widest = group.sort_values(["memory_bytes", "trial"], ascending=[False, True])
            rows += middles or [row for _, row in widest[:1].iterrows()]
        rows += [row for _, row in statistics.iterrows()]
    else:
        named = [part[part["trial"] == trial] for part in (trials, statistics)]
        rows += [row for part in named for _, row in part.iterrows()]
        if not rows:
            known = f"{trials['trial'].min()} to {trials['trial'].max()}" if len(trials) else "none"
            raise ResultsError(f"no trial {trial!r}: there are {known}", where=str(results.path))
    return [{str(k): value for k, value in row.items() if not pd.isna(value)} for row in rows]


def _draw_trial(results: Results, row: dict[str, Any], samples: pd.DataFrame) -> Figure:
    try:
        events = results.events(row["trial"])
    except ResultsError:  # The workload writes none.
        events = []
    spans = [span for span in finished_spans(events) if span.phase in style.PHASE_COLOURS]
    layers = [span for span in spans if span.layer is not None]
    threads = sorted({span.thread or 0 for span in layers})
    limit = row.get("limit_bytes")
    size = "unlimited" if limit is None else f"limit {limit / MIB:.0f} MiB"
    ended = [] if row["outcome"] == "ok" else [f"outcome {row['outcome']}"]
    about = naming.subtitle(row, size, f"trial {row['trial']}", *ended)
    what = naming.title_of(row.get("network", row.get("command", "workload")))
    figure = style.new_figure(f"Memory of {what} over time", about, results, 4.9)
    start = int(min([samples["t_ns"].min(), *(span.start_ns for span in spans)]))
    windows = {"whole trial": (start, int(samples["t_ns"].max()))}
    if layers:
        # Importing may dwarf the rounds.
        begin, end = min(s.start_ns for s in layers), max(s.end_ns for s in layers)
        windows["rounds"] = (begin - (end - begin) // 50, end + (end - begin) // 50)
    grid = figure.subplots(
        *(2, len(windows)),
        sharex="col",
        sharey="row",
        squeeze=False,
        height_ratios=[1.0, 0.06 + 0.07 * max(len(threads), 1)],
        width_ratios=[1.0, 1.5][: len(windows)],
    )
    for (axes, strip), (name, window) in zip(grid.T, windows.items(), strict=True):
        _draw_samples(axes, samples, start, window)
        if limit is not None:
            axes.axhline(limit / MIB, color="#D55E00", lw=1.4, label="limit", zorder=1)
        if "peak_bytes" in row:
            label = f"peak ({row.get('peak_source', 'unknown')}'s)"
            looks: dict[str, Any] = {"color": "#0B3C5D", "lw": 2.2, "ls": ":", "zorder": 1.5}
            axes.axhline(row["peak_bytes"] / MIB, label=label, **looks)
        _draw_spans(axes, strip, layers or spans, threads, start)
        axes.set_title(name)
        strip.set(xlabel="time (s)", yticks=[], ylim=(-0.05, max(len(threads), 1) + 0.05))
        strip.set_xlim((window[0] - start) / 1e9, (window[1] - start) / 1e9)
        strip.grid(visible=False)
        strip.spines["left"].set_visible(False)
    grid[0][0].set_ylabel("memory (MiB)")
    grid[0][0].set_ylim(bottom=0)
    strip_label = "layers" if layers else "phases"
    grid[1][0].set_ylabel(strip_label, rotation=0, ha="right", va="center")
    style.legend_beside(*grid[0])
    return figure


def _draw_samples(axes: Axes, samples: pd.DataFrame, start: int, window: tuple[int, int]) -> None:
    """Draw each line, thinned so that each bin's highest sample stays."""
    begin, end = window
    samples = samples[samples["t_ns"].between(begin, end)]
    for column, (colour, name) in _LINES.items():
        known = samples[samples[column].notna()] if column in samples else samples[:0]
        if known.empty:
            continue
        # Equally long in time, unlike the samples: there are fewer while nothing changes.
        bins = (known["t_ns"] - begin) // max((end - begin) // _MOST_SAMPLES, 1)
        seconds = ((known["t_ns"] - start) / 1e9).groupby(bins).first()
        sizes = (known[column] / MIB).groupby(bins).max()
        axes.plot(seconds, sizes, color=colour, drawstyle="steps-post", lw=1.4, label=name)


def _draw_spans(
    axes: Axes, strip: Axes, spans: Sequence[Span], threads: Sequence[int], start: int
) -> None:
    """Shade phases behind the lines; draw each layer in the strip below, a lane a thread."""
    height = 0.9 * (1 if threads else max(len(threads), 1))
    for phase, colour in style.PHASE_COLOURS.items():
        own = [span for span in spans if span.phase == phase]
        if not own:
            continue
        shades = _joined(own, start, _MOST_SAMPLES)
        across = axes.get_xaxis_transform()
        axes.broken_barh(
            shades,
            (0, 1),
            color=colour,
            alpha=0.13,
            lw=0,
            transform=across,
            label=style.PHASE_TITLES[phase],
        )
        for lane, thread in enumerate(threads or [0]):
            boxes = [span for span in own if span.layer is None or (span.thread or 0) == thread]
            # Among many layers, edges would be all that is seen.
            edge, parts = (0.0, _MOST_SAMPLES) if len(spans) > _MANY_SPANS else (0.3, 10**9)
            places = _joined(boxes, start, parts)
            strip.broken_barh(places, (lane + 0.05, height), fc=colour, ec="white", lw=edge)


def _joined(spans: Sequence[Span], start: int, parts: int) -> list[tuple[float, float]]:
    """Return begin and length in seconds; spans nearer than such a part of all are joined."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    gap = (max(s.end_ns for s in spans) - ordered[0].start_ns) // parts if spans else 0
    joined: list[tuple[int, int]] = []
    for span in ordered:
        if joined and span.start_ns < joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span.end_ns))
        else:
            joined.append((span.start_ns, span.end_ns))
    return [((begin - start) / 1e9, (end - begin) / 1e9) for begin, end in joined]


class _Slot(NamedTuple):
    """One load or execution on the axis."""

    key: SpanKey
    name: str


@naming.figure_kind("reconciliation")
def strategy_figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each point that strategies measured.

    Raises:
        ResultsError: the points can't be read.
    """
    sweep = results.sweeps[0]
    for point in reconcile_sweep(sweep) if sweep.strategy_records else []:
        slots = _slots(point.chain.timed)
        if slots:
            known = {k: v for k, v in point.record.settings.items() if v is not None}
            settings, limit = settings_columns(known), point.record.limit_bytes
            size = "unlimited" if limit is None else f"{limit / MIB:.0f} MiB"
            words = (settings.get("network"), settings.get("schedule", ""), size)
            stem = naming.stem_of("reconciliation", settings, *words)
            what = naming.title_of(settings.get("network", "workload"))
            trial = f"trial {point.record.trial}"
            about = naming.subtitle(settings, size if limit is None else f"limit {size}", trial)
            title = f"Memory of {what} by every strategy"
            figure = style.new_figure(title, about, results, 6.2)
            _draw_strategies(figure.subplots(), point, slots)
            yield naming.NamedFigure(stem, figure)


def _slots(timed: TrialReadings) -> list[_Slot]:
    """Return import, build, and each layer's load, if it has weights, and first execution."""
    slots = []
    for key, span in timed.spans.items():
        table: Sequence[Mapping[str, Any]] = timed.seen.tables.get(key.network or "", ())
        known = key.layer is not None and key.layer < len(table)
        has_weights = not known or bool(table[key.layer or 0].get("file_bytes"))
        first = key.phase in _PHASES and key.round <= 0 and key.time == 0
        layered = key.layer is not None or key.phase in ("import", "init")
        if first and layered and (key.phase != "load" or has_weights):
            slots.append(_Slot(key, span.name or style.PHASE_TITLES[key.phase]))
    return slots if any(slot.key.layer is not None for slot in slots) else []


def _draw_strategies(axes: Axes, point: Reconciliation, slots: Sequence[_Slot]) -> None:
    record = point.record
    trials = (point.chain.timed, *point.chain.own.values())
    for name, look in _LOOKS.items():
        # The trial that shows the strategy: the timed one, else its own.
        having = (t for t in trials if name in t.readings and t.readings[name].spans)
        trial = next(having, None)
        # Resident and swapped is the resident set again where nothing was swapped.
        if trial is not None and (name != "process-swap" or record.swap_peak_bytes):
            _draw_strategy(axes, trial, name, look, slots)
    if size := record.gnu_time_maxrss_bytes:
        label = f"GNU time's maximum resident set: {size / MIB:.0f}"
        axes.axhline(size / MIB, color="#CC3311", lw=1.1, ls="--", label=label)
    if size := record.limit_bytes:
        label = f"limit: {size / MIB:.0f}"
        axes.axhline(size / MIB, color="#D55E00", lw=1.6, label=label)
    shown = set()
    for x, slot in enumerate(slots):
        phase = slot.key.phase
        label = "" if phase in shown else style.PHASE_TITLES[phase]
        colour = style.PHASE_COLOURS[phase]
        axes.axvspan(x, x + 1, color=colour, alpha=0.13, lw=0, zorder=0, label=label)
        shown.add(phase)
    axes.grid(visible=False, axis="x")
    axes.set(xlim=(0, len(slots)), ylabel="memory (MiB)")
    axes.set_ylim(bottom=0)
    _name_slots(axes, point.chain.timed, slots)
    style.legend_beside(axes, title="peaks of the whole trial in MiB")


def _draw_strategy(
    axes: Axes, trial: TrialReadings, name: str, look: dict[str, Any], slots: Sequence[_Slot]
) -> None:
    """Draw the strategy's line, or its steps from before to after; above them its peaks."""
    strategy, peak = strategy_of(name), trial.readings[name].peak_bytes
    title = strategy.title if strategy else name
    label = title if peak is None else f"{title}: {peak / MIB:.0f}"
    readings = [trial.span_reading(name, slot.key) for slot in slots]
    line = _line(trial, name, slots)
    if line is not None:
        # A reading holds until the next one.
        axes.plot(*line, **look, drawstyle="steps-post", label=label, zorder=3)
    else:
        ends = [(r.before_bytes, r.after_bytes) if r else (None, None) for r in readings]
        sizes = [np.nan if size is None else size / MIB for pair in ends for size in pair]
        places = [place for x in range(len(slots)) for place in (x, x + 1)]
        axes.plot(places, sizes, **look, label=label, zorder=3)
    for x, reading in enumerate(readings):
        if reading is not None and reading.peak_bytes is not None:
            foot, top = max(reading.before_bytes or 0, reading.after_bytes or 0), reading.peak_bytes
            if top - foot > MIB // 2:
                axes.hlines(top / MIB, x + 0.08, x + 0.92, color=look["color"], lw=look["lw"])
                axes.vlines(x + 0.5, foot / MIB, top / MIB, color=look["color"], lw=0.7)


def _line(trial: TrialReadings, name: str, slots: Sequence[_Slot]) -> tuple[Any, Any] | None:
    """Return the strategy's line over time, put on the axis of slots; None if it has none."""
    if name == "sampled":
        times, sizes = trial.seen.samples["t_ns"], trial.seen.samples["usage_bytes"]
    elif trial.readings[name].line:
        times, sizes = (np.array(column) for column in zip(*trial.readings[name].line, strict=True))
    else:
        return None
    spans = [trial.spans[slot.key] for slot in slots if slot.key in trial.spans]
    if len(spans) < len(slots):
        return None
    known = [span.start_ns for span in spans] + [spans[-1].end_ns]
    inside = (times >= known[0]) & (times <= known[-1])
    places = np.interp(times[inside], known, np.arange(len(known)))
    return places, np.asarray(sizes)[inside] / MIB


def _name_slots(axes: Axes, timed: TrialReadings, slots: Sequence[_Slot]) -> None:
    """Write layers' names under the axis: those that move memory most, as there is room."""
    spans = [timed.spans[slot.key] for slot in slots]
    rises = [
        max(span.peak_bytes or 0, span.usage_after_bytes or 0) - (span.usage_before_bytes or 0)
        for span in spans
    ]
    named: list[int] = []
    for x in sorted(range(len(slots)), key=lambda x: rises[x], reverse=True):
        if all(abs(x - other) >= _NAME_ROOM * len(slots) for other in named):
            named.append(x)
    places, names = [x + 0.5 for x in named], [slots[x].name for x in named]
    axes.set_xticks(places, names, rotation=90, fontsize=6.5)
    words = "loads and executions in order, not to scale"
    words += f" ({len(named)} of {len(slots)} named)" if len(named) < len(slots) else ""
    axes.set_xlabel(words, color=style.MUTED)
