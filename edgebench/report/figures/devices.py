"""Figure of several devices: seconds, and slowdown, by memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.report.figures import naming, scales, style
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.analysis.devices import DevicePoint, DevicesRow

_HEIGHT_IN = 4.3


def draw_devices(rows: Sequence[DevicesRow], folder: Path) -> list[Path]:
    """One figure for each workload that has a limit in bytes on some device; its files.

    Raises:
        ResultsError: the folder can't be written.
    """
    return naming.write_figures(_figures(rows), folder)


def _figures(rows: Sequence[DevicesRow]) -> Iterator[naming.NamedFigure]:
    for workload in dict.fromkeys(row.workload for row in rows):
        own = [row for row in rows if row.workload == workload]
        points = [point for row in own for point in row.points]
        limits = [point.limit_bytes for point in points if point.limit_bytes]
        if not limits or not any(point.seconds for point in points):
            continue
        devices = list(dict.fromkeys(point.device for point in points))
        foot = f"devices {', '.join(devices)}"
        title = f"{workload} on {len(devices)} devices"
        figure = style.new_figure(title, "marks: medians; lines: all trials", foot, _HEIGHT_IN)
        seconds, slowdown = figure.subplots(1, 2, sharex=True)
        axis = scales.LimitAxis(limits, 2)
        for number, device in enumerate(devices):
            mine = [point for point in points if point.device == device]
            _draw(seconds, slowdown, axis, mine, number)
        for axes in (seconds, slowdown):
            axis.apply(axes)
        scales.seconds_axis(seconds, "seconds")
        factors = [point.slowdown for point in points if point.slowdown]
        scales.slowdown_axis(slowdown, min(factors, default=1), max(factors, default=1), 0)
        slowdown.set_ylabel("slowdown (time ÷ the device's unlimited time)")
        lost = {outcome for point in points for outcome in _lost([point])}
        marks = slowdown.get_legend_handles_labels()[0]
        style.legend_beside(slowdown, handles=[*marks, *scales.unfinished_keys([*lost])])
        yield naming.NamedFigure(naming.stem_of("devices", {}, workload), figure)


def _draw(
    seconds: Axes,
    slowdown: Axes,
    axis: scales.LimitAxis,
    points: Sequence[DevicePoint],
    number: int,
) -> None:
    colour, marker = style.series_style(number)
    known = sorted(points, key=lambda point: point.limit_bytes or float("inf"))
    places = [p.limit_bytes / MIB if p.limit_bytes else axis.unlimited for p in known]
    device = points[0].device
    timed = [(place, p.seconds) for place, p in zip(places, known, strict=True) if p.seconds]
    xs, medians = [place for place, _ in timed], [spread.median for _, spread in timed]
    seconds.plot(xs, medians, marker, color=colour, ls="-", lw=0.8, markersize=6, label=device)
    lows, highs = [spread.low for _, spread in timed], [spread.high for _, spread in timed]
    seconds.vlines(xs, lows, highs, color=colour, lw=1.4)
    for axes in (seconds, slowdown):
        scales.draw_unfinished(axes, _lost(points), colour, number)
    slowed = [(place, p.slowdown) for place, p in zip(places, known, strict=True) if p.slowdown]
    xs, factors = [place for place, _ in slowed], [factor for _, factor in slowed]
    slowdown.plot(xs, factors, marker, color=colour, ls="-", lw=0.8, markersize=6, label=device)


def _lost(points: Sequence[DevicePoint]) -> dict[str, tuple[float, ...]]:
    """Outcome → the limits at which trials ended so, of those that have a mark."""
    limits: dict[str, list[float]] = {}
    for point in points:
        for outcome in point.outcomes:
            if outcome in scales.UNFINISHED_MARKS and point.limit_bytes:
                limits.setdefault(outcome, []).append(point.limit_bytes)
    return {outcome: tuple(own) for outcome, own in limits.items()}
