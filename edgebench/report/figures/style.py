"""The style of all figures, and writing them: the same data gives the same bytes.

Only :func:`figure_style` changes matplotlib's state. Figures are made without pyplot,
which keeps whatever backend and style the caller has.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from edgebench.layers.names import ADMISSION, STREAM
from edgebench.report.figures.layout import DPI, lay_out
from edgebench.report.figures.palettes import COLOUR_BLIND, TICKS, light_to_dark
from edgebench.results.derived import write_derived
from edgebench.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

Colour = tuple[float, float, float]

WIDTH_IN = 9.6
FORMATS = ("png", "svg")
_HOW: dict[str, dict[str, Any]] = {
    # No larger than by the usual level, in less time.
    "png": {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}},
    "svg": {"metadata": {"Date": None, "Creator": None}},
}
INK, MUTED, FAINT = "#222222", "#6b6b6b", "#d9d9d9"
#: Room for the title and the footer, in inches.
_HEAD_IN, _FOOT_IN, _SIDE_IN = 0.62, 0.30, 0.12
PHASE_COLOURS: dict[str, Any] = {
    "import": "#9a9a9a",
    "init": "#c9c9c9",
    "load": COLOUR_BLIND[0],
    "first": COLOUR_BLIND[1],
    "execute": COLOUR_BLIND[2],
    "prefill": COLOUR_BLIND[1],
    "decode": COLOUR_BLIND[2],
    "data": COLOUR_BLIND[4],
    "forward": COLOUR_BLIND[0],
    "backward": COLOUR_BLIND[1],
    "step": COLOUR_BLIND[2],
    "graph": COLOUR_BLIND[3],
    "start": COLOUR_BLIND[3],
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
    "throughput": "throughput",
}
#: Schedules keep their colour and marker in every figure.
_SCHEDULES = ("linear", "bulk", "partial", "deepeye", "whole", "deepeye-frugal", ADMISSION, STREAM)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@contextmanager
def figure_style() -> Iterator[None]:
    """The project's style for what is drawn and written inside; the caller's returns after."""
    with mpl.rc_context():
        # Not by `rcdefaults`, which reads the files of all styles; the backend is the caller's.
        defaults = {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith("backend")}
        parameters: dict[Any, Any] = {**defaults, **TICKS, **_PARAMETERS}
        mpl.rcParams.update(parameters)
        yield


_PARAMETERS: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # Not above ticks, which are never there: to look for them takes long.
    "axes.labelsize": 9.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.title_fontsize": 8.5,
    "savefig.dpi": DPI,
    "svg.hashsalt": "edgebench",
}


#: Characters of a title times their size in points, as they fit the width.
_TITLE_ROOM = 950


def new_figure(title: str, subtitle: str, source: Results | str, height_in: float) -> Figure:
    """An empty figure with its title, what it shows, and the footer with its source.

    ``source`` is the results that it shows, or the footer's own words.
    """
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    room = (0.0, _FOOT_IN / height_in, 1.0, 1 - (_HEAD_IN + _FOOT_IN) / height_in)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=room, w_pad=0.08, h_pad=0.06)  # type: ignore[call-arg]
    left = _SIDE_IN / WIDTH_IN
    small = {"fontsize": min(9, 1100 / max(1, len(subtitle))), "color": MUTED}
    large = min(12.5, _TITLE_ROOM / max(1, len(title)))
    words: tuple[tuple[float, str, dict[str, Any]], ...] = (
        (1 - 0.12 / height_in, title, {"fontsize": large, "weight": "bold", "color": INK}),
        (1 - 0.36 / height_in, subtitle, small),
    )
    for y, text, looks in words:
        figure.text(left, y, text, ha="left", va="top", **looks)
    foot = source if isinstance(source, str) else footer(source)
    figure.text(left, 0.10 / height_in, foot, ha="left", va="bottom", fontsize=7, color=MUTED)
    return figure


def footer(results: Results) -> str:
    """Device, sweep, version and commit."""
    sweep = results.sweeps[0]
    words = [f"device {sweep.device}", f"sweep {sweep.name}", *version_words(sweep.environment)]
    return "  ·  ".join(words if sweep.complete is not None else [*words, "sweep not complete"])


def version_words(environment: Mapping[str, Any]) -> list[str]:
    """The version and commit that measured."""
    words = [f"edgebench {environment.get('edgebench') or __version__}"]
    git = environment.get("git") or {}
    if git.get("commit"):
        words.append(
            f"commit {str(git['commit'])[:10]}" + (" + changes" if git.get("changed") else "")
        )
    return words


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write the figure as PNG and SVG.

    Raises:
        ResultsError: the folder can't be written.
    """
    drawn = figure_bytes(figure)
    return [write_derived(folder, f"{stem}.{kind}", data) for kind, data in drawn.items()]


def figure_bytes(figure: Figure, formats: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """The figure's bytes in each of these formats, without dates or versions; rgba: its pixels."""
    drawn = {}
    lay_out(figure)
    for kind in formats:
        data = io.BytesIO()
        figure.savefig(data, format=kind, **_HOW.get(kind, {}))
        drawn[kind] = data.getvalue()
    return drawn


def limit_colours(count: int) -> list[Colour]:
    """From the widest limit (light) to the tightest (dark)."""
    return light_to_dark(count + 2)[1:-1]


UNLIMITED_COLOUR: Colour = COLOUR_BLIND[0]


def schedule_style(schedule: object, others: Sequence[object] = ()) -> tuple[Colour, str]:
    """A schedule's colour and marker; one that isn't known gets those of its place in others."""
    known = [*_SCHEDULES, *sorted({str(s) for s in others} - set(_SCHEDULES))]
    return series_style(known.index(str(schedule)) if str(schedule) in known else 0)


def series_style(number: int) -> tuple[Colour, str]:
    """Colour and marker of a figure's number'th line, where it has no look of its own."""
    return COLOUR_BLIND[number % len(COLOUR_BLIND)], _MARKERS[number % len(_MARKERS)]


def legend_beside(axes: Axes, **options: Any) -> None:
    """A legend right of the axes, where no data can be."""
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, alignment="left", **options
    )
