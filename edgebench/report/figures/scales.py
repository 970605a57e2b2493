"""Axes that several figures share: limits in MiB, slowdown, seconds, and marks at limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import (
    EngFormatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from edgebench.answers.trials import end_word
from edgebench.report.figures.style import MUTED
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: How trials that did not finish are drawn.
UNFINISHED_MARKS = {"oom-killed": "x", "accelerator-oom": "2", "timeout": "+", "failed": "1"}
#: The height of a lane of such marks, as a share of the axes.
_LANE = 0.06
_MOST_TICKS = 6
SECONDS = EngFormatter(unit="s")


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
