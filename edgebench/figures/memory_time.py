"""Memory over one trial's time: what was sampled, phases and layers under it, limit and peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.collections import PatchCollection
from matplotlib.patches import Patch, Rectangle

from edgebench.errors import ResultsError
from edgebench.figures.naming import SETTINGS, Drawn, groups, stem_of, subtitle, title_of
from edgebench.figures.style import (
    PHASE_COLOURS,
    PHASE_TITLES,
    legend_beside,
    new_figure,
)
from edgebench.records.phases import Span, finished_spans

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 4.9
_MIB = 1 << 20
_USAGE, _SWAP = "#1b1b1b", "#CC78BC"
_LIMIT, _PEAK = "#D55E00", "#0B3C5D"
#: More samples than this can't be seen on a page.
_MOST_SAMPLES = 4000
_MANY_SPANS = 150


def figures(results: Results, trial: str | None = None) -> Iterator[Drawn]:
    """For each workload its unlimited trial and the one at the tightest viable limit.

    With ``trial`` that one alone.

    Raises:
        ResultsError: no such trial, or no trial has samples.
    """
    rows = _chosen(results, trial)
    taken: set[str] = set()
    missing: list[ResultsError] = []
    for row in rows:
        try:
            samples = results.samples(row["trial"])
        except ResultsError as error:
            missing.append(error)
            continue
        yield Drawn(_stem(row, taken), _draw(results, row, samples))
    if missing and not taken:
        raise missing[0]


def _chosen(results: Results, trial: str | None) -> list[dict[str, Any]]:
    trials = results.trials
    if trial is not None:
        named = trials[trials["trial"] == trial]
        if named.empty:
            known = f"{trials['trial'].min()} to {trials['trial'].max()}" if len(trials) else "none"
            raise ResultsError(f"no trial {trial!r}: there are {known}", where=str(results.path))
        return [_plain(row) for _, row in named.iterrows()]
    chosen = []
    for _, rows in groups(trials, ("network", "schedule", *SETTINGS)):
        chosen += [_plain(row) for row in _unlimited_and_tightest(rows)]
    return chosen


def _unlimited_and_tightest(rows: pd.DataFrame) -> list[pd.Series[Any]]:
    """The trials of the middle time; where nothing finished, the first at the widest limit."""
    done = rows[rows["outcome"] == "ok"]
    if done.empty:
        return [rows.sort_values(["memory_bytes", "trial"], ascending=[False, True]).iloc[0]]
    unlimited = done[done["memory_bytes"].isna()]
    tightest = done[done["memory_bytes"] == done["memory_bytes"].min()]
    middles = (part.sort_values("wall_s") for part in (unlimited, tightest) if len(part))
    return [part.iloc[len(part) // 2] for part in middles]


def _plain(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items() if not pd.isna(value)}


def _stem(row: dict[str, Any], taken: set[str]) -> str:
    workload = row.get("network", row.get("command", row["kind"]))
    words = (workload, row.get("schedule", ""), row["limit_label"])
    return stem_of("memory-time", row, taken, *words, row["trial"])


def _draw(results: Results, row: dict[str, Any], samples: pd.DataFrame) -> Any:
    spans = _spans(results, row["trial"])
    lanes = _lanes(spans)
    what = title_of(row.get("network", row.get("command", "workload")))
    limit = row.get("limit_bytes")
    size = "unlimited" if limit is None else f"limit {limit / _MIB:.0f} MiB"
    about = subtitle(row, size, f"trial {row['trial']}", f"outcome {row['outcome']}")
    figure = new_figure(f"Memory of {what} over time", about, results, _HEIGHT_IN)
    windows = _windows(samples, spans)
    columns = len(windows)
    grid = figure.subplots(
        *(2, columns),
        sharex="col",
        sharey="row",
        squeeze=False,
        height_ratios=[1.0, 0.06 + 0.07 * max(lanes, 1)],
        width_ratios=[1.0, 1.5][:columns],
    )
    start = _start_ns(samples, spans)
    for (axes, strip), (name, begin, end) in zip(grid.T, windows, strict=True):
        _lines(axes, samples, start, begin, end)
        _marks(axes, row)
        _phases(axes, strip, spans, start, lanes)
        axes.set_title(name)
        strip.set_xlabel("time (s)")
        strip.set_xlim((begin - start) / 1e9, (end - start) / 1e9)
    highest = max(_highest(axes) for axes in grid[0])
    grid[0][0].set(ylabel="memory (MiB)", ylim=(0, 1.08 * highest))
    grid[1][0].set_ylabel("layers" if lanes else "phases", rotation=0, ha="right", va="center")
    legend_beside(grid[0][-1], handles=_keys(grid[0][0], spans))
    return figure


def _windows(samples: pd.DataFrame, spans: Sequence[Span]) -> list[tuple[str, int, int]]:
    """The whole trial; beside it the rounds, which importing may dwarf. Name, start and end."""
    whole = ("whole trial", _start_ns(samples, spans), int(samples["t_ns"].max()))
    layers = [span for span in spans if span.layer is not None]
    if not layers:
        return [whole]
    begin, end = min(s.start_ns for s in layers), max(s.end_ns for s in layers)
    margin = (end - begin) // 50
    return [whole, ("rounds", begin - margin, end + margin)]


def _spans(results: Results, trial: str) -> list[Span]:
    """The worker's spans, none where the workload writes no events."""
    try:
        events = results.events(trial)
    except ResultsError:
        return []
    return [span for span in finished_spans(events) if span.phase in PHASE_COLOURS]


