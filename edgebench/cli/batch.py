"""``edgebench batch``: the largest batch that trains under a limit, or the least limit for one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import (
    board_option,
    device_option,
    json_option,
    offer_networks,
    results_option,
    storage_option,
    swap_option,
    verbose_option,
    with_board,
)
from edgebench.cli.output import (
    print_answer,
    print_fields,
    print_json,
    print_next,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.units import format_size, parse_swap
from edgebench.words.boards import batch_board_sentence, uncounted_sentence
from edgebench.words.searches import (
    largest_batch_rows,
    largest_batch_sentence,
    least_memory_sentence,
)
from edgebench.workloads.training.names import PYTORCH

if TYPE_CHECKING:
    from edgebench.run.batch import BatchFit, BatchRequest, LeastMemory


@click.command()
@click.argument("network", shell_complete=offer_networks)
@click.option("--memory", help="The limit, as 1G: find the largest batch that fits.")
@click.option("--batch", "size", type=click.IntRange(1), help="A batch: find its least limit.")
@click.option(
    "--most", type=click.IntRange(1, 65536), default=1024, help="The largest batch to try."
)
@click.option("--framework", default="pytorch", help="pytorch, tensorflow.")
@click.option("--optimizer", default="sgd", help="sgd, momentum, adam, adagrad.")
@click.option("--precision", default="float32", help="float32 or bfloat16.")
@click.option("--checkpointing", is_flag=True, help="Recompute activations in the backward pass.")
@click.option("--shape", help="Shape of an image, as 3x224x224 [default: the network's].")
@click.option("--classes", type=click.IntRange(2), help="Classes of made-up images [default: 10].")
@click.option("--loss", help="Your own loss, as file.py:function [default: cross-entropy].")
@click.option("--data", help="Your own data, as file.py:function [default: made-up images].")
@click.option("--steps", type=int, default=3, help="Training steps in each trial.")
@swap_option
@storage_option
@board_option
@click.option("--timeout", default="5m", help="Time limit of a trial.")
@results_option
@device_option
@verbose_option("a line for each trial")
@json_option("the result")
@click.pass_context
def batch(context: click.Context, /, most: int, as_json: bool, **given: Any) -> None:
    """Find the largest batch with which NETWORK trains below --memory, by real trials.

    The batch is doubled until it no longer fits, then narrowed down; both ends are confirmed. With
    --batch instead, find the least limit for that batch. The trials are stored as a sweep; the same
    command resumes an interrupted search.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.run.batch import BatchRequest, LeastMemory, largest_batch, least_memory
    from edgebench.run.sweep import SweepOptions

    given = with_board(context, given)
    memory, size = given.pop("memory"), given.pop("size")
    if (memory is None) == (size is None):
        raise UsageError(
            "give either --memory (to find the largest batch) or --batch (to find its least limit)",
            remedy=f"edgebench batch {given['network']} --memory 1G",
        )
    options = SweepOptions(given.pop("results"), given.pop("device"))
    swap, verbose = given.pop("swap"), given.pop("verbose")
    training = BatchRequest(**given, swap="none" if parse_swap(swap)[0] == "none" else swap)
    found: BatchFit | LeastMemory
    with shown_progress(verbose) as progress:
        if memory is not None:
            found = largest_batch(training, memory, most, options, progress)
        else:
            found = least_memory(training, size or 1, options, progress)
    if as_json:
        print_json({"asked": asdict(training), **asdict(found)})
        return
    if isinstance(found, LeastMemory):
        answer = least_memory_sentence(found.found, training.network, size or 1)
        sized = batch_board_sentence(found, training.board)
        print_answer(filter(None, [answer, sized]))
        print_fields([("demand", format_size(found.demand_bytes)), *_about(found, training)])
    else:
        answer = largest_batch_sentence(found.found, training.network, str(memory))
        largest = found.found.fits.batch if found.found.fits else None
        sized = uncounted_sentence(training.network, largest, training.board)
        print_answer(filter(None, [answer, sized]))
        print_fields([*largest_batch_rows(found.found), *_about(found, training)])
    print_next(f"edgebench plot {typed_path(found.folder)}")


def _about(found: BatchFit | LeastMemory, training: BatchRequest) -> list[tuple[str, str]]:
    named = [] if training.framework == PYTORCH else [training.framework]
    named += [training.optimizer, training.precision]
    named += ["checkpointing"] if training.checkpointing else []
    return [
        ("training", f"{', '.join(named)}, swap {training.swap}"),
        ("trials", str(found.trials)),
        ("results", shown_path(found.folder)),
    ]
