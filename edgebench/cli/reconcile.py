"""``edgebench reconcile``: the memory that each strategy measures, and why they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.table import Table, headline, size
from edgebench.cli.options import (
    flag,
    json_option,
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
from edgebench.errors import UsageError

if TYPE_CHECKING:
    from edgebench.analysis.reconciliation import LayerLedgers, Reconciliation
    from edgebench.measures.ledger import Ledger

_MIB = 1 << 20
_MOST_LAYERS = 12


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
    from edgebench.results.results import latest, load

    measured = _measured(source, **measuring)
    loaded = load(latest(measured or Path(source)))
    found = reconcile_sweep(loaded.sweeps[0], trial, network)
    if as_json:
        print_warnings(loaded.warnings)
        print_json({"path": loaded.path, "points": [one.to_json() for one in found]})
        return
    print_headline(_headline(found))
    for one in found:
        print_headline(one.title)
        _print_readings(one, verbose)
        for ledger in one.ledgers:
            click.echo()
            _print_ledger(ledger)
        if one.layers and verbose:
            click.echo()
            _print_layers(one.layers)
    print_lines(_lacking(found))
    print_warnings(loaded.warnings, None if verbose else "--verbose")
    print_next(f"edgebench export {typed_path(loaded.path)} --frame memory")


def _measured(source: str, results: Path, **described: Any) -> Path | None:
    """Return the sweep of a network that is measured now.

    None: ``source`` is a folder of results.
    """
    from edgebench.layers.references import names_network

    if Path(source).is_dir() or not names_network(source):
        if described["input"] is not None:
            raise UsageError(
                "--input is of a network that is measured now, and none is named",
                remedy="leave it out, or: edgebench reconcile mymodel.py:Net --input …",
            )
        return None
    from edgebench.cli.progress import shown_progress
    from edgebench.cli.run import refuse_unexpected
    from edgebench.run.sweep.sweep import SweepOptions, run_sweep
    from edgebench.scenario.new_scenario import scenario_from_flags
    from edgebench.workloads.engines.engine import TORCH, engines_for

    workload = {"kind": "inference", "network": source, **described}
    in_torch = engines_for(source) == (TORCH,)
    memory = {"strategies": ["process", *(["torch"] if in_torch else [])]}
    scenario = scenario_from_flags("reconcile", workload, {}, repeats=1, memory=memory)
    with shown_progress() as progress:
        summary = run_sweep(scenario, SweepOptions(results), progress)
    refuse_unexpected(summary)
    return summary.folder


def _headline(found: Sequence[Reconciliation]) -> str:
    """How far the strategies' peaks lie apart, and how much of that nothing explains."""
    gaps = []
    for one in found:
        trials = (one.chain.timed, *one.chain.own.values())
        read = [r.peak_bytes for trial in trials for r in trial.readings.values()]
        peaks = [peak for peak in read if peak is not None]
        gaps += [max(peaks) - min(peaks)] if peaks else []
    rests = [abs(ledger.unexplained_bytes) for one in found for ledger in one.ledgers]
    gap, rest = (size(max(sizes, default=None)) for sizes in (gaps, rests))
    return headline(
        f"{len(found)} point{'s' * (len(found) != 1)}",
        f"peaks differ by {gap}",
        f"unexplained {rest}",
    )


def _lacking(found: Sequence[Reconciliation]) -> list[str]:
    """Return the strategies that are missing, one line a reason."""
    reasons: dict[str, dict[str, None]] = {}
    for one in found:
        for name, why in one.missing.items():
            reasons.setdefault(why.replace(f'"{name}"', "{}"), {})[name] = None
    lines = []
    for why, names in reasons.items():
        listed = ", ".join(f'"{name}"' for name in names)
        lines.append(f"not measured: {', '.join(names)}: {why.replace('{}', listed)}")
    return lines


def _print_readings(one: Reconciliation, verbose: bool) -> None:
    rows = []
    for trial in (one.chain.timed, *one.chain.own.values()):
        for name, reading in trial.readings.items():
            cost = one.costs.get(name)
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
