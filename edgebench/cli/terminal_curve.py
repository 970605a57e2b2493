"""A curve of slowdown, or of seconds, against the limit, drawn with characters."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgebench.units import MIB

#: A trial's end as the picture shows it.
Mark = Literal["ok", "killed", "timeout"]
#: Numbers that stand at a tick of a logarithmic axis, times a power of ten.
_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
#: An axis whose ends have a smaller ratio has evenly spaced numbers.
_SHORT = 2.0
#: Below this ratio the values are one row: such a curve shows noise.
_FLAT = 1.5
_ASCII = str.maketrans("●×▲·│┤└─┬┄", "ox^.||+-+-")
#: A number stands beside a row if it is at most so many rows from its middle.
_NEAR = 0.3
#: Columns before the axis.
_LABEL = 9


@dataclass(frozen=True)
class CurvePoint:
    """One trial: its limit in bytes, and its slowdown or seconds.

    ``value`` is None for a trial that was killed. At its time limit it is what it had reached.
    """

    limit_bytes: float
    value: float | None
    mark: Mark = "ok"


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from ``low`` to ``high`` over cells 0 to ``cells`` - 1."""

    low: float
    high: float
    cells: int

    def place(self, value: float) -> float:
        """In cells from the first; a value beyond an end is at that end."""
        if self.high <= self.low:
            return 0.0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(max(share, 0.0), 1.0) * (self.cells - 1)

    def cell(self, value: float) -> int:
        return round(self.place(value))

    def ticks(self) -> list[float]:
        """The round numbers on the axis; on a short one, evenly spaced."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        numbers = [number * 10.0**power for power in powers for number in _ROUND]
        if self.high < self.low * _SHORT:
            unit = 10.0 ** math.floor(math.log10(self.high - self.low or self.low))
            step = unit / 5 if self.high - self.low < 2 * unit else unit
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            numbers = [n * step for n in range(first, last + 1)]
        return [n for n in numbers if self.low * 0.999 <= n <= self.high * 1.001]


def curve_lines(
    points: Sequence[CurvePoint],
    *,
    width: int = 80,
    height: int = 10,
    unit: Literal["x", "s"] = "x",
    factor: float | None = None,
    encoding: str = "utf-8",
) -> list[str]:
    """The lines of the picture, without colours; none if there is no point.

    Both axes are logarithmic. Finished trials are dots on a line of their medians; killed ones are
    crosses in a row of their own, and triangles are trials that were stopped at their time limit.

    Args:
        points: in any order.
        width: the most columns of a line.
        height: the most lines, its axis with numbers included; at least 5.
        unit: whether values are slowdowns (``x``) or seconds (``s``).
        factor: a dashed line at this value.
        encoding: of the terminal; where it is not UTF-8, plain ASCII.
    """
    if not points:
        return []
    x = _x_axis(points, max(20, width - _LABEL - 2))
    y = _y_axis(points, factor, height - (3 if any(p.mark == "killed" for p in points) else 2))
    grid = [[" "] * x.cells for _ in range(y.cells)]
    if factor and y.cells > 1:
        grid[y.cell(factor)] = ["┄"] * x.cells
    _draw_line(grid, points, x, y)
    _draw_marks(grid, points, x, y)
    labels = _y_labels(y, unit, factor)
    rows = [f"{labels.get(n, ''):>{_LABEL}}│{''.join(grid[n])}" for n in reversed(range(y.cells))]
    killed = {x.cell(point.limit_bytes / MIB) for point in points if point.mark == "killed"}
    if killed:
        cells = "".join("×" if n in killed else " " for n in range(x.cells))
        rows.append(f"{'killed ':>{_LABEL}}│{cells}")
    text = "\n".join(line.rstrip() for line in [*rows, *_x_lines(x)])
    return (text if _is_utf8(encoding) else text.translate(_ASCII)).split("\n")


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def _x_axis(points: Sequence[CurvePoint], cells: int) -> _Axis:
    """In MiB; at least a quarter wide, so that a single limit stands in the middle."""
    limits = [point.limit_bytes / MIB for point in points]
    low, high = min(limits), max(limits)
    room = max(1.02, math.sqrt(1.25 / (high / low)))
    return _Axis(low / room, high * room, cells)


def _y_axis(points: Sequence[CurvePoint], factor: float | None, cells: int) -> _Axis:
    values = [point.value for point in points if point.value] or [1.0]
    if max(values) / min(values) < _FLAT and not (factor and factor <= max(values)):
        return _Axis(statistics.median(values), statistics.median(values), 1)
    wanted = [*values, *([factor] if factor else [])]
    return _Axis(min(wanted), max(wanted), max(2, cells))


def _draw_line(grid: list[list[str]], points: Sequence[CurvePoint], x: _Axis, y: _Axis) -> None:
    """Dots between neighbouring limits, through the median of each."""
    values: dict[float, list[float]] = {}
    for point in points:
        if point.mark == "ok" and point.value:
            values.setdefault(point.limit_bytes / MIB, []).append(point.value)
    knots = [
        (x.cell(limit), y.cell(statistics.median(own))) for limit, own in sorted(values.items())
    ]
    for (left, start), (right, end) in itertools.pairwise(knots):
        for column in range(left, right):
            row = start + (end - start) * (column - left) / (right - left)
            grid[round(row)][column] = "·"


def _draw_marks(grid: list[list[str]], points: Sequence[CurvePoint], x: _Axis, y: _Axis) -> None:
    for point in points:
        if point.value and point.mark != "killed":
            mark = "▲" if point.mark == "timeout" else "●"
            grid[y.cell(point.value)][x.cell(point.limit_bytes / MIB)] = mark


def _y_labels(y: _Axis, unit: str, factor: float | None) -> dict[int, str]:
    """Row → its number: the factor's, a flat curve's only one, and round ones near the middle."""
    ticks = y.ticks() if y.cells > 1 else [y.low]
    if len(ticks) < 2:
        ticks = [y.low, y.high]
    first = [factor] if factor and y.cells > 1 else []
    found: dict[int, str] = {}
    for value in (*first, *sorted(ticks, key=lambda tick: abs(y.place(tick) - y.cell(tick)))):
        near = abs(y.place(value) - y.cell(value)) <= _NEAR
        if near or value in first:
            number = f"{value:.3g}" if 1e-3 <= value < 1e3 else f"{value:.0e}"
            words = f"x{number}" if unit == "x" else f"{number} s"
            found.setdefault(y.cell(value), words + " ")
    return found


def _x_lines(x: _Axis) -> list[str]:
    """The axis, and the limits below it: as many as have room."""
    ticks = x.ticks()
    if len(ticks) < 2:
        ticks = sorted({round(x.low * 1.02, 1), round(x.high / 1.02, 1)})
    rule, numbers, end = ["─"] * x.cells, [" "] * (x.cells + _LABEL), 0
    for tick in ticks:
        words, cell = f"{tick:.4g}", x.cell(tick)
        start = max(0, cell + _LABEL + 1 - (len(words) + 1) // 2)
        if start < end or start + len(words) > len(numbers) - 4:
            continue
        rule[cell] = "┬"
        numbers[start : start + len(words)] = words
        end = start + len(words) + 2
    return [f"{'':>{_LABEL}}└{''.join(rule)}", "".join(numbers).rstrip() + " MiB"]
