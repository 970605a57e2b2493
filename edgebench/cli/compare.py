"""Comparisons: ``compare`` of two sweeps or of devices, ``reconcile`` of strategies.

``reconcile`` shows the memory that each strategy measures, and why they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.models import (
    comparison_headline,
    comparison_table,
    least_changes,
    regression_words,
)
from edgebench.answers.table import Table, factor, headline, seconds, size
from edgebench.cli.options import (
    flag,
    json_option,
    read_newest,
    results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    typed_path,
)
from edgebench.cli.run import refuse_unexpected, run_shown
from edgebench.errors import RegressionError, UsageError
from edgebench.layers.names import TORCH
from edgebench.layers.references import names_network
from edgebench.results.sweep_reader import sweep_folders
from edgebench.text import parse_share
from edgebench.workloads.engines.engine import engines_for

if TYPE_CHECKING:
    from edgebench.analysis.compare import DevicePoint
    from edgebench.analysis.comparison import SweepComparison
    from edgebench.analysis.reconciliation import LayerLedgers, Reconciliation
    from edgebench.measures.ledger import Ledger
    from edgebench.results.results import Sweep

#: Verdicts that are listed with --all only, where there are more than a few.
_UNCHANGED, _FEW = ("same", "unsure"), 10
#: More points of one sweep alone are counted.
_MOST_POINTS = 4
_MIB = 1 << 20
_MOST_LAYERS = 12


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
    share = parse_share(threshold)
    if share is None:
        raise UsageError(
            f"{threshold!r} is not a percentage", where="--threshold", remedy="--threshold 10%"
        )
    old, new = (read_newest(path).sweeps[0] for path in (a, b))
    from edgebench.analysis.compare import compare_sweeps

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
    sweeps = _newest(paths)
    from edgebench.analysis.compare import device_rows

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
    folders = [folder for path in paths for folder in sweep_folders(path)]
    sweeps = [read_newest(folder).sweeps[0] for folder in dict.fromkeys(folders)]
    scenarios: dict[str, dict[str, Sweep]] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        name = str(sweep.resolved.get("scenario", {}).get("name"))
        # The last in the dictionary is the scenario whose newest sweep is the newest.
        by_device = scenarios[name] = scenarios.pop(name, {})
        by_device[sweep.device] = sweep
    every = list(scenarios.values())
    group = next((group for group in reversed(every) if len(group) > 1), every[-1])
    return [group[device] for device in sorted(group)]


def _cells(point: DevicePoint | None) -> tuple[str, str]:
    if point is None:
        return "", ""
    if point.seconds is None or set(point.outcomes) != {"ok"}:
        ended = ", ".join(f"{n} {name}" for name, n in sorted(point.outcomes.items()))
        return ended or "none", ""
    return seconds(point.seconds.median), factor(point.slowdown)


@click.command()
@click.argument("source", metavar="[RESULTS | NETWORK]", default="results")
@click.option("--trial", metavar="ID", help="Only this trial's point [default: all points].")
@click.option("--network", metavar="NAME", help="Only this network's trials and layers.")
@flag("input")
@results_option
@verbose_option("how each strategy measures, and the layers' peaks")
@json_option("ledgers and layers")
def reconcile(
    source: str,
    trial: str | None,
    network: str | None,
    verbose: bool,
    as_json: bool,
    **measuring: Any,
) -> None:
    """Compare what every strategy measured of memory in the newest sweep in RESULTS.

    A NETWORK is measured first, without a limit. A ledger goes from one measurement to another by
    terms that were measured by themselves; what is left is unexplained. What the sweep lacks is
    named, with how to get it.
    """
    from edgebench.analysis.reconciliation import reconcile_sweep

    measured = _measured(source, **measuring)
    loaded = read_newest(measured or Path(source))
    points = reconcile_sweep(loaded.sweeps[0], trial, network)
    if as_json:
        print_warnings(loaded.warnings)
        print_json({"path": loaded.path, "points": [point.to_json() for point in points]})
        return
    print_headline(_headline(points))
    for point in points:
        print_headline(point.title)
        _print_readings(point, verbose)
        for ledger in point.ledgers:
            click.echo()
            _print_ledger(ledger)
        if point.layers and verbose:
            click.echo()
            _print_layers(point.layers)
    print_lines(_lacking(points))
    print_warnings(loaded.warnings, None if verbose else "--verbose")
    print_next(f"edgebench export {typed_path(loaded.path)} --frame memory")


def _measured(source: str, results: Path, **described: Any) -> Path | None:
    """Return the sweep of a network that is measured now.

    None: ``source`` is a folder of results.
    """
    if Path(source).is_dir() or not names_network(source):
        if described["input"] is not None:
            raise UsageError(
                "--input is of a network that is measured now, and none is named",
                remedy="leave it out, or: edgebench reconcile mymodel.py:Net --input …",
            )
        return None
    from edgebench.scenario.new_scenario import scenario_from_flags

    workload = {"kind": "inference", "network": source, **described}
    in_torch = engines_for(source) == (TORCH,)
    memory = {"strategies": ["process", *(["torch"] if in_torch else [])]}
    scenario = scenario_from_flags("reconcile", workload, {}, repeats=1, memory=memory)
    summary = run_shown(scenario, results)
    refuse_unexpected(summary)
    return summary.folder


def _headline(points: Sequence[Reconciliation]) -> str:
    """How far the strategies' peaks lie apart, and how much of that nothing explains."""
    gaps = []
    for point in points:
        trials = (point.chain.timed, *point.chain.own.values())
        read = [r.peak_bytes for trial in trials for r in trial.readings.values()]
        peaks = [peak for peak in read if peak is not None]
        gaps += [max(peaks) - min(peaks)] if peaks else []
    rests = [abs(ledger.unexplained_bytes) for point in points for ledger in point.ledgers]
    gap, rest = (size(max(sizes, default=None)) for sizes in (gaps, rests))
    return headline(
        f"{len(points)} point{'s' * (len(points) != 1)}",
        f"peaks differ by {gap}",
        f"unexplained {rest}",
    )


