"""``edgebench show``: a sweep's results as a table, also while it is still being made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.records.records import SCHEMA
from edgebench.units import format_size

if TYPE_CHECKING:
    from rich.table import Table

    from edgebench.results.results import Sweep
    from edgebench.results.summary import PointSummary, Spread

_SHORT = {
    "oom-killed": "oom",
    "timeout": "time",
    "failed": "fail",
    "harness-error": "error",
    "interrupted": "cut",
}
_MOST_NOTES = 6
_TERMINAL = 80


@click.command(short_help="Show a sweep's results as a table.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--json", "as_json", is_flag=True, help="Print every point as JSON on stdout.")
def show(results: Path, as_json: bool) -> None:
    """Show the newest sweep in RESULTS: a sweep's folder or one that holds several.

    Works on a sweep that is running, was cut short or is damaged: it shows what is there.
    """
    from edgebench.results.results import latest, load
    from edgebench.results.summary import summarise

    loaded = load(latest(results))
    sweep = loaded.sweeps[0]
    points = summarise(sweep)
    if as_json:
        click.echo(json.dumps(_as_json(sweep, points, loaded.warnings)))
        return
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    _print(sweep, points)
    _print_next(sweep)


def _as_json(
    sweep: Sweep, points: Sequence[PointSummary], warnings: Sequence[str]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "sweep": sweep.name,
        "path": str(sweep.path),
        "device": sweep.device,
        "state": _state(sweep),
        "planned": sweep.planned,
        "recorded": len(sweep.records),
        "points": [asdict(point) for point in points],
        "warnings": list(warnings),
    }


def _state(sweep: Sweep) -> str:
    if sweep.running:
        return "running"
    return "complete" if sweep.complete is not None else "unfinished"


def _print(sweep: Sweep, points: Sequence[PointSummary]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, _TERMINAL)
    console.print(f"{sweep.name} on {sweep.device}", style="bold", markup=False)
    console.print(_progress(sweep), markup=False)
    # A search tries few of the points it could.
    planned = [point for point in points if point.planned or point.outcomes]
    for workload, group in _by_workload(planned or points).items():
        console.print()
        console.print(_heading(workload, group), style="bold", markup=False)
        console.print(_table(group))
    console.print()
    for note in _notes(points):
        console.print(note, markup=False)


def _progress(sweep: Sweep) -> str:
    planned = "?" if sweep.planned is None else sweep.planned
    outcomes = Counter(map(str, sweep.columns.words("outcome", range(len(sweep.records)))))
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"{_state(sweep)}: {len(sweep.records)} of {planned} trials" + (words and f" ({words})")


def _by_workload(points: Sequence[PointSummary]) -> dict[str, list[PointSummary]]:
    from edgebench.report.workload import apart

    groups: dict[str, list[PointSummary]] = {}
    for point in points:
        groups.setdefault(point.workload + apart(point.limits), []).append(point)
    return groups


def _heading(workload: str, group: Sequence[PointSummary]) -> str:
    demand = next((p.demand_bytes for p in group if p.demand_bytes is not None), None)
    return workload + (f" · demand {format_size(demand)}" if demand is not None else "")


def _table(group: Sequence[PointSummary]) -> Table:
    from rich.table import Table

    from edgebench.results.times import TIMES

    times = [name for name in TIMES if any(name in point.times_s for point in group)]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("limit")
    table.add_column("MiB", justify="right")
    table.add_column("ok")
    for name in times:
        table.add_column(f"{name} s", justify="right", no_wrap=True)
    table.add_column("slower", justify="right")
    table.add_column("peak", justify="right")
    for point in sorted(group, key=_order):
        table.add_row(*_row(point, times))
    return table


def _order(point: PointSummary) -> float:
    known = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    return -float("inf") if known is None else -known


def _row(point: PointSummary, times: Sequence[str]) -> list[str]:
    slowdown = point.slowdowns.get("total")
    return [
        point.limits.label,
        _mib(point.limit_bytes),
        _ok(point),
        *(_time(point.times_s.get(name)) for name in times),
        f"{slowdown:.2f}×" if slowdown is not None else "",
        _mib(point.peak_bytes.median if point.peak_bytes else None)
        + ("*" if point.saturated else ""),
    ]


def _mib(size_bytes: float | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / 2**20:.0f}"


def _ok(point: PointSummary) -> str:
    made = sum(point.outcomes.values())
    words = f"{point.outcomes.get('ok', 0)}/{point.planned or made}"
    others = [_SHORT[outcome] for outcome in point.outcomes if outcome != "ok"]
    return " ".join([words, *others[:1]]) + ("+" if len(others) > 1 else "")


def _time(spread: Spread | None) -> str:
    if spread is None:
        return ""
    median = spread.median
    words = f"{median:.0f}" if median >= 100 else f"{median:.3g}"
    return f"{words} ±{spread.farthest:.0%}" if spread.count > 1 else words


def _notes(points: Sequence[PointSummary]) -> list[str]:
    notes = [
        "medians of the repeats that ended ok, ± the farthest of them; slower: total",
        "against unlimited; peak in MiB, * where it met the limit and so isn't demand",
    ]
    notes += _capped([f"{p.point} ({p.limits.label}) {why}" for p in points for why in p.reasons])
    notes += _capped([f"noise: {p.point} ({p.limits.label}) {w}" for p in points for w in p.noise])
    return notes


def _capped(lines: Sequence[str]) -> list[str]:
    left = len(lines) - _MOST_NOTES
    more = [f"… and {left} more: --json has them all"] if left > 0 else []
    return [*lines[:_MOST_NOTES], *more]


def _print_next(sweep: Sweep) -> None:
    if _state(sweep) == "unfinished":
        click.echo("next: edgebench run SCENARIO  (the same one: it goes on here)", err=True)
    for verb in ("plot", "fit", "export"):
        click.echo(f"next: edgebench {verb} {sweep.path}", err=True)
