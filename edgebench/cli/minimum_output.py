"""What ``edgebench minimum`` prints: the sentence, then the trials behind it."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.boards.board import find_board
from edgebench.cli.output import print_json, print_next, shown_path, typed_path
from edgebench.text import printable, shortened
from edgebench.units import MIB, format_duration, format_size, parse_swap
from edgebench.words.boards import minimum_board_sentence
from edgebench.words.minimum import give_lines, swap_ram_sentence
from edgebench.words.searches import bracket_words, limit_end_words, limit_slowdown_words

if TYPE_CHECKING:
    from edgebench.run.minimum_answer import Minimum
    from edgebench.run.minimum_requests import MinimumRequest, ProgramRequest


def print_minimum_json(found: Minimum, wanted: MinimumRequest | ProgramRequest) -> None:
    """The answer as JSON."""
    answer = {"sentence": found.sentence, "fits": found.fits, **asdict(found)}
    give = None
    if found.give is not None:
        give = {**asdict(found.give), "lines": give_lines(found.give, *parse_swap(wanted.swap))}
    more = {
        "give": give,
        "finishes_with_bytes": found.finishes_with_bytes,
        "failed_above_bytes": found.failed_above_bytes,
    }
    print_json({"asked": asdict(wanted), **answer, **more})


def print_minimum(
    found: Minimum, wanted: MinimumRequest | ProgramRequest, *, verbose: bool
) -> None:
    """The sentence; if asked for, the limits that it rests on.

    With a board also whether what it has is enough; with zram what that took.
    """
    board = wanted.board
    words = printable(f"{shortened(found.name)} {found.sentence}")
    click.echo(click.wrap_text(words, _width(), "", "  "))
    is_told = board and not found.unmeasured.growth
    more = [minimum_board_sentence(found, find_board(board))] if board and is_told else []
    for sentence in filter(None, [*more, swap_ram_sentence(found)]):
        click.echo(click.wrap_text(sentence, _width(), "", "  "))
    if verbose:
        _print_details(found)
        if found.give is not None:
            # Not wrapped: they are pasted.
            for line in give_lines(found.give, *parse_swap(wanted.swap)).values():
                click.echo(f"  {line}")
        click.echo(f"results: {shown_path(found.folder)}")


def print_next_step(
    found: Minimum, wanted: MinimumRequest | ProgramRequest, flags: Sequence[str]
) -> None:
    """What to type next: for a closer answer, with swap, as a check for CI, or the layers.

    ``flags`` are those that it was called with.
    """
    from edgebench.cgroups.swap import can_make_swap
    from edgebench.run.minimum_requests import MinimumRequest, ProgramRequest

    if isinstance(wanted, ProgramRequest) and _print_better_measurement(found, wanted, flags):
        return
    if isinstance(wanted, MinimumRequest) and wanted.swap != "none":
        good = (found.fast or found.viable).good
        limit = f" --memory {round(good.limit_bytes) >> 20}M" if good else ""
        print_next(f"edgebench layers {shlex.quote(wanted.network)}{limit} --swap {wanted.swap}")
    elif isinstance(wanted, MinimumRequest) and can_make_swap():
        print_next(f"edgebench minimum {shlex.join([*flags, '--swap', '2G'])}")
    elif isinstance(wanted, MinimumRequest):
        print_next(f"edgebench show {typed_path(found.folder)}")
    elif not (found.fast or found.viable).settled and not found.finished:
        print_next(f"edgebench minimum {shlex.join([*flags, '--budget', '5m'])} -- {found.name}")
    elif wanted.swap == "none" and not wanted.within and can_make_swap():
        print_next(f"edgebench minimum {shlex.join([*flags, '--swap', '2G'])} -- {found.name}")
    elif (good := (found.fast or found.viable).good) and not wanted.within:
        check = ["--within", f"{math.ceil(good.limit_bytes / MIB)}M"]
        if found.fast and not (wanted.slowdown or wanted.throughput):
            check += ["--slowdown", f"{found.slowdown:g}"]
        print_next(f"edgebench minimum {shlex.join([*flags, *check])} -- {found.name}")
    else:
        print_next(f"edgebench show {typed_path(found.folder)}")


def _print_better_measurement(found: Minimum, wanted: ProgramRequest, flags: Sequence[str]) -> bool:
    """What to type where the answer leaves memory out, or is none; whether there is something."""
    seen = found.unmeasured
    more: tuple[str, ...] = ()
    if seen.growth and not wanted.soak:
        more, flags = ("--soak", "10m"), _without(flags, "--for")
    elif seen.processes and not (wanted.stop_after or wanted.soak):
        more = ("--for", "20s")
    elif wanted.soak and not wanted.within:
        more = ("--within", f"{math.ceil(found.demand_bytes / MIB)}M")
    if more:
        print_next(f"edgebench minimum {shlex.join([*flags, *more])} -- {found.name}")
    elif seen.growth:
        print_next(f"edgebench show {typed_path(found.folder)}")
    return bool(more or seen.growth)


def _without(flags: Sequence[str], name: str) -> list[str]:
    """The flags without one that takes a value."""
    kept = [flag for flag in flags if not flag.startswith(f"{name}=")]
    if name in kept:
        at = kept.index(name)
        del kept[at : at + 2]
    return kept


def _width() -> int:
    return min(80, shutil.get_terminal_size().columns)


def _print_details(found: Minimum) -> None:
    """Both ends of each answer, and how often they were tried."""
    click.echo(f"{'least viable limit':<34}{bracket_words(found.viable, limit_end_words)}")
    if found.fast:
        name = f"least limit within x{found.slowdown:.3g}"
        click.echo(f"{name:<34}{bracket_words(found.fast, limit_slowdown_words)}")
    words = f"demand {format_size(found.demand_bytes)}"
    if found.unlimited_s is not None:
        words += f"; unlimited {format_duration(found.unlimited_s)}"
    if found.unlimited_per_s is not None:
        words += f"; unlimited {found.unlimited_per_s:.3g} per second"
    click.echo(f"{words}; {found.trials} trials")
