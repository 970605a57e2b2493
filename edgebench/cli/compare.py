"""``edgebench compare``: two sweeps, and what got worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.answers.comparison import (
    comparison_headline,
    comparison_table,
    least_changes,
    regression_words,
)
from edgebench.answers.table import Table, factor, seconds
from edgebench.cli.options import json_option, verbose_option
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    typed_path,
)
from edgebench.errors import RegressionError, UsageError
from edgebench.text import parse_share

if TYPE_CHECKING:
    from edgebench.analysis.compare import DevicePoint
    from edgebench.analysis.comparison import SweepComparison
    from edgebench.results.results import Sweep


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@click.argument("others", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--threshold", metavar="SHARE", default="5%", help="Ignore changes up to this fraction."
)
@click.option("--across-devices", is_flag=True, help="Compare even if the devices differ.")
@click.option(
    "--devices", is_flag=True, help="Compare devices: the newest sweep of each, of one scenario."
)
@click.option(
    "--all", "all_rows", is_flag=True, help="Also list what did not change, or can't be told."
)
@verbose_option("the least change that these repeats show, and the repeats needed to show less")
@json_option("every comparison")
def compare(
    a: Path,
    b: Path | None,
    others: tuple[Path, ...],
    threshold: str,
    across_devices: bool,
    devices: bool,
    all_rows: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Compare sweep B with the earlier sweep A, point by point; or several devices (--devices).

    The first line is about all times together. A change counts if it is larger than the
    threshold and statistically significant, over all times or at one point. The exit code is 4 if
    something got worse.
    """
    if devices:
        compare_devices([path for path in (a, b, *others) if path is not None], as_json)
        return
    if b is None or others:
        raise UsageError(
            "compare takes two sweeps",
            where="A B",
            remedy="edgebench compare A B; of several devices: edgebench compare --devices results",
        )
    from edgebench.analysis.compare import compare_sweeps
    from edgebench.results.results import latest, load

    share = parse_share(threshold)
    if share is None:
        raise UsageError(
            f"{threshold!r} is not a percentage", where="--threshold", remedy="--threshold 10%"
        )
    old, new = (load(latest(path)).sweeps[0] for path in (a, b))
    compared = compare_sweeps(old, new, threshold=share, across_devices=across_devices)
    following = f"edgebench show {typed_path(new.path)}"
    if as_json:
        ends = {"a": old.path, "b": new.path}
        print_json({**ends, "regressions": len(compared.regressions), **asdict(compared)})
    else:
        print_comparisons((old, new), compared, all_rows, verbose)
    print_warnings(compared.warnings, None if verbose or as_json else "--verbose")
    if compared.regressions or compared.is_slower_overall:
        raise RegressionError(regression_words(compared), where=str(new.path), remedy=following)
    if not as_json:
        print_next(following)


#: Verdicts that are listed with --all only, where there are more than a few.
_UNCHANGED, _FEW = ("same", "unsure"), 10
#: More points of one sweep alone are counted.
_MOST_POINTS = 4


def print_comparisons(
    sweeps: Sequence[Sweep], compared: SweepComparison, all_rows: bool, verbose: bool
) -> None:
    """Print all times together, then what changed; with ``verbose`` what repeats can show."""
    print_headline(comparison_headline(compared))
    print_lines(
        f"{name}: {sweep.name} on {sweep.device}"
        for name, sweep in zip(("old", "new"), sweeps, strict=True)
    )
    is_short = all_rows or len(compared.rows) <= _FEW
    if rows := [row for row in compared.rows if is_short or row.verdict not in _UNCHANGED]:
        print_table(comparison_table(rows, compared.rows))
    if verbose:
        print_lines(least_changes(compared))
    for name, points in (("old", compared.only_a), ("new", compared.only_b)):
        listed = verbose or len(points) <= _MOST_POINTS
        if points:
            print_lines([f"only in {name}: {'; '.join(points) if listed else len(points)}"])
    print_lines(f"the machines differ: {words}" for words in compared.machine)


def compare_devices(paths: Sequence[Path], as_json: bool) -> None:
    """Compare the newest sweep of each device; see ``docs/verbs/compare.md``."""
    from edgebench.analysis.compare import device_rows

    sweeps = _newest(paths)
    rows = device_rows(sweeps)
    if as_json:
        folders = {sweep.device: sweep.path for sweep in sweeps}
        print_json({"sweeps": folders, "rows": list(map(asdict, rows))})
        return
    print_lines(f"{sweep.device}: {sweep.name}" for sweep in sweeps)
    devices = [sweep.device for sweep in sweeps]
    titles = ("limit", *(title for device in devices for title in (device, "slower")))
    for workload in dict.fromkeys(row.workload for row in rows):
        cells = [
            [row.limit_label, *(cell for device in devices for cell in _cells(row.of(device)))]
            for row in rows
            if row.workload == workload
        ]
        print_table(Table(titles, cells, ("limit",), workload))
    print_next(f"edgebench show {typed_path(sweeps[0].path)}")


def _newest(paths: Sequence[Path]) -> list[Sweep]:
    """Each device's newest sweep of one scenario: the newest that several devices ran."""
    from edgebench.results.results import load
    from edgebench.results.sweep_reader import sweep_folders

    folders = [folder for path in paths for folder in sweep_folders(path)]
    sweeps = [load(folder).sweeps[0] for folder in dict.fromkeys(folders)]
    scenarios: dict[str, dict[str, Sweep]] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        name = str(sweep.resolved.get("scenario", {}).get("name"))
        # The last in the dictionary is the scenario whose newest sweep is the newest.
        by_device = scenarios[name] = scenarios.pop(name, {})
        by_device[sweep.device] = sweep
    every = list(scenarios.values())
    newest = next((group for group in reversed(every) if len(group) > 1), every[-1])
    return [newest[device] for device in sorted(newest)]


def _cells(point: DevicePoint | None) -> tuple[str, str]:
    if point is None:
        return "", ""
    if point.seconds is None or set(point.outcomes) != {"ok"}:
        ended = ", ".join(f"{n} {name}" for name, n in sorted(point.outcomes.items()))
        return ended or "none", ""
    return seconds(point.seconds.median), factor(point.slowdown)
