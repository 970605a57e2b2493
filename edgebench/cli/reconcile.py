"""``edgebench reconcile``: every strategy's figure of memory, and what lies between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from edgebench.measures.ledger import Ledger
    from edgebench.reconciling.reconciliation import LayerLedgers, Reconciliation

_MIB = 1 << 20
_MOST_LAYERS = 12
_WIDTH = 110


@click.command(short_help="Explain the gaps between what each strategy says of memory.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--trial", help="Reconcile this trial's point [default: all that were looked at].")
@click.option("--network", help="Only trials of this network, and only its layers.")
@click.option("--json", "as_json", is_flag=True, help="Print ledgers and layers as JSON on stdout.")
def reconcile(results: Path, trial: str | None, network: str | None, as_json: bool) -> None:
    """Put every strategy's figure side by side, for the newest sweep in RESULTS.

    A ledger goes from one figure to the next by terms that were measured each by itself; the rest
    is unexplained. What the sweep lacks is said, with how to get it.
    """
    from edgebench.reconciling.reconciliation import reconcile as reconcile_sweep
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    found = reconcile_sweep(loaded.sweeps[0], trial, network)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        points = [one.to_json() for one in found]
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), "points": points}))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    for one in found:
        _print(console, one)
    click.echo(f"next: edgebench plot {loaded.path}")
    click.echo(f"next: edgebench export {loaded.path} --frame memory")


def _print(console: Console, one: Reconciliation) -> None:
    console.print(one.title, style="bold", markup=False)
    _print_readings(console, one)
    for ledger in one.ledgers:
        _print_ledger(console, ledger)
    if one.layers:
        _print_layers(console, one.layers)
    for name, why in one.missing.items():
        console.print(f"no {name}: {why}", style="dim", markup=False)
    console.print()


def _print_readings(console: Console, one: Reconciliation) -> None:
    table = _table("strategy", "trial", "peak MiB", "± MiB", "cost", "how")
    for trial in (one.chain.timed, *one.chain.own.values()):
        for name, reading in trial.readings.items():
            cost = one.costs.get(name)
            table.add_row(
                name,
                trial.record.trial,
                _mib(reading.peak_bytes),
                _mib(reading.error.size_bytes),
                f"{cost:.1f}×" if cost is not None else "",
                reading.missing.get("peak_bytes", reading.method),
            )
    console.print(table)


def _print_ledger(console: Console, ledger: Ledger) -> None:
    source, target = ledger.source, ledger.target
    console.print()
    table = _table("from … to", "MiB", "")
    table.add_row(source.strategy, _mib(source.size_bytes), source.where)
    for term in ledger.terms:
        table.add_row(f"  {term.name}", _signed(term.size_bytes), term.says)
    rest = "" if ledger.closes else f"more than {_mib(ledger.small_bytes)} MiB: not small"
    table.add_row("  unexplained", _signed(ledger.unexplained_bytes), rest)
    table.add_row(target.strategy, _mib(target.size_bytes), target.where)
    console.print(table)


def _print_layers(console: Console, layers: Sequence[LayerLedgers]) -> None:
    """The layers in which some strategy's peak rises most above their start."""
    largest = sorted(layers, key=_rise, reverse=True)[:_MOST_LAYERS]
    shown = [layer for layer in layers if layer in largest]
    names = list(dict.fromkeys(name for layer in shown for name in layer.figures))
    table = _table("layer", "phase", *names, "unexplained")
    for layer in shown:
        rests = [abs(ledger.unexplained_bytes) for ledger in layer.ledgers]
        peaks = [_peak_of(layer, name) for name in names]
        table.add_row(str(layer.span.name), layer.key.phase, *peaks, _mib(max(rests, default=None)))
    console.print()
    console.print(f"peaks in MiB of {len(shown)} of {len(layers)} layers' loads and executions")
    console.print(table)


def _rise(layer: LayerLedgers) -> int:
    rises = [
        peak - before
        for before, peak, _ in layer.figures.values()
        if before is not None and peak is not None
    ]
    return max(rises, default=0)


def _peak_of(layer: LayerLedgers, name: str) -> str:
    return _mib(layer.figures[name][1]) if name in layer.figures else ""


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        words = name in ("strategy", "trial", "how", "from … to", "", "layer", "phase")
        table.add_column(name, justify="left" if words else "right")
    return table


def _mib(size_bytes: float | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / _MIB:.1f}"


def _signed(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:+.1f}"
