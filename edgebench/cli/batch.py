"""``edgebench batch``: the largest batch that trains below a limit, or the least for a batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgebench.cli.options import device_option, results_option, swap_option
from edgebench.errors import UsageError
from edgebench.records.records import SCHEMA
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.searching.batching import Fit, Least, Training
    from edgebench.sweep.sweep import Progress

FoundT = TypeVar("FoundT")


@click.command(short_help="Find the largest batch that trains below a limit.")
@click.argument("network")
@click.option("--memory", help="The limit, as 1G: the largest batch that it holds is searched for.")
@click.option("--batch", "size", type=click.IntRange(1), help="A batch: its least limit instead.")
@click.option(
    "--most",
    type=click.IntRange(1, 65536),
    default=1024,
    show_default=True,
    help="The largest batch to try.",
)
@click.option("--optimizer", default="sgd", show_default=True, help="sgd, momentum, adam, adagrad.")
@click.option("--precision", default="float32", show_default=True, help="float32 or bfloat16.")
@click.option("--checkpointing", is_flag=True, help="Compute activations again going backward.")
@click.option("--shape", help="Shape of an image, as 3x224x224 [default: the network's].")
@click.option("--steps", type=int, default=3, show_default=True, help="Steps of a trial.")
@swap_option
@click.option("--timeout", default="5m", show_default=True, help="Longest that a trial may take.")
@results_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON on stdout.")
def batch(
    memory: str | None,
    size: int | None,
    most: int,
    swap: str,
    results: Path,
    device: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Find the largest batch with which NETWORK trains below --memory, by real trials.

    The batch is doubled until it no longer fits, then halved in between; both ends are confirmed.
    With --batch instead, the least limit for that batch. The trials are kept as a sweep like any
    other; one that was interrupted is gone on with by the same words.
    """
    from edgebench.cli.calibrate import parse_swap
    from edgebench.cli.minimum import scenario_swap
    from edgebench.searching.batching import Training, largest_batch, least_memory
    from edgebench.sweep.sweep import SweepOptions

    if (memory is None) == (size is None):
        raise UsageError(
            "say --memory for the largest batch, or --batch for the least memory",
            remedy=f"edgebench batch {asked['network']} --memory 1G",
        )
    training = Training(**asked, swap=scenario_swap(parse_swap(swap)[0], swap))
    options = SweepOptions(results, device)
    if memory is not None:
        limit = memory
        fit = _watched(lambda p: largest_batch(training, limit, most, options, p))
        _tell(fit, training, as_json, lambda: _print_fit(fit, training, limit))
    elif size is not None:
        wanted = size
        least = _watched(lambda p: least_memory(training, wanted, options, p))
        _tell(least, training, as_json, lambda: _print_least(least, training, wanted))


def _watched(search: Callable[[Progress], FoundT]) -> FoundT:
    from edgebench.cli.progress import make_progress

    progress = make_progress()
    try:
        return search(progress)
    finally:
        progress.close()


def _tell(found: Fit | Least, training: Training, as_json: bool, tell: Callable[[], None]) -> None:
    if as_json:
        data = {**asdict(found), "folder": str(found.folder)}
        click.echo(json.dumps({"schema": SCHEMA, "asked": asdict(training), **data}))
        return
    tell()
    click.echo(f"results: {found.folder}")
    click.echo(f"next: edgebench plot {found.folder}")


def _print_fit(fit: Fit, training: Training, memory: str) -> None:
    fits, too_large = fit.found.fits, fit.found.too_large
    click.echo(f"{_words(training)}, limit {memory}; {fit.trials} trials")
    if fits is None:
        click.echo("largest batch   none fits")
    else:
        peak = f"peak {format_size(fits.peak_bytes)}, " if fits.peak_bytes else ""
        click.echo(f"largest batch   {fits.batch} ({peak}{fits.trials} trials finished)")
    if too_large is None:
        click.echo("too large       none was tried: raise --most")
    else:
        click.echo(f"too large       {too_large.batch} ({too_large.outcome})")


def _print_least(least: Least, training: Training, size: int) -> None:
    from edgebench.cli.minimum import answer, outcome

    click.echo(f"{_words(training)}, batch {size}; {least.trials} trials")
    click.echo(f"least viable limit   {answer(least.found, outcome)}")
    click.echo(f"demand               {format_size(least.demand_bytes)}")


def _words(training: Training) -> str:
    usual = [training.network, training.optimizer, training.precision]
    return ", ".join([*usual, *(["checkpointing"] if training.checkpointing else [])])
