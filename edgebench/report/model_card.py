"""A sweep for a model's card: a sentence and a table for each workload, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgebench import __version__
from edgebench.report.markdown import escaped
from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep
from edgebench.units import format_duration, format_limit, format_size, swap_words
from edgebench.words.in_short import workload_sentence
from edgebench.words.labels import throughput_column

_TITLES = ("memory limit", "trials that finished", "memory used", "start", "time (median)")


def model_card(sweep: Sweep, found: Sequence[WorkloadFacts], names: dict[str, str]) -> str:
    """Markdown that stands in a README or model card, each workload under its name."""
    parts = [_workload(one, names[one.name]) for one in found]
    swap = {swap_words(one.limits.swap_kind, one.limits.swap_bytes) for one in found}
    how = f" with {swap.pop()}" if len(swap) == 1 else ""
    made = f"Measured on {escaped(sweep.device)}{how}, by edgebench {__version__}"
    return "\n\n".join([*parts, f"{made} (sweep {escaped(sweep.name)})."]) + "\n"


def _workload(one: WorkloadFacts, name: str) -> str:
    counted = throughput_column(one)
    titles = (*_TITLES, *counted, "slowdown")
    rows = [_row(cells) for cells in (titles, ("---", *["---:"] * (len(titles) - 1)))]
    shown = [point for point in one.points if point.outcomes]
    rows += [_row(tuple(map(escaped, _cells(point, bool(counted))))) for point in shown]
    return "\n".join([escaped(workload_sentence(one, name)), "", *rows])


def _cells(point: PointFacts, counted: bool) -> Iterator[str]:
    size = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    yield format_limit(point.limits.label, size) if point.limits.label != "max" else "none"
    made = sum(point.outcomes.values())
    lost = ", ".join(word for word in point.outcomes if word != "ok")
    yield f"{point.outcomes.get('ok', 0)} of {made}" + (f" ({lost})" if lost else "")
    # Without a limit the peak counts files that the kernel merely keeps: the demand does not.
    used = point.demand_bytes if point.limits.label == "max" else None
    used = used or (point.peak_bytes.median if point.peak_bytes else None)
    at_limit = " (all)" if point.limits.label != "max" and point.saturated else ""
    yield "" if used is None else format_size(used) + at_limit
    start, slowdown = point.times_s.get(START), point.slowdown
    # Of one round there is its start alone.
    time = point.times_s.get(STEADY if start else "total")
    yield format_duration(start.median) if start else ""
    yield format_duration(time.median) if time else ""
    if counted:
        yield _number(point.throughput_per_s)
    yield f"{slowdown:.3g}×" if slowdown is not None else ""


def _number(rate: Spread | None) -> str:
    return f"{rate.median:.3g}" if rate else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
