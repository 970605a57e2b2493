"""Predictions in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from rich.console import Console

    from edgebench.slowdown.prediction import AtLimit, PhaseTime, Prediction

#: Settings that a workload is called by, beside its network: of inference, and of training.
_TOLD_APART = ("schedule", "loader", "optimizer")
#: How many of the layers that a limit makes slow are named.
_LAYERS = 2


def print_predictions(found: Sequence[Prediction]) -> None:
    """Each workload's limits as a table, with what it means below."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 170)
    for one in found:
        _print(console, one)


def _print(console: Console, one: Prediction) -> None:
    from rich.table import Table

    console.print(_title(one), style="bold", markup=False)
    console.print(_about(one), style="dim", markup=False, soft_wrap=True)
    phases = _phases(one)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("limit", justify="right", no_wrap=True)
    for title in ("of demand", "finishes", *phases, "90 % interval", "+10 % saves"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("added most to", no_wrap=True)
    for at in one.at:
        table.add_row(*_row(at, phases))
    console.print(table)
    for note in _notes(one):
        console.print(note, style="dim", markup=False)
    console.print()


def _title(one: Prediction) -> str:
    settings = one.subject.settings
    about = (str(settings.get(key) or "") for key in _TOLD_APART)
    words = [one.subject.network, *about]
    batch = settings.get("batch")
    words += [f"batch {batch:g}"] if batch not in (None, 1) else []
    return " · ".join([*(word for word in words if word), f"swap {settings.get('swap_kind')}"])


def _about(one: Prediction) -> str:
    run = "run before" if one.subject.was_run else "never run"
    words = [f"{run}; told by {one.rung}"]
    if one.demand_bytes:
        words.append(f"demand {format_size(one.demand_bytes)}")
    if one.least_viable_bytes is not None:
        words.append(f"least viable limit {_least(one)}")
    if one.unslowed_bytes:
        words.append(f"hardly slowed from {format_size(one.unslowed_bytes)} on")
    return "; ".join(words)


def _least(one: Prediction) -> str:
    if not one.least_viable_bytes:
        lowest = [float(c.limits[0]) for c in one.subject.curves if len(c.limits)]
        tried = f"; trials finished down to {format_size(min(lowest))}" if lowest else ""
        return f"unknown, for swap can take it all{tried}"
    sure = f" (surely {format_size(one.sure_bytes)})" if one.sure_bytes else ""
    return format_size(one.least_viable_bytes) + sure


def _phases(one: Prediction) -> list[str]:
    """The phases that have a column: of a pipeline the round alone."""
    several = len({phase.network for at in one.at for phase in at.phases}) > 1
    every = [phase.phase for phase in one.at[0].phases]
    return ["total"] if several else list(dict.fromkeys(every))


def _row(at: AtLimit, phases: Sequence[str]) -> list[str]:
    mark = " *" if at.extrapolated else ""
    about = [
        format_size(at.limit_bytes) + mark,
        "-" if at.share is None else f"{at.share:.0%}",
        "-" if at.probability is None else f"{at.probability:.0%}",
    ]
    if not at.viable:
        return [*about, "not viable", *[""] * (len(phases) + 2)]
    times = {time.phase: time for time in at.phases}
    total = times["total"]
    layers = ", ".join(f"{cost.name} {cost.share:.0%}" for cost in at.layers[:_LAYERS])
    told = [_time(times[phase]) for phase in phases]
    return [*about, *told, _interval(total), _saved(total), layers]


def _time(time: PhaseTime) -> str:
    return f"{format_duration(time.seconds)} x{time.slowdown:.2f}"


def _interval(time: PhaseTime) -> str:
    if time.low_s is None or time.high_s is None:
        return "-"
    return f"{format_duration(time.low_s)} to {format_duration(time.high_s)}"


def _saved(total: PhaseTime) -> str:
    return format_duration(total.saved_s) if total.saved_s > 0.005 * total.seconds else "-"


def _notes(one: Prediction) -> list[str]:
    notes = []
    if any(at.extrapolated for at in one.at):
        known = "no trial below a limit is known"
        if one.fitted:
            known = f"trials are known from {one.fitted[0]:.0%} to {one.fitted[1]:.0%} of demand"
        notes.append(f"* extrapolated: {known}")
    if any(not at.viable for at in one.at) and one.least_viable_bytes:
        notes.append(f"not viable: it would be killed below {format_size(one.least_viable_bytes)}")
    return notes


def print_next(results: object, found: Sequence[Prediction]) -> None:
    """What to type next."""
    subject = found[0].subject
    network = subject.network
    if "+" in network or ":" in network or subject.settings.get("kind") == "training":
        click.echo(f"next: edgebench validate {results}")
    else:
        click.echo(f"next: edgebench minimum {network} --slowdown 1.5")
