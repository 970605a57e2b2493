"""``edgebench predict``: what happens at limits, and with networks, that nobody ran."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.choices import LOADERS, SCHEDULES, SWAP_KINDS
from edgebench.cli.predicted import print_next, print_predictions
from edgebench.errors import UsageError
from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.predicting import Source
    from edgebench.slowdown.prediction import Prediction

_RANGE = ("120%", "40%", 9)


@click.command(short_help="Predict time, slowdown and viability at any limit.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--network", help="Which network, or pipeline as alexnet+resnet18 [default: all run]."
)
@click.option("--module", help="A network of yours: package.module:function that makes it.")
@click.option("--memory", multiple=True, help="Limit, as 200M or 75%; may be given repeatedly.")
@click.option("--from", "start", help="Widest limit of a range, as 120%.")
@click.option("--to", "stop", help="Tightest limit of a range, as 40%.")
@click.option("--steps", type=click.IntRange(2, 100), help="Limits in the range.")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="Only this schedule.")
@click.option("--loader", type=click.Choice(LOADERS), help="Only this loader.")
@click.option("--batch", type=click.IntRange(min=1), help="Only this batch size.")
@click.option("--image", type=click.IntRange(min=1), help="Edge of the input in pixels.")
@click.option("--device", help="Whose results and constants [default: the only device's].")
@click.option("--swap-kind", type=click.Choice(SWAP_KINDS), help="With which kind of swap.")
@click.option("--figure", is_flag=True, help="Draw slowdown against limit as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the predictions as JSON on stdout.")
def predict(results: Path, figure: bool, as_json: bool, **asked: Any) -> None:
    """Predict what limits do, from the sweeps and calibrations at or below RESULTS, or from fits.

    A network that was run is predicted at limits that were not; one that never was, from its layer
    table. What lies beyond all trials is answered too, and marked as extrapolation.
    """
    from edgebench.predicting import source_of
    from edgebench.slowdown.asking import Wanted

    how = (asked[name] for name in ("schedule", "loader", "batch", "image"))
    limits, wanted = _limits(asked), Wanted(_network(asked), *how)
    source = source_of(results, wanted, asked["device"], asked["swap_kind"])
    found = source.predict(wanted, limits)
    files = _draw(source, found, results) if figure else []
    for warning in source.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps(_as_json(found, results, files)))
        return
    print_predictions(found)
    for file in files:
        if file.suffix == ".png":
            click.echo(f"figure: {file}")
    print_next(results, found)


def _limits(asked: dict[str, Any]) -> list[str]:
    """The limits given, those of the range, or the usual range."""
    from edgebench.scenario.limit_axes import MemoryRange

    given = list(asked["memory"])
    ranged = [asked["start"], asked["stop"], asked["steps"]]
    if given and ranged == [None, None, None]:
        return given
    start, stop, steps = (own or usual for own, usual in zip(ranged, _RANGE, strict=True))
    try:
        table = {"from": start, "to": stop, "steps": steps}
        return [*given, *MemoryRange.model_validate(table).labels()]
    except ValueError as error:
        said = [str(one["msg"]).removeprefix("Value error, ") for one in error.errors()]  # type: ignore[attr-defined]
        remedy = "write it as --from 120% --to 40%, or --from 800M --to 200M"
        raise UsageError("; ".join(said), where="--from and --to", remedy=remedy) from error


def _network(asked: dict[str, Any]) -> str | None:
    if asked["module"] and asked["network"]:
        raise UsageError("--network and --module name two networks", remedy="leave one out")
    if asked["module"] and ":" not in asked["module"]:
        remedy = "name the function that makes it: package.module:function"
        raise UsageError(f"--module {asked['module']} names no function", remedy=remedy)
    named: str | None = asked["module"] or asked["network"]
    return named


def _draw(source: Source, found: Sequence[Prediction], results: Path) -> list[Path]:
    from edgebench.figures.prediction import draw

    if source.results is None:
        remedy = "name the results themselves instead of their fits"
        raise UsageError("stored fits alone can't be drawn", remedy=remedy)
    return draw(source.results, found, source.predictor, results)


def _as_json(found: Sequence[Prediction], results: Path, files: Sequence[Path]) -> dict[str, Any]:
    rows = []
    for one in found:
        row = asdict(one)
        del row["subject"]
        row["at"] = [{**asdict(at), "viable": at.viable} for at in one.at]
        about = {"network": one.subject.network, "settings": one.subject.settings}
        rows.append({**about, "was_run": one.subject.was_run, **row})
    return {
        "schema": SCHEMA,
        "path": str(results),
        "predictions": rows,
        "figures": [str(file) for file in files],
    }
