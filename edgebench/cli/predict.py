"""``edgebench predict``: what happens at limits, and with networks, that were not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import (
    json_option,
    memory_option,
    offer_boards,
    offer_networks,
    read_results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_figures,
    print_json,
    print_next,
    print_warnings,
    typed_path,
)
from edgebench.cli.prediction_tables import print_predictions
from edgebench.errors import UsageError
from edgebench.layers.names import LOADERS, SCHEDULES
from edgebench.units import SWAP_KINDS
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    from edgebench.slowdown.other_device import OtherDevice
    from edgebench.slowdown.prediction import Prediction
    from edgebench.slowdown.prediction_source import PredictionSource

_RANGE = ("120%", "40%", 9)


@click.command()
@click.argument("network", required=False, shell_complete=offer_networks)
@read_results_option
@memory_option
@click.option("--from", "start", help="Widest limit of a range, as 120%.")
@click.option("--to", "stop", help="Tightest limit of a range, as 40%.")
@click.option("--steps", type=click.IntRange(2, 100), help="Number of limits in the range.")
@click.option("--schedule", type=click.Choice((*SCHEDULES, WHOLE)), help="Only this schedule.")
@click.option("--loader", type=click.Choice(LOADERS), help="Only this loader.")
@click.option("--batch", type=click.IntRange(min=1), help="Only this batch size.")
@click.option("--image", type=click.IntRange(min=1), help="Input's width and height in pixels.")
@click.option("--device", help="Device whose results to use [default: the only one].")
@click.option("--swap-kind", type=click.Choice(SWAP_KINDS), help="Only this kind of swap.")
@click.option("--storage", help="Storage held to this speed, as read=100MB/s; or as-is.")
@click.option(
    "--on",
    metavar="BOARD",
    shell_complete=offer_boards,
    help="Predict for a board on which nothing was run, as raspberry-pi-4-4g (edgebench boards).",
)
@click.option(
    "--constants",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Predict for a device on which no network was run, from its calibration's file.",
)
@click.option("--figure", is_flag=True, help="Also draw slowdown against limit.")
@verbose_option("each phase's time, the layers slowed most, and what more memory saves")
@json_option("the predictions")
def predict(
    network: str | None, results: Path, figure: bool, verbose: bool, as_json: bool, **asked: Any
) -> None:
    """Predict time, slowdown and kills of NETWORK at any limit.

    NETWORK is a name, a pipeline as alexnet+resnet18, or your own as package.module:function;
    without one, all that were measured are predicted. At a measured limit the answer is what was
    measured. A network that was not measured is predicted from its layers. Each workload of the
    network gets an answer; flags choose among them.
    """
    from edgebench.slowdown.models.base import MODEL_SCHEMA
    from edgebench.slowdown.prediction_source import source_of
    from edgebench.slowdown.query import workload_query

    how = (asked[name] for name in ("schedule", "loader", "batch", "image"))
    _refuse_folder(network)
    if asked["on"] and asked["constants"]:
        raise UsageError("give either --on or --constants", remedy="--on raspberry-pi-4-4g")
    wanted = workload_query(network, *how)
    source = source_of(results, wanted, asked["device"], asked["swap_kind"], asked["storage"])
    source, other = _moved(source, asked)
    limits = _limits(asked, other.memory if other else None)
    found = source.predict(wanted, limits)
    files = _draw(source, found, results) if figure else []
    if as_json:
        print_warnings(source.warnings)
        about = {"schema": MODEL_SCHEMA, "path": results, "says": other.says if other else ()}
        print_json({**about, "predictions": [*map(_as_json, found)], "figures": files})
        return
    print_predictions(found, verbose, other)
    print_figures(files)
    print_warnings(source.warnings, None if verbose else "--verbose")
    print_next(_next(results, found[0]))


def _refuse_folder(network: str | None) -> None:
    """A folder is no network: results are named by a flag."""
    if network and Path(network).is_dir():
        remedy = f"edgebench predict resnet18 --results {typed_path(Path(network))}"
        raise UsageError(f"{network} is a folder, not a network", remedy=remedy)


def _moved(
    source: PredictionSource, asked: dict[str, Any]
) -> tuple[PredictionSource, OtherDevice | None]:
    """For another device, if one is asked for; with what is known of it."""
    from edgebench.slowdown.prediction_source import elsewhere

    if not (asked["on"] or asked["constants"]):
        return source, source.other
    return elsewhere(source, asked["on"], asked["constants"])


def _limits(asked: dict[str, Any], memory: str | None) -> list[str]:
    """The given limits and those of the given range; without any, a board's or the usual range."""
    from edgebench.scenario.limits import MemoryRange

    given = list(asked["memory"])
    ranged = [asked["start"], asked["stop"], asked["steps"]]
    if ranged == [None, None, None] and (given or memory):
        return given or [str(memory)]
    start, stop, steps = (own or usual for own, usual in zip(ranged, _RANGE, strict=True))
    try:
        table = {"from": start, "to": stop, "steps": steps}
        return [*given, *MemoryRange.model_validate(table).labels()]
    except ValueError as error:
        said = [str(one["msg"]).removeprefix("Value error, ") for one in error.errors()]  # type: ignore[attr-defined]
        remedy = "--from 120% --to 40%, or --from 800M --to 200M"
        raise UsageError("; ".join(said), where="--from and --to", remedy=remedy) from error


def _draw(source: PredictionSource, found: Sequence[Prediction], results: Path) -> list[Path]:
    from edgebench.report.figures.prediction import draw_predictions

    if source.results is None:
        remedy = "name their sweep: --results results --figure"
        raise UsageError("stored fits can't be drawn without their results", remedy=remedy)
    return draw_predictions(source.results, found, source, results)


def _as_json(one: Prediction) -> dict[str, Any]:
    row = asdict(one)
    del row["subject"]
    row["at"] = [at.to_json() for at in one.at]
    subject = one.subject
    about = {"network": subject.network, "settings": subject.settings}
    about |= {"workload_id": subject.workload}
    return {**about, "was_run": subject.was_run, **row}


def _next(results: Path, one: Prediction) -> str:
    network = one.subject.network
    if "+" in network or ":" in network or one.subject.settings.get("kind") == "training":
        return f"edgebench fit {typed_path(results)}"
    return f"edgebench minimum {network} --slowdown 1.5"
