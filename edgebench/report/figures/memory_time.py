"""Figure of one trial's memory over time, with its phases, layers, limit and peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.measures.strategies.recorded import STATISTICS
from edgebench.report.figures import naming, style
from edgebench.report.figures.layers import workloads_by_slowdown
from edgebench.spans import Span, finished_spans
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

_HEIGHT_IN = 4.9
#: Column → colour and name. The last two are of a trial that read memory.stat below its limit.
_LINES = {
    "usage_bytes": ("#1b1b1b", "memory (sampled)"),
    "swap_bytes": ("#CC78BC", "swap (sampled)"),
    "anon_bytes": ("#029E73", "anonymous (memory.stat)"),
    "file_bytes": ("#DE8F05", "page cache (memory.stat)"),
}
#: More samples or spans than these, side by side, can't be seen on a page.
_MOST_SAMPLES, _MANY_SPANS = 1500, 150


@naming.figure_kind("memory-time", place=5)
def figures(results: Results, trial: str | None = None) -> Iterator[naming.NamedFigure]:
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
        yield naming.NamedFigure(stem, _draw(results, row, samples))
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


def _draw(results: Results, row: dict[str, Any], samples: pd.DataFrame) -> Figure:
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
    figure = style.new_figure(f"Memory of {what} over time", about, results, _HEIGHT_IN)
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
