"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.records import SCHEMA
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.ladder import Climb, Step
    from edgebench.slowdown.model import Parameter


@click.command(short_help="Fit slowdown against limit, per network and phase.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--json", "as_json", is_flag=True, help="Print the fits as JSON on stdout.")
def fit(results: Path, as_json: bool) -> None:
    """Fit the newest sweep in RESULTS: a sweep's folder or one that holds several.

    Every model is shown with its error at limits that it was not fitted to. The fits are kept as
    JSON in the sweep's folder, in fits/.
    """
    from edgebench.results import latest, load
    from edgebench.slowdown.data import curves
    from edgebench.slowdown.ladder import climb_all
    from edgebench.slowdown.store import climb_as_json, save

    loaded = load(latest(results))
    climbs, skipped = climb_all(curves(loaded), str(loaded.path))
    paths = save(loaded.path, climbs)
    for warning in (*loaded.warnings, *skipped):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        rows = [climb_as_json(climb) for climb in climbs]
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), "fits": rows}))
        return
    _print(climbs)
    click.echo(f"wrote {len(paths)} fits to {paths[0].parent}")
    click.echo(f"next: edgebench plot {loaded.path}")


def _print(climbs: Sequence[Climb]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    for climb in climbs:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("")
        table.add_column("model", no_wrap=True)
        for title in ("error", "median", "inside", "outside", "AIC"):
            table.add_column(title, justify="right")
        table.add_column("fitted, with 90 % interval")
        for step in climb.steps:
            table.add_row(*_row(step, step is climb.best))
        console.print(climb.curve.label, style="bold", markup=False)
        console.print(_about(climb), style="dim", markup=False)
        console.print(table)
        console.print()
    console.print(
        "error: of the predicted time at a limit left out of the fit, mean; then median, mean\n"
        "between other limits, mean beyond them. * nearest by ratio of predicted to measured.",
        style="dim",
        markup=False,
    )


def _about(climb: Climb) -> str:
    curve = climb.curve
    low, high = (format_size(float(limit)) for limit in (curve.limits[0], curve.limits[-1]))
    words = f"{len(curve.seconds)} trials at {len(curve.limits)} limits, {low} to {high}"
    words += f"; unlimited {format_duration(curve.unlimited_s)}"
    if curve.demand_bytes is not None:
        words += f"; demand {format_size(curve.demand_bytes)}"
    return words + (f"; repeats differ by {curve.noise:.1%}" if curve.noise is not None else "")


def _row(step: Step, is_best: bool) -> list[str]:
    errors = step.errors
    shares = (
        [errors.mape, errors.median_ape, errors.mape_inside, errors.mape_outside]
        if errors
        else [None] * 4
    )
    aic = step.fit.aic if step.fit else None
    return [
        "*" if is_best else "",
        step.rung.name,
        *("-" if share is None else f"{share:.1%}" for share in shares),
        "-" if aic is None else f"{aic:.1f}",
        _fitted(step),
    ]


def _fitted(step: Step) -> str:
    from edgebench.slowdown.hinge import Hinge

    if step.fit is None or step.rung.name != Hinge.name:
        return step.reason or step.rung.says
    words = "  ".join(_parameter(parameter) for parameter in step.fit.parameters)
    return "\n".join([words, *(note for note in (step.fit.note, step.reason) if note)])


def _parameter(found: Parameter) -> str:
    scale, unit = (1 << 20, " MiB") if found.unit == "bytes" else (1, "")
    words = f"{found.name} = {found.value / scale:.3g}{unit}"
    if found.low is None or found.high is None:
        return words
    return f"{words} ({found.low / scale:.3g} to {found.high / scale:.3g})"
