"""The style and axes of all figures, and writing them: the same data gives the same bytes.

Only :func:`figure_style` changes matplotlib's state. Figures are made without pyplot, which keeps
the caller's figures, backend and style.
Figures share their axes: limits in MiB, slowdown, seconds, and marks at limits.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    EngFormatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from edgebench.answers.trials import end_word
from edgebench.layers.names import ADMISSION, STREAM
from edgebench.text import MIB
from edgebench.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from edgebench.results.results import Results

Colour = tuple[float, float, float]

WIDTH_IN = 9.6
_METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
INK, MUTED = "#222222", "#6b6b6b"
#: Colours that colour-blind people can tell apart.
COLOURS: list[Colour] = sns.color_palette("colorblind")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
UNLIMITED_COLOUR = COLOURS[0]
PHASE_COLOURS: dict[str, Any] = {
    "import": "#9a9a9a",
    "init": "#c9c9c9",
    "load": COLOURS[0],
    "first": COLOURS[1],
    "execute": COLOURS[2],
    "prefill": COLOURS[1],
    "decode": COLOURS[2],
    "data": COLOURS[4],
    "forward": COLOURS[0],
    "backward": COLOURS[1],
    "step": COLOURS[2],
    "graph": COLOURS[3],
    "start": COLOURS[3],
}
PHASE_TITLES = {
    "import": "import",
    "init": "build",
    "load": "loading",
    "first": "first execution",
    "execute": "warm execution",
    "prefill": "prefill",
    "decode": "a token",
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "step": "update",
    "graph": "forward, backward and update",
    "start": "start (first round)",
    "steady": "steady round",
    "total": "whole trial",
}
#: Schedules keep their colour and marker in every figure.
_SCHEDULES = ("linear", "bulk", "partial", "deepeye", "whole", "deepeye-frugal", ADMISSION, STREAM)
_PARAMETERS: dict[str, Any] = {
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "edgebench",
    # A $ in a name begins no formula.
    "text.parse_math": False,
}
#: The room above and below the axes, in inches.
_HEAD_IN, _FOOT_IN = 0.62, 0.30
#: How trials that did not finish are drawn.
UNFINISHED_MARKS = {"oom-killed": "x", "accelerator-oom": "2", "timeout": "+", "failed": "1"}
#: The height of a lane of such marks, as a share of the axes.
_LANE = 0.06
_MOST_TICKS = 6
SECONDS = EngFormatter(unit="s")


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the project's style to what is drawn and written inside; restore the caller's after."""
    with mpl.rc_context():
        # Not rcdefaults(), which also sets the backend.
        mpl.rcParams.update(
            {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith("backend")}
        )
        sns.set_theme("paper", "whitegrid", "colorblind", font="DejaVu Sans", rc=_PARAMETERS)
        yield


def new_figure(title: str, subtitle: str, source: Results | str, height_in: float) -> Figure:
    """Make an empty figure with its title, what it shows, and the footer.

    ``source`` is the results that it shows, or the footer's text.
    """
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="tight")
    # It keeps its renderer, which knows the size of each text.
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.0, _FOOT_IN / height_in, 1.0, 1 - _HEAD_IN / height_in))  # type: ignore[call-arg]
    left = 0.12 / WIDTH_IN
    # A long title or subtitle is written smaller, so that it fits the width.
    size = min(12.5, 950 / max(1, len(title)))
    place = left, 1 - 0.12 / height_in
    figure.text(*place, title, va="top", color=INK, weight="bold", fontsize=size)
    size = min(9, 1100 / max(1, len(subtitle)))
    figure.text(left, 1 - 0.36 / height_in, subtitle, va="top", color=MUTED, fontsize=size)
    foot = source if isinstance(source, str) else _footer(source)
    figure.text(left, 0.10 / height_in, foot, fontsize=7, color=MUTED)
    return figure


def _footer(results: Results) -> str:
    """Device, sweep, version and commit."""
    sweep = results.sweeps[0]
    environment: Mapping[str, Any] = sweep.environment
    words = [f"device {sweep.device}", f"sweep {sweep.name}"]
    words.append(f"edgebench {environment.get('edgebench') or __version__}")
    git = environment.get("git") or {}
    if git.get("commit"):
        changes = " + changes" if git.get("changed") else ""
        words.append(f"commit {str(git['commit'])[:10]}{changes}")
    return "  ·  ".join(words if sweep.complete is not None else [*words, "sweep not complete"])


def figure_bytes(figure: Figure) -> dict[str, bytes]:
    """Render the figure as PNG and SVG, without dates or versions."""
    drawn = {}
    if engine := figure.get_layout_engine():
        # Once for all formats; with an engine, each would be drawn twice.
        engine.execute(figure)
        figure.set_layout_engine(None)
    for kind, metadata in _METADATA.items():
        data = io.BytesIO()
        figure.savefig(data, format=kind, metadata=metadata)
        drawn[kind] = data.getvalue()
    return drawn


