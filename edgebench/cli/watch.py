"""``edgebench watch``: a running sweep in the terminal, as over ssh."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.live.sweep import SweepState, SweepTail

#: Between two looks; reading costs a few milliseconds.
_PAUSE_S = 0.5


@click.command(short_help="See it live in the terminal.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--once", is_flag=True, help="Show how it stands now, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print how it stands now as JSON on stdout.")
def watch(results: Path, once: bool, as_json: bool) -> None:
    """Watch the sweep that runs in RESULTS (a sweep's folder or one that holds several).

    Without one that runs, the newest is shown. It ends when the sweep ends. Ctrl-C ends the
    watching alone: the sweep goes on.
    """
    from edgebench.live.sweep import SweepTail, newest_running
    from edgebench.results.results import latest

    tail = SweepTail(newest_running(results) or latest(results))
    if as_json:
        click.echo(json.dumps(_as_json(tail.poll())))
        return
    try:
        state = _watch(tail, once)
    except KeyboardInterrupt:
        click.echo("stopped watching; the sweep goes on", err=True)
        click.echo(f"next: edgebench watch {tail.path}", err=True)
        return
    _print_next(state)


def _watch(tail: SweepTail, once: bool) -> SweepState:
    """Show the sweep until it ends; how it then stands."""
    from rich.console import Console
    from rich.live import Live

    from edgebench.cli.watching import view
    from edgebench.live.system import read_system

    console = Console(highlight=False, markup=False)
    state = tail.poll()
    if once or not console.is_terminal or not state.running:
        console.print(view(state, read_system(), console))
        return state
    # Drawn by hand: a thread that draws would only redraw what hasn't changed.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(view(state, read_system(), console), refresh=True)
            if not state.running:
                return state
            time.sleep(_PAUSE_S)
            state = tail.poll()


def _print_next(state: SweepState) -> None:
    if state.running:
        click.echo(f"next: edgebench watch {state.path}", err=True)
        return
    if not state.complete:
        click.echo("next: edgebench run SCENARIO  (the same one: it goes on here)", err=True)
    for verb in ("show", "report"):
        click.echo(f"next: edgebench {verb} {state.path}", err=True)


def _as_json(state: SweepState) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "sweep": state.name,
        "path": str(state.path),
        "device": state.device,
        "running": state.running,
        "complete": state.complete,
        "planned": state.total,
        "recorded": state.done,
        "outcomes": state.outcomes,
        "left_s": state.left_s,
        "trial": _trial_as_json(state),
        "warnings": state.warnings,
    }


def _trial_as_json(state: SweepState) -> dict[str, Any] | None:
    trial = state.trial
    if trial is None:
        return None
    return {
        "trial": trial.post.trial,
        "point": trial.post.point,
        "repeat": trial.post.repeat,
        "limit_bytes": trial.post.limits.memory_bytes,
        "elapsed_s": trial.elapsed_s,
        "sampled_peak_bytes": trial.peak_bytes,
        "cpu_cores": trial.cpu_cores,
        "now": trial.now,
        "phases": [span.phase for span in trial.open],
    }