def _lacking(points: Sequence[Reconciliation]) -> list[str]:
    """Return the strategies that are missing, one line a reason."""
    reasons: dict[str, dict[str, None]] = {}
    for point in points:
        for name, why in point.missing.items():
            reasons.setdefault(why.replace(f'"{name}"', "{}"), {})[name] = None
    lines = []
    for why, names in reasons.items():
        listed = ", ".join(f'"{name}"' for name in names)
        lines.append(f"not measured: {', '.join(names)}: {why.replace('{}', listed)}")
    return lines


def _print_readings(point: Reconciliation, verbose: bool) -> None:
    rows = []
    for trial in (point.chain.timed, *point.chain.own.values()):
        for name, reading in trial.readings.items():
            cost = point.costs.get(name)
            about = [name, trial.record.trial, _mib(reading.peak_bytes)]
            about += [_mib(reading.error.size_bytes), "" if cost is None else f"{cost:.1f}×"]
            rows.append([*about, reading.missing.get("peak_bytes", reading.method)])
    titles = ["strategy", "trial", "peak MiB", "± MiB", "cost", *(["how"] if verbose else [])]
    cells = [row[: len(titles)] for row in rows]
    print_table(Table(tuple(titles), cells, ("strategy", "trial", "how")))


def _print_ledger(ledger: Ledger) -> None:
    source, target = ledger.source, ledger.target
    rest = "" if ledger.closes else f"more than {_mib(ledger.small_bytes)} MiB: not small"
    rows = [
        [source.strategy, _mib(source.size_bytes), source.where],
        *([f"  {term.name}", _signed(term.size_bytes), term.says] for term in ledger.terms),
        ["  unexplained", _signed(ledger.unexplained_bytes), rest],
        [target.strategy, _mib(target.size_bytes), target.where],
    ]
    print_table(Table(("from … to", "MiB", "what"), rows, ("from … to", "what")))


def _print_layers(layers: Sequence[LayerLedgers]) -> None:
    """Print the layers in which some strategy's peak rises most above their start."""

    def rise(layer: LayerLedgers) -> int:
        sizes = layer.figures.values()
        return max((p - b for b, p, _ in sizes if b is not None and p is not None), default=0)

    largest = sorted(layers, key=rise, reverse=True)[:_MOST_LAYERS]
    shown = [layer for layer in layers if layer in largest]
    names = list(dict.fromkeys(name for layer in shown for name in layer.figures))
    rows = []
    for layer in shown:
        rests = [abs(ledger.unexplained_bytes) for ledger in layer.ledgers]
        peaks = [_mib(layer.figures[name][1]) if name in layer.figures else "" for name in names]
        rest = _mib(max(rests, default=None))
        rows.append([str(layer.span.name), layer.key.phase, *peaks, rest])
    title = f"peaks in MiB of {len(shown)} of {len(layers)} layers' loads and executions"
    titles = ("layer", "phase", *names, "unexplained")
    print_table(Table(titles, rows, ("layer", "phase"), title))


def _mib(size_bytes: float | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / _MIB:.1f}"


def _signed(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:+.1f}"