def limit_colours(count: int) -> list[Colour]:
    """Return colours from the widest limit (light) to the tightest (dark)."""
    colours: list[Colour] = sns.color_palette("rocket_r", count + 2)[1:-1]
    return colours


def schedule_style(schedule: object, others: Sequence[object] = ()) -> tuple[Colour, str]:
    """Return a schedule's colour and marker; an unknown one gets those of its place in others."""
    known = [*_SCHEDULES, *sorted({str(s) for s in others} - set(_SCHEDULES))]
    return series_style(known.index(str(schedule)) if str(schedule) in known else 0)


def series_style(number: int) -> tuple[Colour, str]:
    """Return colour and marker of a figure's number'th series."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]


def legend_beside(*panels: Axes, title: str = "") -> None:
    """Put one legend of all panels right of the last one, where no data can be."""
    drawn = [
        pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    handles = {label: handle for handle, label in reversed(drawn)}
    labels = list(dict.fromkeys(label for _, label in drawn))
    for axes in panels:
        if drawn_before := axes.get_legend():
            drawn_before.remove()
    panels[-1].legend(
        [handles[label] for label in labels],
        labels,
        title=title or None,
        loc="upper left",
        # Right of a second axis, where there is one.
        bbox_to_anchor=(1.17 if panels[-1].child_axes else 1.02, 1.0),
        borderaxespad=0.0,
        alignment="left",
    )


def limit_axis(axes: Axes, sizes_bytes: Sequence[float]) -> float:
    """Make a log₂ axis of limits, with a place for no limit right of the widest: in MiB."""
    low, high = min(sizes_bytes) / MIB, max(sizes_bytes) / MIB
    margin = max((high / low) ** 0.07, 1.03)
    unlimited: float = high * margin**2.2
    axes.set_xscale("log", base=2)
    axes.set_xlim(low / margin, unlimited * margin)
    ticks: list[float] = []
    parts = ((1,), (1, 1.5), (1, 1.25, 1.5, 1.75))
    for locator in (*(LogLocator(2, subs) for subs in parts), MaxNLocator(5)):
        ticks = [float(at) for at in locator.tick_values(low, high) if low <= at <= high]
        if len(ticks) > 3:
            break
    ticks = ticks[:: -ceil(len(ticks) / _MOST_TICKS)][::-1] or [low]
    axes.set_xticks([*ticks, unlimited], [*(f"{tick:g}" for tick in ticks), "max"])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(high * margin**1.25, color="#d9d9d9", linewidth=1, zorder=0.5)
    axes.set_xlabel("limit (MiB)")
    return unlimited


def log_ticks(axis: Axis, formatter: FuncFormatter | EngFormatter) -> None:
    """Put labelled ticks at round numbers of a log axis, however short it is."""
    low, high = axis.get_view_interval()
    decades = next((n for n, factor in enumerate((12, 60)) if high / low < factor), 2)
    parts = ((1, 1.2, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,))[decades]
    axis.set_major_locator(LogLocator(subs=parts, numticks=20))
    axis.set_major_formatter(formatter)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def slowdown_axis(axes: Axes, lowest: float, highest: float, lanes: int = 0) -> None:
    """Make a log axis of slowdown, ticks as 2x; room for marks above all data."""
    low, high = min(lowest, 1.0) * 0.93, max(highest, 1.6) * 1.15
    share = _LANE * lanes
    axes.set_yscale("log")
    axes.set_ylim(low, high * (high / low) ** (share / (1 - share)))
    log_ticks(axes.yaxis, FuncFormatter(lambda at, _: f"{at:g}x" if at <= high else ""))


def seconds_axis(axes: Axes, label: str) -> None:
    """Make a log axis of times, at least a factor of two long."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    widen = max((2 / (high / low)) ** 0.5, 1.0)
    axes.set_ylim(low / widen, high * widen)
    log_ticks(axes.yaxis, SECONDS)
    axes.set_ylabel(label)


def draw_demand(axes: Axes, demand_bytes: float, colour: Any = MUTED, label: str = "needs") -> None:
    """Draw what a workload needs as a vertical line."""
    axes.axvline(demand_bytes / MIB, color=colour, lw=1.1, ls=(0, (5, 3)), zorder=1, label=label)


def draw_unfinished(
    axes: Axes, lost: Mapping[str, Sequence[float]], colour: Any, lane: int = 0
) -> None:
    """Draw limits at which trials did not finish, each lane below the last, inside the axes."""
    for outcome, sizes in lost.items():
        axes.plot(
            [size / MIB for size in sizes],
            [1 - _LANE * (lane + 0.5)] * len(sizes),
            UNFINISHED_MARKS[outcome],
            color=colour,
            markersize=7,
            markeredgewidth=1.8,
            transform=axes.get_xaxis_transform(),
            zorder=5,
            label=end_word(outcome),
        )
