"""Figure of memory over one execution, by every strategy, layer by layer.

Each strategy has its own trial and its own pace. So the axis is not time but what was done: one
slot for each load and execution, the same for all; within a slot a line runs in its own time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgebench.analysis.reconciliation import Reconciliation, reconcile_sweep
from edgebench.measures.strategies import strategy_of
from edgebench.report.figures import naming, style
from edgebench.results.sweep_reader import settings_columns
from edgebench.results.trial_readings import SpanKey, TrialReadings
from edgebench.text import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

_HEIGHT_IN = 6.2
_PHASES = ("import", "init", "load", "first")
#: Nearer to each other than this share of the axis, names can't be read.
_NAME_ROOM = 1 / 52
#: How each strategy is drawn, in the order of the legend: what counts most comes first.
_LOOKS: dict[str, dict[str, Any]] = {
    "kernel": {"color": "#0B3C5D", "lw": 2.0},
    "sampled": {"color": "#56B4E9", "lw": 0.9},
    "process": {"color": "#E69F00", "lw": 1.8},
    "process-swap": {"color": "#E69F00", "lw": 1.0, "ls": "--"},
    "tcmalloc": {"color": "#117733", "lw": 1.2},
    "memray": {"color": "#44AA66", "lw": 1.2},
    "massif": {"color": "#88AA22", "lw": 1.2},
    "malloc": {"color": "#6b6b6b", "lw": 1.0, "ls": "--"},
    "analytic": {"color": "#882255", "lw": 1.2, "ls": ":"},
    "torch": {"color": "#AA4499", "lw": 1.4},
}


class _Slot(NamedTuple):
    """One load or execution on the axis."""

    key: SpanKey
    name: str


@naming.figure_kind("reconciliation")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each point that strategies measured.

    Raises:
        ResultsError: the points can't be read.
    """
    sweep = results.sweeps[0]
    for point in reconcile_sweep(sweep) if sweep.strategy_records else []:
        slots = _slots(point.chain.timed)
        if slots:
            known = {k: v for k, v in point.record.settings.items() if v is not None}
            settings, limit = settings_columns(known), point.record.limit_bytes
            size = "unlimited" if limit is None else f"{limit / MIB:.0f} MiB"
            words = (settings.get("network"), settings.get("schedule", ""), size)
            stem = naming.stem_of("reconciliation", settings, *words)
            what = naming.title_of(settings.get("network", "workload"))
            trial = f"trial {point.record.trial}"
            about = naming.subtitle(settings, size if limit is None else f"limit {size}", trial)
            title = f"Memory of {what} by every strategy"
            figure = style.new_figure(title, about, results, _HEIGHT_IN)
            _draw(figure.subplots(), point, slots)
            yield naming.NamedFigure(stem, figure)


def _slots(timed: TrialReadings) -> list[_Slot]:
    """Return import, build, and each layer's load, if it has weights, and first execution."""
    slots = []
    for key, span in timed.spans.items():
        table: Sequence[Mapping[str, Any]] = timed.seen.tables.get(key.network or "", ())
        known = key.layer is not None and key.layer < len(table)
        has_weights = not known or bool(table[key.layer or 0].get("file_bytes"))
        first = key.phase in _PHASES and key.round <= 0 and key.time == 0
        layered = key.layer is not None or key.phase in ("import", "init")
        if first and layered and (key.phase != "load" or has_weights):
            slots.append(_Slot(key, span.name or style.PHASE_TITLES[key.phase]))
    return slots if any(slot.key.layer is not None for slot in slots) else []


