"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.records.records import SCHEMA
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from edgebench.slowdown.ladder import Climb, SetStep, Step
    from edgebench.slowdown.model import Parameter
    from edgebench.slowdown.validation import Errors


@click.command(short_help="Fit slowdown against limit, per network and phase.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--json", "as_json", is_flag=True, help="Print the fits as JSON on stdout.")
def fit(results: Path, as_json: bool) -> None:
    """Fit the newest sweep in RESULTS: a sweep's folder or one that holds several.

    Every model is shown with its error at limits that it was not fitted to. The fits are kept as
    JSON in the sweep's folder, in fits/.
    """
    from edgebench.describing import with_trainings
    from edgebench.results.results import latest, load
    from edgebench.slowdown.context import context_of
    from edgebench.slowdown.data import curves
    from edgebench.slowdown.ladder import climb_all
    from edgebench.slowdown.store import climb_as_json, save, sets_as_json

    loaded, untold = with_trainings(load(latest(results)))
    found = curves(loaded)
    context, lacking = context_of(loaded, found)
    climbs, skipped = climb_all(found, str(loaded.path), context)
    paths = save(loaded.path, climbs)
    for warning in (*loaded.warnings, *untold, *skipped, *lacking):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        fits = {"fits": [climb_as_json(c) for c in climbs], "sets": sets_as_json(climbs)}
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), **fits}))
        return
    _print(climbs)
    click.echo(f"wrote {len(paths)} fits to {paths[0].parent}")
    click.echo(f"next: edgebench plot {loaded.path}")


def _print(climbs: Sequence[Climb]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    for climb in climbs:
        table = _table("AIC", last="fitted, with 90 % interval")
        for step in climb.every:
            row = _row(step.rung.name, step.errors, step is climb.recommended)
            aic = step.fit.aic if step.fit else None
            table.add_row(*row, "-" if aic is None else f"{aic:.1f}", _fitted(step))
        console.print(climb.curve.label, style="bold", markup=False)
        console.print(_about(climb), style="dim", markup=False)
        console.print(table)
        console.print()
    for line in _summary(climbs):
        console.print(line, markup=False)
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


def _table(*more: str, last: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("model", no_wrap=True)
    for title in ("error", "median", "inside", "outside", *more):
        table.add_column(title, justify="right")
    table.add_column(last)
    return table


def _row(name: str, errors: Errors | None, is_best: bool) -> list[str]:
    shares = (
        [errors.mape, errors.median_ape, errors.mape_inside, errors.mape_outside]
        if errors
        else [None] * 4
    )
    told = ("-" if share is None else f"{share:.1%}" for share in shares)
    return ["*" if is_best else "", name, *told]


def _summary(climbs: Sequence[Climb]) -> list[RenderableType]:
    """All curves together, and which rung is recommended; nothing where none could be judged."""
    from edgebench.slowdown.ladder import together

    found = together(climbs)
    if len(climbs) < 2 or not found:
        return []
    first, *others = sorted(found, key=lambda name: found[name].log_ratio)
    table = _table("limits", last="off by, on average")
    for name, errors in found.items():
        off = f"x {math.exp(errors.log_ratio):.2f}"
        table.add_row(*_row(name, errors, name == first), str(errors.count), off)
    words = f"recommended: {first}: nearest to {found[first].count} limits left out"
    words += f" (off by x {math.exp(found[first].log_ratio):.2f} on average"
    if others:
        words += f"; {others[0]} by x {math.exp(found[others[0]].log_ratio):.2f}"
    return ["all curves together", table, f"{words})", ""]


def _fitted(step: Step | SetStep) -> str:
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
