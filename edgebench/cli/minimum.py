"""``edgebench minimum``: the least memory a network finishes with, and is fast enough with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import device_option, results_option, swap_option
from edgebench.errors import EdgebenchError
from edgebench.records.records import SCHEMA
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.searching.bracketing import Found, Guess, Tried
    from edgebench.searching.minimum import Asked, Minimum

_PHASES = ("total", "load", "first", "execute")


@click.command(short_help="Find the least memory a network needs, by few real trials.")
@click.argument("network")
@click.option(
    "--slowdown",
    type=click.FloatRange(min=1.01),
    help="Also the least limit at which it is slower by no more than this factor, as 1.5.",
)
@click.option(
    "--phase",
    type=click.Choice(_PHASES),
    default="total",
    show_default=True,
    help="Whose slowdown: a whole round, or one of its phases.",
)
@click.option("--schedule", default="bulk", show_default=True, help="In which order layers run.")
@click.option("--loader", default="copy", show_default=True, help="How weights are read.")
@click.option("--batch", type=int, default=1, show_default=True, help="Images at once.")
@click.option("--image", type=int, help="Edge of the input in pixels [default: the network's].")
@swap_option
@click.option("--timeout", default="2m", show_default=True, help="Longest that a trial may take.")
@results_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON on stdout.")
def minimum(results: Path, device: str | None, as_json: bool, swap: str, **asked: Any) -> None:
    """Find the least limit at which NETWORK finishes, by as few real trials as possible.

    It begins where a prediction says, and closes in from both sides until a limit that is enough
    and one that is not are within 5 %. The trials are kept as a sweep like any other.
    """
    from edgebench.cli.calibrate import parse_swap
    from edgebench.cli.progress import make_progress
    from edgebench.searching.minimum import Asked, find_minimum
    from edgebench.sweep.sweep import SweepOptions

    kind, size_bytes = parse_swap(swap)
    wanted = Asked(**asked, swap=scenario_swap(kind, swap))
    guess, why = _guess(wanted, results, device, (kind, size_bytes))
    click.echo(why, err=True)
    progress = make_progress()
    try:
        found = find_minimum(wanted, SweepOptions(results, device), progress, guess)
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps(_as_json(found, wanted)))
        return
    _print(found, wanted)


def scenario_swap(kind: str, text: str) -> Any:
    """Swap as a scenario writes it."""
    size = text.rpartition(":")[2]
    return {"kind": kind, "size": size} if kind == "zram" else size


def _guess(
    asked: Asked, results: Path, device: str | None, swap: tuple[str, int | None]
) -> tuple[Guess, str]:
    """Where to begin, as predicted from the device's earlier results, and that in words."""
    from edgebench.machine.environment import device_name
    from edgebench.searching.bracketing import Guess

    try:
        from edgebench.predicting import predicted_guess

        guess = predicted_guess(asked, results / (device or device_name()), *swap)
    except EdgebenchError as error:
        return Guess(), f"no prediction to begin with: {error.what}"
    except ModuleNotFoundError as error:
        return Guess(), f"no prediction to begin with: {error.name} is missing"
    known = [format_size(b) for b in (guess.viable_bytes, guess.slowdown_bytes) if b]
    return guess, f"begins where a prediction says: {' and '.join(known) or 'nowhere'}"


def _print(found: Minimum, asked: Asked) -> None:
    swap = asked.swap if isinstance(asked.swap, str) else " ".join(asked.swap.values())
    click.echo(f"{asked.network}, {asked.schedule}, {asked.loader}, swap {swap}")
    click.echo(f"{'least viable limit':<34}{answer(found.viable, outcome)}")
    if found.within:
        name = f"x{asked.slowdown:g} ({asked.phase})"
        click.echo(f"{'least limit within ' + name:<34}{answer(found.within, _slowdown)}")
    unlimited = found.unlimited_s
    words = f"demand {format_size(found.demand_bytes)}"
    if unlimited is not None:
        words += f"; unlimited {format_duration(unlimited)} ({asked.phase})"
    click.echo(f"{words}; {found.trials} trials")
    click.echo(f"results: {found.folder}")
    click.echo(f"next: edgebench show {found.folder}")


def answer(found: Found, how: Callable[[Tried], str]) -> str:
    """What was found, in words; ``how`` words what one limit came to."""
    good, bad = found.good, found.bad
    if good is None:
        return f"none up to {_tried(bad, how)}" if bad else "unknown"
    below = f"; not enough: {_tried(bad, how)}" if bad else "; nothing less was tried"
    return _tried(good, how) + below


def _tried(one: Tried, how: Callable[[Tried], str]) -> str:
    return f"{format_size(one.limit_bytes)} ({how(one)})"


def outcome(one: Tried) -> str:
    """How a trial at that limit ended."""
    return "finished" if one.outcome == "ok" else one.outcome


def _slowdown(one: Tried) -> str:
    return f"x{one.slowdown:.2f}" if one.slowdown is not None else one.outcome


def _as_json(found: Minimum, asked: Asked) -> dict[str, Any]:
    return {"schema": SCHEMA, "asked": asdict(asked), **asdict(found), "folder": str(found.folder)}