def _lanes(spans: Sequence[Span]) -> int:
    return len({span.thread for span in spans if span.layer is not None})


def _start_ns(samples: pd.DataFrame, spans: Sequence[Span]) -> int:
    return int(min([samples["t_ns"].min(), *(span.start_ns for span in spans)]))


def _lines(axes: Axes, samples: pd.DataFrame, start: int, begin: int, end: int) -> None:
    """Usage and swap, thinned so that each bin's highest sample stays."""
    samples = samples[samples["t_ns"].between(begin, end)].reset_index(drop=True)
    seconds = (samples["t_ns"] - start) / 1e9
    every = max(len(samples) // _MOST_SAMPLES, 1)
    bins = np.arange(len(samples)) // every
    for column, colour, name in (
        ("usage_bytes", _USAGE, "memory (sampled)"),
        ("swap_bytes", _SWAP, "swap (sampled)"),
    ):
        if samples[column].notna().any():
            thin = (samples[column] / _MIB).groupby(bins).max()
            axes.plot(seconds.groupby(bins).mean(), thin, color=colour, lw=1.4, label=name)


def _marks(axes: Axes, row: dict[str, Any]) -> None:
    """The limit and the peak, whose peak it is in the legend."""
    if "limit_bytes" in row:
        axes.axhline(row["limit_bytes"] / _MIB, color=_LIMIT, lw=1.4, label="limit", zorder=1)
    if "peak_bytes" in row:
        whose = f"peak ({row.get('peak_source', 'unknown')}'s)"
        axes.axhline(
            row["peak_bytes"] / _MIB, color=_PEAK, lw=2.2, ls=(0, (1, 2)), label=whose, zorder=1.5
        )


def _highest(axes: Axes) -> float:
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()]
    return max((float(np.nanmax(line)) for line in lines if len(line)), default=1.0)


def _phases(axes: Axes, strip: Axes, spans: Sequence[Span], start: int, lanes: int) -> None:
    """Phases shaded behind the lines; in the strip below each layer, a lane a thread."""
    strip.set_ylim(-0.05, max(lanes, 1) + 0.05)
    strip.set_yticks([])
    strip.grid(visible=False)
    strip.spines["left"].set_visible(False)
    # Among many layers, edges would be all one sees.
    edge = 0.3 if len(spans) < _MANY_SPANS else 0.0
    threads = sorted({span.thread or 0 for span in spans if span.layer is not None})
    for phase in PHASE_COLOURS:
        own = [span for span in spans if span.phase == phase]
        layers = [span for span in own if span.layer is not None]
        _shade(axes, layers or own, phase, start)
        boxes = [_box(span, start, threads) for span in (layers or own)]
        strip.add_collection(
            PatchCollection(boxes, facecolor=PHASE_COLOURS[phase], edgecolor="white", lw=edge)
        )


def _shade(axes: Axes, spans: Sequence[Span], phase: str, start: int) -> None:
    for begin, end in _merged(spans):
        axes.axvspan(
            (begin - start) / 1e9, (end - start) / 1e9, color=PHASE_COLOURS[phase], alpha=0.13, lw=0
        )


def _merged(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Spans that touch or overlap, as one."""
    merged: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda span: span.start_ns):
        if merged and span.start_ns <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end_ns))
        else:
            merged.append((span.start_ns, span.end_ns))
    return merged


def _box(span: Span, start: int, threads: Sequence[int]) -> Rectangle:
    lane = threads.index(span.thread or 0) if span.layer is not None else 0
    height = 0.9 if span.layer is not None or not threads else 0.9 * len(threads)
    begin, seconds = (span.start_ns - start) / 1e9, span.wall_s
    return Rectangle((begin, lane + 0.05), seconds, height)


def _keys(axes: Axes, spans: Sequence[Span]) -> list[Artist]:
    lines: list[Artist] = list(axes.get_lines())
    seen = {span.phase for span in spans}
    phases = [
        Patch(facecolor=PHASE_COLOURS[phase], lw=0, label=PHASE_TITLES[phase])
        for phase in PHASE_COLOURS
        if phase in seen
    ]
    return [*lines, *phases]
