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
    offer_networks,
    read_results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_answer,
    print_figures,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    print_warnings,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.layers.names import LOADERS, SCHEDULES
from edgebench.results.rounds import START
from edgebench.units import SWAP_KINDS, format_duration, format_size
from edgebench.words.prediction import (
    about_sentences,
    distinguishing_words,
    prediction_notes,
    prediction_sentences,
    prediction_title,
    total_name,
)
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    from edgebench.slowdown.answer import Answer, PhaseTime
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
    wanted = workload_query(network, *how)
    source = source_of(results, wanted, asked["device"], asked["swap_kind"], asked["storage"])
    found = source.predict(wanted, _limits(asked))
    files = _draw(source, found, results) if figure else []
    if as_json:
        print_warnings(source.warnings)
        about = {"schema": MODEL_SCHEMA, "path": results, "says": _says(source)}
        print_json({**about, "predictions": [*map(_as_json, found)], "figures": files})
        return
    print_predictions(found, verbose, source)
    print_figures(files)
    print_warnings(source.warnings, None if verbose else "--verbose")
    print_next(_next(results, found[0]))


def _refuse_folder(network: str | None) -> None:
    """A folder is no network: results are named by a flag."""
    if network and Path(network).is_dir():
        remedy = f"edgebench predict resnet18 --results {typed_path(Path(network))}"
        raise UsageError(f"{network} is a folder, not a network", remedy=remedy)


def _says(source: PredictionSource) -> list[str]:
    """For a storage on which nothing was run, that it is one."""
    if source.storage is None:
        return []
    at = f"storage {source.storage.label} on {source.data.device}"
    return [f"{at}: nothing was run at that speed"]


def _limits(asked: dict[str, Any]) -> list[str]:
    """The given limits and those of the given range; without any, the usual range."""
    from pydantic import ValidationError

    from edgebench.scenario.faults import message_of
    from edgebench.scenario.limits import MemoryRange

    given = list(asked["memory"])
    ranged = [asked["start"], asked["stop"], asked["steps"]]
    if ranged == [None, None, None] and given:
        return given
    start, stop, steps = (own or usual for own, usual in zip(ranged, _RANGE, strict=True))
    try:
        table = {"from": start, "to": stop, "steps": steps}
        return [*given, *MemoryRange.model_validate(table).labels()]
    except ValidationError as error:
        said = map(message_of, error.errors())
        remedy = "--from 120% --to 40%, or --from 800M --to 200M"
        raise UsageError("; ".join(said), where="--from and --to", remedy=remedy) from error


def _draw(source: PredictionSource, found: Sequence[Prediction], results: Path) -> list[Path]:
    from edgebench.report.figures.prediction import draw_predictions

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


#: How many of the layers that a limit slows down are named.
_LAYERS = 2


def print_predictions(found: Sequence[Prediction], verbose: bool, source: PredictionSource) -> None:
    """A sentence for each workload, then its table; with ``verbose`` its phases and layers too."""
    own = distinguishing_words(found)
    print_answer(prediction_sentences(found, own, source.storage))
    print_lines(_says(source))
    for one, words in zip(found, own, strict=True):
        _print_prediction(one, " · ".join(filter(None, (prediction_title(one), words))), verbose)


def _print_prediction(one: Prediction, title: str, verbose: bool) -> None:
    print_title(title)
    print_lines(about_sentences(one))
    starts = any(time.phase == START for at in one.at for time in at.phases)
    titles: tuple[str, ...] = (
        *("limit", "demand", "finishes", *([START] if starts else [])),
        *(total_name(one), "slower", "interval", "+10 % saves"),
    )
    rows = [_total_row(at, starts) for at in one.at]
    if not verbose:
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit",))
    if verbose:
        _print_phases(one)
    print_lines(prediction_notes(one))


def _print_phases(one: Prediction) -> None:
    """Each phase's time at each viable limit, and the layers that the limit slows down most."""
    from edgebench.slowdown.curves import WHOLES

    names = {phase.network for at in one.at for phase in at.phases}
    every = dict.fromkeys(p.phase for at in one.at for p in at.phases)
    phases = [p for p in every if p not in WHOLES]
    viable = [at for at in one.at if at.viable and at.phases]
    # A pipeline has every phase once for each network.
    if not viable or len(names) > 1 or not phases:
        return
    rows = []
    for at in viable:
        times = {time.phase: time for time in at.phases}
        cells = [_time(times[phase]) if phase in times else "-" for phase in phases]
        layers = ", ".join(f"{cost.name} {cost.share:.0%}" for cost in at.layers[:_LAYERS])
        rows.append([_limit(at), *cells, layers])
    most = "added most to"
    titles = ["limit", *phases, most]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit", most))


def _limit(at: Answer) -> str:
    return format_size(at.limit_bytes) + (" *" if at.extrapolated else "")


def _total_row(at: Answer, starts: bool) -> list[str]:
    """The cells of a limit; with ``starts``, its start's seconds too."""
    share = "-" if at.share is None else f"{at.share:.0%}"
    finishes = "-" if at.probability is None else f"{at.probability:.0%}"
    finishes = f"{at.finished} of {at.ended}" if at.kind == "measured" else finishes
    about = [_limit(at), share, finishes]
    total = at.phase("total")
    if not at.viable or total is None:
        return [*about, "killed" if not at.viable else "unknown", *[""] * (3 + starts)]
    start = at.phase(START)
    about += [format_duration(start.seconds) if start else "-"] if starts else []
    interval = "-"
    if total.low_s is not None and total.high_s is not None:
        interval = f"{format_duration(total.low_s)} to {format_duration(total.high_s)}"
    saved = total.saved_s or 0.0
    saves = format_duration(saved) if saved > 0.005 * total.seconds else "-"
    return [*about, format_duration(total.seconds), f"{total.slowdown:.2f}×", interval, saves]


def _time(time: PhaseTime) -> str:
    return f"{format_duration(time.seconds)} {time.slowdown:.2f}×"