def _draw(axes: Axes, point: Reconciliation, slots: Sequence[_Slot]) -> None:
    record = point.record
    trials = (point.chain.timed, *point.chain.own.values())
    for name, look in _LOOKS.items():
        # The trial that shows the strategy: the timed one, else its own.
        having = (t for t in trials if name in t.readings and t.readings[name].spans)
        trial = next(having, None)
        # Resident and swapped is the resident set again where nothing was swapped.
        if trial is not None and (name != "process-swap" or record.swap_peak_bytes):
            _draw_strategy(axes, trial, name, look, slots)
    if size := record.gnu_time_maxrss_bytes:
        label = f"GNU time's maximum resident set: {size / MIB:.0f}"
        axes.axhline(size / MIB, color="#CC3311", lw=1.1, ls="--", label=label)
    if size := record.limit_bytes:
        label = f"limit: {size / MIB:.0f}"
        axes.axhline(size / MIB, color="#D55E00", lw=1.6, label=label)
    shown = set()
    for x, slot in enumerate(slots):
        phase = slot.key.phase
        label = "" if phase in shown else style.PHASE_TITLES[phase]
        colour = style.PHASE_COLOURS[phase]
        axes.axvspan(x, x + 1, color=colour, alpha=0.13, lw=0, zorder=0, label=label)
        shown.add(phase)
    axes.grid(visible=False, axis="x")
    axes.set(xlim=(0, len(slots)), ylabel="memory (MiB)")
    axes.set_ylim(bottom=0)
    _name_slots(axes, point.chain.timed, slots)
    style.legend_beside(axes, title="peaks of the whole trial in MiB")


def _draw_strategy(
    axes: Axes, trial: TrialReadings, name: str, look: dict[str, Any], slots: Sequence[_Slot]
) -> None:
    """Draw the strategy's line, or its steps from before to after; above them its peaks."""
    strategy, peak = strategy_of(name), trial.readings[name].peak_bytes
    title = strategy.title if strategy else name
    label = title if peak is None else f"{title}: {peak / MIB:.0f}"
    readings = [trial.span_reading(name, slot.key) for slot in slots]
    line = _line(trial, name, slots)
    if line is not None:
        # A reading holds until the next one.
        axes.plot(*line, **look, drawstyle="steps-post", label=label, zorder=3)
    else:
        ends = [(r.before_bytes, r.after_bytes) if r else (None, None) for r in readings]
        sizes = [np.nan if size is None else size / MIB for pair in ends for size in pair]
        places = [place for x in range(len(slots)) for place in (x, x + 1)]
        axes.plot(places, sizes, **look, label=label, zorder=3)
    for x, reading in enumerate(readings):
        if reading is not None and reading.peak_bytes is not None:
            foot, top = max(reading.before_bytes or 0, reading.after_bytes or 0), reading.peak_bytes
            if top - foot > MIB // 2:
                axes.hlines(top / MIB, x + 0.08, x + 0.92, color=look["color"], lw=look["lw"])
                axes.vlines(x + 0.5, foot / MIB, top / MIB, color=look["color"], lw=0.7)


def _line(trial: TrialReadings, name: str, slots: Sequence[_Slot]) -> tuple[Any, Any] | None:
    """Return the strategy's line over time, put on the axis of slots; None if it has none."""
    if name == "sampled":
        times, sizes = trial.seen.samples["t_ns"], trial.seen.samples["usage_bytes"]
    elif trial.readings[name].line:
        times, sizes = (np.array(column) for column in zip(*trial.readings[name].line, strict=True))
    else:
        return None
    spans = [trial.spans[slot.key] for slot in slots if slot.key in trial.spans]
    if len(spans) < len(slots):
        return None
    known = [span.start_ns for span in spans] + [spans[-1].end_ns]
    inside = (times >= known[0]) & (times <= known[-1])
    places = np.interp(times[inside], known, np.arange(len(known)))
    return places, np.asarray(sizes)[inside] / MIB


def _name_slots(axes: Axes, timed: TrialReadings, slots: Sequence[_Slot]) -> None:
    """Write layers' names under the axis: those that move memory most, as there is room."""
    spans = [timed.spans[slot.key] for slot in slots]
    rises = [
        max(span.peak_bytes or 0, span.usage_after_bytes or 0) - (span.usage_before_bytes or 0)
        for span in spans
    ]
    named: list[int] = []
    for x in sorted(range(len(slots)), key=lambda x: rises[x], reverse=True):
        if all(abs(x - other) >= _NAME_ROOM * len(slots) for other in named):
            named.append(x)
    places, names = [x + 0.5 for x in named], [slots[x].name for x in named]
    axes.set_xticks(places, names, rotation=90, fontsize=6.5)
    words = "loads and executions in order, not to scale"
    words += f" ({len(named)} of {len(slots)} named)" if len(named) < len(slots) else ""
    axes.set_xlabel(words, color=style.MUTED)
