"""The picture that a terminal shows while trials run: what is known so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.cli.known_slowdowns import UNLIMITED, KnownSlowdowns, PointSoFar, WorkloadSoFar
from edgebench.cli.terminal_curve import CurvePoint, curve_lines
from edgebench.text import printable

if TYPE_CHECKING:
    from rich.text import Text

#: The block is no wider on any terminal.
WIDEST = 80
#: A narrower terminal has no room for the curve and its numbers.
_NARROWEST_CURVE = 32
#: Lines of the curve: fewer show no shape, more say no more.
_LEAST_CURVE, _MOST_CURVE = 6, 10
_MOST_ROWS = 8
_TITLE = "slowdown by memory limit: {}"
_CELL, _LONGEST_NAME = 8, 30
#: Slowdowns from here up are shown as slow, and as very slow.
_SLOW, _VERY_SLOW = 1.1, 2.0


def picture_lines(known: KnownSlowdowns, width: int, height: int, encoding: str) -> list[Text]:
    """What is known so far, in at most so many lines: a table of several workloads, a curve."""
    width = min(width, WIDEST)
    lines = _table(known, width, min(height, _MOST_ROWS)) if len(known.workloads) > 1 else []
    worst = known.worst()
    room = min(_MOST_CURVE, height - len(lines) - 2)
    roomy = width >= _NARROWEST_CURVE and room >= _LEAST_CURVE
    if worst and roomy and (points := _curve_points(known, worst)):
        name = _fit(known.names[worst.label], max(8, width - len(_TITLE)))
        title = _TITLE.format(name)
        curve = curve_lines(points, width=width, height=room, encoding=encoding)
        lines += [
            block_text(""),
            block_text(title, "dim"),
            *(block_text(line, "cyan") for line in curve),
        ]
    return in_encoding(lines, encoding)


def block_text(words: str, style: str = "") -> Text:
    """A line of the block, cut at the terminal's edge, without control characters."""
    from rich.text import Text

    return Text(printable(words), style, no_wrap=True, overflow="crop")


def in_encoding(lines: list[Text], encoding: str) -> list[Text]:
    """The same lines in characters that the terminal has."""
    for line in lines if not is_utf8(encoding) else ():
        line.plain = line.plain.encode("ascii", "replace").decode()
    return lines


def is_utf8(encoding: str) -> bool:
    """Whether a terminal of that encoding shows every character."""
    return encoding.lower().startswith("utf")


def _table(known: KnownSlowdowns, width: int, height: int) -> list[Text]:
    """A row for each workload, a column for each limit; of too many limits every so many-th."""
    names = [known.names[one.label] for one in known.workloads]
    first = min(_LONGEST_NAME, max(map(len, names)), width // 3) + 2
    limits = _spread(known.limits(), (width - first) // _CELL)
    # The title, an empty line above it, and a line for what is left out.
    shown = known.workloads[: height - 2 if len(names) <= height - 2 else height - 3]
    if not limits or len(shown) < 2:
        return []
    header = "".join(f"{_fit(label, _CELL - 1):>{_CELL}}" for label in limits)
    lines = [block_text(""), block_text(f"{_fit('slowdown', first - 2):<{first}}{header}", "dim")]
    for one in shown:
        row = block_text(f"{_fit(known.names[one.label], first - 2):<{first}}")
        for label in limits:
            words, style = _cell(known, one, label)
            row.append(f"{words:>{_CELL}}", style)
        lines.append(row)
    left = len(names) - len(shown)
    return [*lines, block_text(f"and {left} more workloads", "dim")] if left else lines


def _fit(words: str, width: int) -> str:
    return words if len(words) <= width else f"{words[: width - 1]}~"


def _spread(labels: Sequence[str], most: int) -> list[str]:
    """At most so many labels, evenly spaced, always with the tightest."""
    if most < 1 or len(labels) <= most:
        return list(labels) if most > 0 else []
    return [labels[len(labels) - 1 - n * len(labels) // most] for n in reversed(range(most))]


def _cell(known: KnownSlowdowns, workload: WorkloadSoFar, label: str) -> tuple[str, str]:
    point = workload.points.get(label)
    if point and (lost := point.lost_word):
        return lost, "red"
    factor = known.slowdown(workload, label)
    if factor is None:
        return ("..." if point and point.times_s else "."), "dim"
    style = "" if factor < _SLOW else "yellow" if factor < _VERY_SLOW else "red"
    return f"x{factor:.0f}" if factor >= 100 else f"x{factor:.3g}", style


def _curve_points(known: KnownSlowdowns, workload: WorkloadSoFar) -> list[CurvePoint]:
    """Each trial below a limit; none as long as there is only one such limit."""
    base = known.unlimited_s(workload)
    limited = [point for label, point in workload.points.items() if label != UNLIMITED]
    known_limits = [point for point in limited if point.times_s or point.lost]
    if base is None or len(known_limits) < 2:
        return []
    return [one for point in known_limits for one in _trials_of(point, base)]


def _trials_of(point: PointSoFar, base: float) -> list[CurvePoint]:
    size = point.limit_bytes
    if not size:
        return []
    made = [CurvePoint(size, seconds / base) for seconds in point.times_s]
    made += [CurvePoint(size, seconds / base, "timeout") for seconds in point.stopped_s]
    return [*made, *[CurvePoint(size, None, "killed")] * point.lost["oom-killed"]]
