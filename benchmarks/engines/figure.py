"""The figure of the comparison: what each engine needs, and how much slower it is at each limit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import seaborn as sns
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from edgebench.report.figures import style
from edgebench.units import parse_size
from edgebench.workloads.engines.registry import all_engines

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
_MIB = 2**20
#: What is drawn as a bar, from the lowest up.
_SIZES = {
    "base_bytes": "import's base",
    "demand_bytes": "demand",
    "least_limit_bytes": "least limit",
}
_SHADES = ("#c9c9c9", "#8c8c8c", "#404040")
_PANEL_IN = 2.9


def draw(rows: Sequence[Mapping[str, Any]], limits: Sequence[str], footer: str) -> bytes:
    """A line of panels for each network, as PNG."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    subtitle = (
        "Left: memory, unlimited and at least. Right: time of a round at a limit ÷ unlimited; a "
        "cross: some trials were killed there, at the axis: all"
    )
    with style.figure_style():
        title = "The same network in four engines"
        figure = style.new_figure(title, subtitle, footer, _PANEL_IN * len(networks) + 0.8)
        panels = figure.subplots(len(networks), 2, squeeze=False)
        for (left, right), network in zip(panels, networks, strict=True):
            own = [row for row in rows if row["network"] == network]
            _memory(left, own)
            left.set_title(network)
            _slowdown(right, own, limits)
        return style.figure_bytes(figure, ("png",))["png"]


def _memory(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, (key, label) in enumerate(_SIZES.items()):
        at = [number + 0.27 * (place - 1) for number in range(len(rows))]
        sizes = [_middle(row[key]) / _MIB for row in rows]
        bars = axes.barh(at, sizes, 0.24, color=_SHADES[place], label=label)
        axes.bar_label(bars, [f"{size:.0f}" for size in sizes], padding=3, fontsize=8)
    axes.set_yticks(range(len(rows)), [all_engines()[row["engine"]].title for row in rows])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("MiB")
    axes.set_xlim(0, 1.3 * max(_middle(row[key]) / _MIB for row in rows for key in _SIZES))
    axes.legend(loc="upper right")


def _slowdown(axes: Any, rows: Sequence[Mapping[str, Any]], limits: Sequence[str]) -> None:
    colours = sns.color_palette("colorblind")
    for row, colour, marker in zip(rows, colours, "osD^", strict=False):
        known = [(parse_size(one) / _MIB, row["slower"].get(one)) for one in limits]
        done = [(size, values) for size, values in known if values]
        if not done:
            continue
        middles = [_middle(values) for _, values in done]
        apart = [
            [middle - min(values) for middle, (_, values) in zip(middles, done, strict=True)],
            [max(values) - middle for middle, (_, values) in zip(middles, done, strict=True)],
        ]
        label = all_engines()[row["engine"]].title
        looks = {"color": colour, "marker": marker, "ms": 5, "lw": 1.5, "capsize": 2}
        axes.errorbar([size for size, _ in done], middles, apart, label=label, **looks)
        for (size, values), limit in zip(known, limits, strict=True):
            if {*row["outcomes"][limit]} != {"ok"}:
                _cross(axes, size, _middle(values) if values else None, colour)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = [parse_size(one) / _MIB for one in limits]
    axes.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    factor = FuncFormatter(lambda value, _: f"{value:g}×")
    axes.yaxis.set_major_formatter(factor)
    axes.yaxis.set_minor_formatter(factor)
    axes.set_xlabel("limit in MiB")
    axes.set_ylabel("times slower")
    axes.legend()


def _cross(axes: Any, size: float, middle: float | None, colour: Any) -> None:
    """Over the median of the trials that finished, or at the axis where none did."""
    looks = {"marker": "x", "s": 90, "color": colour, "lw": 2, "zorder": 4, "clip_on": False}
    if middle is None:
        axes.scatter(size, 0.03, transform=axes.get_xaxis_transform(), **looks)
    else:
        axes.scatter(size, middle, **looks)


def _middle(values: Any) -> float:
    """The median of repeats; a single value is itself, a missing one 0."""
    if isinstance(values, list):
        return statistics.median(values) if values else 0.0
    return float(values or 0.0)
