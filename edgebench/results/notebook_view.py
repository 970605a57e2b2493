"""Results as a notebook shows them: each sweep's points in a small table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from edgebench.results.point_facts import PointFacts, point_facts
from edgebench.results.rounds import START, STEADY
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep
from edgebench.units import format_size

#: More points are better looked at as frames.
_MOST_POINTS = 60
_COLUMNS = (
    *("workload", "limit", "trials that finished", "start (s)", "steady (s)", "slowdown"),
    "peak (MiB)",
)


def notebook_html(sweeps: Sequence[Sweep], warnings: Sequence[str]) -> str:
    """All sweeps as HTML, everything in it escaped."""
    words = [f"<p>warning: {escape(warning)}</p>" for warning in warnings]
    return "\n".join([*(part for sweep in sweeps for part in _sweep(sweep)), *words])


def _sweep(sweep: Sweep) -> Iterator[str]:
    points = point_facts(sweep)
    state = "running" if sweep.running else "complete" if sweep.complete else "unfinished"
    yield f"<h4>{escape(sweep.name)} on {escape(sweep.device)}</h4>"
    yield f"<p>{state}: {len(sweep.records)} trials of {len(points)} points</p>"
    if not points:
        return
    yield f"<table><thead>{_row(_COLUMNS, 'th')}</thead><tbody>"
    yield from (_row(_cells(point)) for point in points[:_MOST_POINTS])
    yield "</tbody></table>"
    if len(points) > _MOST_POINTS:
        yield f"<p>… and {len(points) - _MOST_POINTS} more points: see the frame trials</p>"


def _row(cells: Sequence[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _cells(point: PointFacts) -> list[str]:
    slowdown = point.slowdown
    # A workload without rounds has one time alone.
    steady = point.times_s.get(STEADY if START in point.times_s else "total")
    size = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    label = point.limits.label
    peak = point.peak_bytes
    return [
        point.workload,
        label if size is None else f"{label} ({format_size(size)})",
        f"{point.outcomes.get('ok', 0)} of {sum(point.outcomes.values())}",
        _time(point.times_s.get(START)),
        _time(steady),
        f"×{slowdown:.3g}" if slowdown is not None else "",
        f"{peak.median / 2**20:.0f}" + ("*" if point.saturated else "") if peak else "",
    ]


def _time(spread: Spread | None) -> str:
    return f"{spread.median:.3g} ± {spread.farthest:.0%}" if spread else ""
