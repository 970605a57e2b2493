"""``edgebench watch``: a running sweep in the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
from edgebench.results.workload_key import workload_label
from edgebench.text import printable
from edgebench.units import format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

    from edgebench.measures.machine.system_files import SystemMemory
    from edgebench.results.live.events import EndedSpan, Metric, OpenSpan
    from edgebench.results.live.sweep import SweepState, SweepTail
    from edgebench.results.live.trial import TrialTail


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


#: From empty to full; the second for terminals without Unicode.
_BLOCKS, _PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_LABEL = 9
_WIDEST = 64
_LAYERS = 6
_MOST_WARNINGS = 3
#: From this share of its limit up, a trial's memory is shown in red.
_NEARLY_FULL = 0.97


class _Drawing:
    """Bars of a given width, in the terminal's characters."""

    def __init__(self, width: int, blocks: str) -> None:
        self.width = max(8, min(_WIDEST, width - _LABEL))
        self._blocks = blocks

    def bar(self, share: float, width: int) -> str:
        """A bar of which a share is filled; the rest is dots."""
        full = round(max(0.0, min(1.0, share)) * width)
        return self._blocks[-1] * full + "." * (width - full)

    def sparkline(self, values: Sequence[float], highest: float) -> str:
        """One character for each value, the latest at the right; the highest of several."""
        if not values or highest <= 0:
            return ""
        places = min(self.width, len(values))
        edges = [n * len(values) // places for n in range(places + 1)]
        tops = [max(values[a:b]) for a, b in pairwise(edges)]
        steps = len(self._blocks) - 1
        return "".join(self._blocks[min(steps, max(0, round(t / highest * steps)))] for t in tops)


def view(state: SweepState, system: SystemMemory, console: Console) -> Group:
    """The state of a sweep in lines that are never wider than the terminal."""
    from rich.console import Group

    plain = not console.encoding.lower().startswith("utf")
    drawing = _Drawing(console.width, _PLAIN_BLOCKS if plain else _BLOCKS)
    below = [*_machine(system)]
    below += [_line("warning", words, "yellow") for words in state.warnings[:_MOST_WARNINGS]]
    lines = [*_sweep(state, drawing)]
    if state.trial is not None:
        room = console.height - len(lines) - len(below) if console.is_terminal else None
        lines += _trial(state.trial, drawing, room)
    elif state.running:
        lines.append(_line("", "between two trials, or in one that can't be read from here", "dim"))
    lines += below
    for line in lines if plain else ():
        line.plain = line.plain.encode("ascii", "replace").decode()
    return Group(*lines)


def _line(label: str, words: str, style: str = "") -> Text:
    """One line, cut at the terminal's edge, without control characters."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="crop")
    if label:
        text.append(f"{label:<{_LABEL}}", "dim")
    text.append(" ".join(printable(words).split("\n")), style)
    return text


def _sweep(state: SweepState, drawing: _Drawing) -> Iterator[Text]:
    yield _line("", f"{state.name} on {state.device}", "bold")
    total = state.total
    if total:
        yield _line("", drawing.bar(state.done / total, drawing.width), "green")
    words = f"{state.done} of {'?' if total is None else total} trials"
    if not state.running:
        words += ", complete" if state.complete else ", interrupted"
    elif state.left_s is not None:
        words += f", about {format_duration(state.left_s)} left"
    yield _line("sweep", words)
    if state.outcomes:
        shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(state.outcomes.items()))
        yield _line("ended", shown)


def _trial(trial: TrialTail, drawing: _Drawing, room: int | None) -> list[Text]:
    """The trial that runs, with as many of its finished layers as fit."""
    above = [*_about(trial), *_memory(trial, drawing), *_phases(trial.open)]
    below = [*_training(trial.metrics, drawing)]
    # The cursor takes the last line.
    free = _LAYERS if room is None else room - len(above) - len(below) - 1
    return [*above, *_ended(trial.spans, min(_LAYERS, free)), *below]


def _about(trial: TrialTail) -> Iterator[Text]:
    live = trial.live
    whose = f", {live.strategy}'s own" if live.strategy else ""
    size = live.limits.memory_bytes
    limit = "unlimited" if size is None else f"limit {format_size(size)}"
    yield _line("", "")
    yield _line("", f"trial {live.trial}: {workload_label(live.settings)}{whose}", "bold")
    swap = f"swap {live.limits.swap_kind}"
    yield _line(
        "", f"{limit}, {swap}, repeat {live.repeat + 1}, {format_duration(trial.elapsed_s)}"
    )


def _memory(trial: TrialTail, drawing: _Drawing) -> Iterator[Text]:
    now, limit = trial.now, trial.live.limits.memory_bytes
    usage = now.get("usage_bytes")
    if usage is not None:
        of = f" of {format_size(limit)}" if limit else ""
        peak = f", peak {format_size(trial.peak_bytes)}" if trial.peak_bytes is not None else ""
        style = "red" if limit and usage >= _NEARLY_FULL * limit else ""
        yield _line("memory", f"{format_size(usage)}{of}{peak}", style)
        if limit:
            yield _line("", f"{' ' * _LABEL}{drawing.bar(usage / limit, drawing.width)}", style)
    highs = [float(point.high_bytes) for point in trial.curve.points]
    if len(highs) > 1:
        top = float(max(*highs, limit or 0))
        yield _line("", f"{' ' * _LABEL}{drawing.sparkline(highs, top)}", "cyan")
    if now.get("swap_bytes") is not None:
        yield _line("swap", format_size(now["swap_bytes"]))
    if trial.cpu_cores is not None:
        yield _line("CPU", f"{trial.cpu_cores:.1f} cores busy")
    counts = {"major_faults": "major faults", "refault_anon": "pages back from swap"}
    shown = [f"{now[key]:,} {name}" for key, name in counts.items() if key in now]
    if shown:
        yield _line("faults", ", ".join(shown))
    elif trial.quiet:
        yield _line("faults", "not read while it runs, because that could prevent a kill", "dim")


def _phases(spans: Sequence[OpenSpan]) -> Iterator[Text]:
    """The open phases, the outermost first."""
    if spans:
        words = [_span_words(span) for span in spans]
        yield _line("now", " > ".join(dict.fromkeys(words)), "green")


def _span_words(span: OpenSpan) -> str:
    words = [span.phase, *([f"{span.round + 1}"] if span.phase == "round" and span.round else [])]
    layer = span.name or (None if span.layer is None else str(span.layer))
    words += [word for word in (span.network, layer) if word]
    return " ".join(words)


def _ended(spans: Sequence[EndedSpan], most: int) -> Iterator[Text]:
    """The layers that finished last, the latest at the end."""
    layers = [ended for ended in spans if ended.span.layer is not None]
    for n, ended in enumerate(layers[-most:] if most > 0 else []):
        peak = "" if ended.peak_bytes is None else f", peak {format_size(ended.peak_bytes)}"
        faults = f", {ended.major_faults:,} major faults" if ended.major_faults else ""
        words = f"{_span_words(ended.span)}: {format_duration(ended.wall_s)}{peak}{faults}"
        yield _line("done" if n == 0 else " ", words, "dim")


def _training(metrics: Sequence[Metric], drawing: _Drawing) -> Iterator[Text]:
    """Loss, accuracy and the like: the latest value and its history."""
    names = dict.fromkeys(name for metric in metrics for name in metric.values)
    for name in names:
        values = [metric.values[name] for metric in metrics if name in metric.values]
        yield _line(name[: _LABEL - 1], f"{values[-1]:.4g}")
        if len(values) > 1 and max(values) > 0:
            line = drawing.sparkline(values, max(values))
            yield _line("", f"{' ' * _LABEL}{line}", "magenta")


def _machine(system: SystemMemory) -> Iterator[Text]:
    yield _line("", "")
    used = f"{format_size(system.used_bytes)} used ({system.used_share:.0%})"
    free = f"{format_size(system.available_bytes)} available of {format_size(system.total_bytes)}"
    yield _line("machine", f"{used}, {free}")
    swap = f", swap {format_size(system.swap_used_bytes)}" if system.swap_used_bytes else ""
    yield _line(" ", f"CPU {system.cpu_share:.0%}{swap}")
