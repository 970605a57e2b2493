"""Figure of one trial's memory over time, with its phases, layers, limit and peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from edgebench.errors import ResultsError
from edgebench.measures.strategies.cgroup import STATISTICS
from edgebench.report.figures import naming, scales, style
from edgebench.spans import Span, finished_spans
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.results.results import Results
    from edgebench.spans import Span

_HEIGHT_IN = 4.9
_USAGE, _SWAP = "#1b1b1b", "#CC78BC"
_LIMIT, _PEAK = "#D55E00", "#0B3C5D"
#: Column, colour, name.
_Columns = Sequence[tuple[str, str, str]]
_SAMPLED: _Columns = (
    ("usage_bytes", _USAGE, "memory (sampled)"),
    ("swap_bytes", _SWAP, "swap (sampled)"),
)
#: Of a trial whose memory.stat was read under its limit.
_KINDS: _Columns = (
    ("anon_bytes", "#029E73", "anonymous (memory.stat)"),
    ("file_bytes", "#DE8F05", "page cache (memory.stat)"),
)
#: More samples than this can't be seen on a page.
_MOST_SAMPLES = 1500
_MANY_SPANS = 150


@naming.figure_kind("memory-time", place=6)
def figures(results: Results, trial: str | None = None) -> Iterator[naming.NamedFigure]:
    """For each workload its unlimited trial and the one at the tightest viable limit.

    Also each trial for statistics, which splits memory by kind. With ``trial`` that one alone.

    Raises:
        ResultsError: no such trial, or no trial has samples.
    """
    missing: list[ResultsError] = []
    rows = _chosen(results, trial)
    for row in rows:
        try:
            samples = results.samples(row["trial"])
        except ResultsError as error:
            missing.append(error)
            continue
        kinds = results.stat(row["trial"]) if row.get("strategy") == STATISTICS else None
        workload = row.get("network", row.get("command", row["kind"]))
        words = (workload, row.get("schedule", ""), row["limit_label"], row["trial"])
        stem = naming.stem_of("memory-time", row, *words)
        yield naming.NamedFigure(stem, _draw(results, row, samples, kinds))
    if missing and len(missing) == len(rows):
        raise missing[0]


def _chosen(results: Results, trial: str | None) -> list[dict[str, Any]]:
    trials, looked_into = results.trials, results.own_trials
    looked_into = looked_into[looked_into["strategy"] == STATISTICS]
    if trial is not None:
        named = pd.concat([one[one["trial"] == trial] for one in (trials, looked_into)])
        if named.empty:
            known = f"{trials['trial'].min()} to {trials['trial'].max()}" if len(trials) else "none"
            raise ResultsError(f"no trial {trial!r}: there are {known}", where=str(results.path))
        return [_plain(row) for _, row in named.iterrows()]
    chosen = []
    # Samples are of a whole walk, in the name of its first limit.
    processes = trials[~(trials["walk_step"] > 0)]
    for _, rows in naming.row_groups(processes, ("network", "schedule", *naming.SETTINGS)):
        chosen += [_plain(row) for row in _unlimited_and_tightest(rows)]
    return chosen + [_plain(row) for _, row in looked_into.iterrows()]


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


def _draw(
    results: Results, row: dict[str, Any], samples: pd.DataFrame, kinds: pd.DataFrame | None
) -> Any:
    spans = _spans(results, row["trial"])
    lanes = len({span.thread for span in spans if span.layer is not None})
    what = naming.title_of(row.get("network", row.get("command", "workload")))
    limit = row.get("limit_bytes")
    size = "unlimited" if limit is None else f"limit {limit / MIB:.0f} MiB"
    ended = [] if row["outcome"] == "ok" else [f"outcome {row['outcome']}"]
    about = naming.subtitle(row, size, f"trial {row['trial']}", *ended)
    figure = style.new_figure(f"Memory of {what} over time", about, results, _HEIGHT_IN)
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
        _lines(axes, samples, _SAMPLED, start, begin, end)
        if kinds is not None:
            _lines(axes, kinds, _KINDS, start, begin, end)
        _marks(axes, row)
        _phases(axes, strip, spans, start, (begin, end))
        axes.set_title(name)
        strip.set_xlabel("time (s)")
        strip.set_xlim((begin - start) / 1e9, (end - start) / 1e9)
    highest = max(_highest(axes) for axes in grid[0])
    grid[0][0].set(ylabel="memory (MiB)", ylim=(0, 1.08 * highest))
    grid[1][0].set_ylabel("layers" if lanes else "phases", rotation=0, ha="right", va="center")
    style.legend_beside(grid[0][-1], handles=_keys(grid[0][0], spans))
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
    return [span for span in finished_spans(events) if span.phase in style.PHASE_COLOURS]


def _start_ns(samples: pd.DataFrame, spans: Sequence[Span]) -> int:
    return int(min([samples["t_ns"].min(), *(span.start_ns for span in spans)]))


def _lines(
    axes: Axes, samples: pd.DataFrame, which: _Columns, start: int, begin: int, end: int
) -> None:
    """These columns, thinned so that each bin's highest sample stays; each holds until the next.

    Bins are equally long in time, for samples aren't: there are fewer while nothing changes.
    """
    samples = samples[samples["t_ns"].between(begin, end)].reset_index(drop=True)
    seconds = (samples["t_ns"] - start) / 1e9
    bins = (samples["t_ns"] - begin) // max((end - begin) // _MOST_SAMPLES, 1)
    firsts = seconds.groupby(bins).first()
    for column, colour, name in which:
        if column in samples and samples[column].notna().any():
            thin = (samples[column] / MIB).groupby(bins).max()
            axes.plot(*(firsts, thin), color=colour, drawstyle="steps-post", lw=1.4, label=name)


def _marks(axes: Axes, row: dict[str, Any]) -> None:
    """The limit and the peak, whose peak it is in the legend."""
    if "limit_bytes" in row:
        axes.axhline(row["limit_bytes"] / MIB, color=_LIMIT, lw=1.4, label="limit", zorder=1)
    if "peak_bytes" in row:
        whose = f"peak ({row.get('peak_source', 'unknown')}'s)"
        axes.axhline(
            row["peak_bytes"] / MIB, color=_PEAK, lw=2.2, ls=(0, (1, 2)), label=whose, zorder=1.5
        )


def _highest(axes: Axes) -> float:
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()]
    return max((float(np.nanmax(line)) for line in lines if len(line)), default=1.0)


def _phases(
    axes: Axes, strip: Axes, spans: Sequence[Span], start: int, window: tuple[int, int]
) -> None:
    """Phases shaded behind the lines; in the strip below each layer, a lane a thread."""
    threads = sorted({span.thread or 0 for span in spans if span.layer is not None})
    strip.set_ylim(-0.05, max(len(threads), 1) + 0.05)
    strip.set_yticks([])
    strip.grid(visible=False)
    strip.spines["left"].set_visible(False)
    # Among many layers, edges would be all one sees.
    edge = 0.3 if len(spans) < _MANY_SPANS else 0.0
    for phase in style.PHASE_COLOURS:
        own = [span for span in spans if span.phase == phase]
        if not own:
            continue
        layers = [span for span in own if span.layer is not None]
        colour = style.PHASE_COLOURS[phase]
        shades = merged_spans(layers or own, start)
        looks = {"color": colour, "alpha": 0.13, "lw": 0, "transform": axes.get_xaxis_transform()}
        axes.add_collection(scales.rectangles(shades, **looks), autolim=False)
        if boxes := span_boxes(layers or own, start, threads, window):
            strip.add_collection(scales.rectangles(boxes, fc=colour, ec="white", lw=edge))


def _keys(axes: Axes, spans: Sequence[Span]) -> list[Artist]:
    lines: list[Artist] = list(axes.get_lines())
    seen = {span.phase for span in spans}
    phases = [
        Patch(facecolor=style.PHASE_COLOURS[phase], lw=0, label=style.PHASE_TITLES[phase])
        for phase in style.PHASE_COLOURS
        if phase in seen
    ]
    return [*lines, *phases]


#: More than this, side by side, can't be seen on a page.
_MOST = 2000


def merged_spans(spans: Sequence[Span], start: int) -> list[tuple[float, float, float, float]]:
    """Left, low, right and high of shades as high as the axes.

    Spans closer to one another than a figure can show are one.
    """
    merged: list[tuple[int, int]] = []
    ordered = sorted(spans, key=lambda span: span.start_ns)
    gap = (max(s.end_ns for s in spans) - ordered[0].start_ns) // _MOST if spans else 0
    for span in ordered:
        if merged and span.start_ns <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end_ns))
        else:
            merged.append((span.start_ns, span.end_ns))
    return [((begin - start) / 1e9, 0.0, (end - start) / 1e9, 1.0) for begin, end in merged]


def span_boxes(
    spans: Sequence[Span], start: int, threads: Sequence[int], window: tuple[int, int]
) -> list[tuple[float, float, float, float]]:
    """Left, low, right and high of boxes in the strip: layers in their thread's lane.

    What together is too narrow to be seen is one.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        lane = found.setdefault(0 if span.layer is None else threads.index(span.thread or 0), [])
        if lane and span.end_ns - lane[-1][0] < (window[1] - window[0]) // _MOST:
            lane[-1] = lane[-1][0], max(lane[-1][1], span.end_ns)
        elif span.start_ns < window[1] and span.end_ns > window[0]:
            lane.append((span.start_ns, span.end_ns))
    height = 0.9 * (1 if spans[0].layer is not None else max(len(threads), 1))
    return [
        ((begin - start) / 1e9, lane + 0.05, (end - start) / 1e9, lane + 0.05 + height)
        for lane, joined in found.items()
        for begin, end in joined
    ]
