"""``edgebench compare``: two sweeps, and whether the later one is worse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.errors import RegressionError, UsageError
from edgebench.records.records import SCHEMA
from edgebench.units import format_duration, format_size, parse_share

if TYPE_CHECKING:
    from edgebench.comparing.compare import Compared, Comparison
    from edgebench.results.results import Sweep

_COLOURS = {"slower": "red", "more": "red", "lost": "red", "unsure": "yellow"}
_COLOURS |= {"faster": "green", "less": "green", "gained": "green"}
_TERMINAL = 80
#: A change that people want to find.
_WANTED = 0.1


@click.command(short_help="Compare two sweeps; exit 4 on a regression.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--threshold",
    default="5%",
    show_default=True,
    help="Changes up to this share are none.",
)
@click.option("--across-devices", is_flag=True, help="Compare although the devices differ.")
@click.option("--all", "all_rows", is_flag=True, help="Also list what stayed the same.")
@click.option("--json", "as_json", is_flag=True, help="Print every comparison as JSON on stdout.")
def compare(
    a: Path, b: Path, threshold: str, across_devices: bool, all_rows: bool, as_json: bool
) -> None:
    """Compare sweep B with the earlier sweep A, point by point.

    A change counts if it is beyond the threshold and beyond chance. Exit code 4 on a regression.
    """
    from edgebench.comparing.compare import compare_sweeps
    from edgebench.results.results import latest, load

    share = parse_share(threshold)
    if share is None:
        raise UsageError(f"{threshold!r} is no share", remedy="write --threshold 10%")
    sweeps = [load(latest(path)).sweeps[0] for path in (a, b)]
    compared = compare_sweeps(*sweeps, threshold=share, across_devices=across_devices)
    if as_json:
        click.echo(json.dumps(_as_json(sweeps, compared)))
    else:
        _print(sweeps, compared, all_rows)
    if compared.regressions:
        raise RegressionError(
            f"{len(compared.regressions)} of {len(compared.rows)} comparisons are regressions",
            where=str(sweeps[1].path),
            remedy=f"edgebench show {sweeps[1].path}",
        )
    if not as_json:
        click.echo(f"next: edgebench show {sweeps[1].path}", err=True)


def _as_json(sweeps: Sequence[Sweep], compared: Compared) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "a": str(sweeps[0].path),
        "b": str(sweeps[1].path),
        "regressions": len(compared.regressions),
        **asdict(compared),
    }


def _print(sweeps: Sequence[Sweep], compared: Compared, all_rows: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, _TERMINAL)
    for name, sweep in zip("ab", sweeps, strict=True):
        console.print(f"{name}: {sweep.name} on {sweep.device}", style="bold", markup=False)
    groups: dict[str, list[Comparison]] = {}
    for row in compared.rows:
        if all_rows or row.verdict != "same":
            groups.setdefault(row.workload, []).append(row)
    for workload, rows in groups.items():
        console.print()
        console.print(workload, style="bold", markup=False)
        console.print(_table(rows))
    for line in _summary(compared):
        console.print(line, markup=False)


def _table(rows: Sequence[Comparison]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for title in ("limit", "swap", "of"):
        table.add_column(title)
    for title in ("a", "b", "b / a", "95 %", "p"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        verdict = Text(row.verdict, style=_COLOURS.get(row.verdict, ""))
        table.add_row(row.limits.label, row.limits.swap_kind, row.quantity, *_numbers(row), verdict)
    return table


def _numbers(row: Comparison) -> tuple[str, ...]:
    if row.quantity == "viable":
        ends = ((row.a, row.repeats_a), (row.b, row.repeats_b))
        return (*(f"{share * count:.0f}/{count}" for share, count in ends), "", "", "")
    words = format_size if row.quantity == "demand" else format_duration
    interval = "" if row.ratio_low is None else f"{row.ratio_low:.2f}–{row.ratio_high:.2f}"
    chance = "" if row.p is None else f"{row.p:.2g}"
    return (words(row.a), words(row.b), f"{row.ratio:.2f}", interval, chance)


def _summary(compared: Compared) -> list[str]:
    counts = Counter(row.verdict for row in compared.rows)
    lines = ["", ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
    if counts["unsure"]:
        lines.append("unsure: beyond the threshold, but it may be chance; raise `repeats`")
    lines += _found_from(compared)
    for name, points in (("a", compared.only_a), ("b", compared.only_b)):
        if points:
            lines.append(f"only in {name}: {'; '.join(points)}")
    return lines


def _found_from(compared: Compared) -> list[str]:
    """What these repeats can tell at all, so that "same" is not taken for more than it is."""
    least, wanted = compared.least_times_ratio, compared.repeats_for(1 + _WANTED)
    if least is None or wanted is None:
        return []
    lines = [f"with these repeats half of the times show a change from {least - 1:.0%} on"]
    if least > 1 + _WANTED:
        lines.append(f"to find {_WANTED:.0%} takes about {wanted} repeats")
    return lines
