"""``edgebench watch``: a running sweep in the terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import is_given, json_option, offer_sweeps
from edgebench.cli.output import (
    make_console,
    print_answer,
    print_json,
    print_lines,
    print_next,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.units import format_duration, parse_duration

if TYPE_CHECKING:
    from edgebench.results.live.sweep import SweepState, SweepTail

#: Between two reads; each takes a few milliseconds.
_PAUSE_S = 0.5


@click.command()
@click.argument(
    "results", type=click.Path(path_type=Path), required=False, shell_complete=offer_sweeps
)
@click.option("--once", is_flag=True, help="Show the current state once and exit.")
@click.option(
    "--replay",
    is_flag=True,
    help="Play back a measured sweep: nothing runs, no root needed. Without RESULTS the sweep of "
    "three networks that edgebench brings along.",
)
@click.option("--seconds", default="25s", help="With --replay: how long it takes, as 25s or 1m.")
@json_option("the current state")
def watch(results: Path | None, once: bool, replay: bool, seconds: str, as_json: bool) -> None:
    """Follow the running sweep in RESULTS: a sweep's folder, or a folder of several.

    Without RESULTS, that of the folder results. If none is running, the newest is shown. It ends
    with the sweep. Ctrl-C stops only the watching; the sweep continues.
    """
    if replay and (once or as_json):
        flag = "--once" if once else "--json"
        raise UsageError(f"{flag} is not for --replay", remedy=f"leave out {flag} or --replay")
    if replay:
        given = is_given(click.get_current_context(), "results")
        _play_back(results if given else None, seconds)
        return
    from edgebench.results.live.sweep import SweepTail, newest_running
    from edgebench.results.results import latest

    results = results or Path("results")
    tail = SweepTail(newest_running(results) or latest(results))
    if as_json:
        print_json(_as_json(tail.poll()))
        return
    try:
        state = _watch(tail, once)
    except KeyboardInterrupt:
        click.echo("stopped watching; the sweep continues", err=True)
        print_next(f"edgebench watch {typed_path(tail.path)}")
        return
    if state.running:
        print_next(f"edgebench watch {typed_path(state.path)}")
    elif state.complete:
        print_next(f"edgebench show {typed_path(state.path)}")
    else:
        print_next("edgebench run SCENARIO  (the same scenario: it resumes the sweep)")


def _watch(tail: SweepTail, once: bool) -> SweepState:
    """Show the sweep until it ends, and return its last state."""
    from rich.live import Live

    from edgebench.cli.watch_view import view
    from edgebench.measures.machine.system_files import read_system

    console = make_console()
    state = tail.poll()
    if once or not console.is_terminal or not state.running:
        console.print(view(state, read_system(), console))
        return state
    # No refreshing thread: it would only redraw what hasn't changed.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(view(state, read_system(), console), refresh=True)
            if not state.running:
                return state
            time.sleep(_PAUSE_S)
            state = tail.poll()


def _as_json(state: SweepState) -> dict[str, Any]:
    return {
        "sweep": state.name,
        "path": state.path,
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
        "trial": trial.live.trial,
        "point": trial.live.point,
        "repeat": trial.live.repeat,
        "limit_bytes": trial.live.limits.memory_bytes,
        "elapsed_s": trial.elapsed_s,
        "sampled_peak_bytes": trial.peak_bytes,
        "cpu_cores": trial.cpu_cores,
        "now": trial.now,
        "phases": [span.phase for span in trial.open],
    }


def _play_back(results: Path | None, seconds: str) -> None:
    """Play back a sweep that was measured earlier, or the one that edgebench brings along.

    It is shown in the block that ``run`` shows, with the answer that ``run`` ends with.

    Raises:
        ResultsError: no results there.
        UsageError: ``seconds`` is no duration.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.cli.run_output import run_answer
    from edgebench.results.results import latest, load
    from edgebench.run.replay import SHIPPED, measured_s, replay

    sweep = load(latest(results or SHIPPED)).sweeps[0]
    whole_s = parse_duration(seconds)
    took = format_duration(measured_s(sweep))
    click.echo(
        f"playing back {len(sweep.records)} trials measured on {sweep.device}: {took} in "
        f"{format_duration(whole_s)}",
        err=True,
    )
    with shown_progress() as progress:
        replay(sweep, progress, whole_s)
    print_answer(run_answer(sweep.path))
    print_lines(["", f"results: {shown_path(sweep.path)}"])
    print_next("edgebench minimum -- python3 train.py  (your own program)")
