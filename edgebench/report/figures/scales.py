"""Axes that several figures share: limits in MiB, slowdown, seconds, and marks at limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from numpy.typing import ArrayLike

from edgebench.answers.ends import end_word
from edgebench.report.figures.style import FAINT, INK, MUTED, Colour
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How trials that did not finish are drawn at the axis.
UNFINISHED_MARKS = {"oom-killed": "x", "accelerator-oom": "2", "timeout": "+", "failed": "1"}
#: The height of a lane of marks at the axis, as a share of the axes.
_LANE = 0.05
_DOTS = (0, (1, 2))
#: With fewer ticks than this on an axis of limits, round numbers are tried instead.
_FEW_TICKS = 3
_ROUND = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])


class LimitAxis:
    """A log₂ axis of limits in MiB, with a place for ``max`` right of the widest.

    ``unlimited`` is that place, in MiB. ``panels`` share the figure's width: the more, the fewer
    ticks each has.
    """

    def __init__(self, sizes_bytes: Sequence[float], panels: int = 1) -> None:
        known = [value / MIB for value in sizes_bytes]
        self._panels = panels
        self.low, self.high = min(known), max(known)
        # One limit alone still needs a span to stand in.
        octaves = max(log2(self.high / self.low), 0.5)
        self._margin = 2 ** (octaves * 0.07)
        self.unlimited = self.high * self._margin**2.2
        self._octaves = octaves

    def apply(self, axes: Axes, label: str = "limit (MiB)") -> None:
        """Scale, ticks and label."""
        axes.set_xscale("log", base=2)
        axes.set_xlim(self.low / self._margin, self.unlimited * self._margin)
        ticks = self._ticks()
        axes.xaxis.set_major_locator(FixedLocator([*ticks, self.unlimited]))
        axes.xaxis.set_minor_locator(NullLocator())
        names = [f"{tick:g}" for tick in ticks] + ["max"]
        axes.xaxis.set_major_formatter(FuncFormatter(lambda _, place: names[place or 0]))
        axes.axvline(self.high * self._margin**1.25, color=FAINT, linewidth=1, zorder=0.5)
        axes.set_xlabel(label)

    def _ticks(self) -> list[float]:
        """Powers of two and what lies between them; on a short axis round numbers, if more fit."""
        lowest = 2.0 ** np.floor(log2(self.low))
        parts = [lowest * 2**n * part for part in (1.0, 1.5, 1.25, 1.75) for n in range(40)]
        found = self._with_room(parts)
        if len(found) < _FEW_TICKS:
            found = max(found, self._with_room(_ROUND.tick_values(self.low, self.high)), key=len)
        return found or [self.low]

    def _with_room(self, wanted: Iterable[float]) -> list[float]:
        """Those inside, the first ones first, as far as names don't touch."""
        left, right = log2(self.low / self._margin), log2(self.unlimited * self._margin)
        room = 0.045 * (self._panels + 0.6) * (right - left)
        kept = [log2(self.unlimited)]
        for tick in wanted:
            place = log2(tick) if tick > 0 else -np.inf
            inside = left <= place <= log2(self.high) + 1e-9
            if inside and min(abs(place - other) for other in kept) >= room:
                kept.append(place)
        return sorted(2**place for place in kept[1:])


def slowdown_axis(axes: Axes, lowest: float, highest: float, lanes: int) -> None:
    """A log axis with room for lanes of marks below all data, ticks written as ×2."""
    axes.set_yscale("log")
    axes.set_ylim(min(lowest, 1.0) * 0.95, max(highest, 1.6) * 1.25)
    add_mark_lanes(axes, lanes)
    places: list[float] = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000]
    if highest < 5:
        places = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.2, 1.5, 2, 3, 4, 5]
    elif highest < 12:
        places = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10]
    low, high = axes.get_ylim()
    # To make a tick takes long, also where it is not seen.
    axes.yaxis.set_major_locator(FixedLocator([at for at in places if low <= at <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:g}"))


def add_mark_lanes(axes: Axes, lanes: int) -> None:
    """Lower the foot of a log axis so that lanes of marks lie below all data."""
    low, high = axes.get_ylim()
    share = 0.03 + _LANE * lanes
    axes.set_ylim(low / (high / low) ** (share / (1 - share)), high)


def seconds_axis(axes: Axes, label: str, lanes: int = 0) -> None:
    """A log axis of times, ticks as ``2 ms``, with enough of them on a short one."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Noise alone must not fill the axis: it spans a factor of two at least.
    widen = max((2 / (high / low)) ** 0.5, 1.0)
    axes.set_ylim(low / widen, high * widen)
    add_mark_lanes(axes, lanes)
    low, high = axes.get_ylim()
    decades = np.log10(high / low)
    parts = [1.0]
    if decades < 0.8:
        parts = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]
    elif decades < 2.5:
        parts = [1.0, 2.0, 5.0]
    axes.yaxis.set_major_locator(LogLocator(subs=parts, numticks=20))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))
    axes.set_ylabel(label)


def short_seconds(seconds: float) -> str:
    """``"0"``, ``"20 µs"``, ``"3 ms"``, ``"1.5 s"``."""
    if seconds == 0:
        return "0"
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds / 60:.0f} min"


def short_size(size: float) -> str:
    """``"64 KiB"``, ``"1.5 MiB"``."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def draw_demand(axes: Axes, demand_bytes: float, colour: Colour | str = MUTED) -> None:
    """The demand as a vertical line."""
    axes.axvline(demand_bytes / MIB, color=colour, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)


def draw_needed(axes: Axes, size_bytes: float) -> None:
    """What steady rounds need as a vertical line."""
    axes.axvline(size_bytes / MIB, color=MUTED, linewidth=1.1, linestyle=_DOTS, zorder=1)


def needed_key(label: str) -> Line2D:
    """That line, for a legend."""
    return Line2D([], [], color=MUTED, lw=1.1, linestyle=_DOTS, label=label)


def draw_unfinished(
    axes: Axes, lost: dict[str, tuple[float, ...]], colour: Colour | str, lane: int = 0
) -> None:
    """Limits at which trials did not finish, as marks at the axis; each lane has its height."""
    for outcome, limits in lost.items():
        axes.plot(
            [limit / MIB for limit in limits],
            [0.03 + _LANE * lane] * len(limits),
            UNFINISHED_MARKS[outcome],
            color=colour,
            markersize=7,
            markeredgewidth=1.8,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            zorder=5,
        )


def demand_key() -> Line2D:
    """The demand's line, for a legend."""
    return Line2D([], [], color=MUTED, linewidth=1.1, linestyle=(0, (5, 3)), label="demand")


def unfinished_keys(outcomes: Sequence[str]) -> list[Line2D]:
    """The marks of what did not finish, for a legend."""
    return [
        Line2D(
            [],
            [],
            color=INK,
            linestyle="",
            marker=mark,
            markeredgewidth=1.8,
            label=end_word(outcome),
        )
        for outcome, mark in UNFINISHED_MARKS.items()
        if outcome in outcomes
    ]


def rectangles(boxes: ArrayLike, **looks: Any) -> PathCollection:
    """Rectangles from (left, low) to (right, high) as one shape, which is drawn faster than many.

    Args:
        boxes: left, low, right and high of each, one at least.
        looks: of a collection.
    """
    left, low, right, high = np.asarray(boxes, dtype=float).reshape(-1, 4).T
    corners = np.array([(left, low), (left, high), (right, high), (right, low), (left, low)])
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path(np.moveaxis(corners, 2, 0).reshape(-1, 2), np.tile(codes, len(left)))
    return PathCollection([path], **looks)
