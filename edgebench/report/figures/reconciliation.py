"""Figure of memory over one execution, by every strategy, layer by layer.

Each strategy has its own trial and its own pace. So the axis is not time but what was done: one
slot for each load and execution, the same for all; within a slot a line runs in its own time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.patches import Patch

from edgebench.analysis.reconcile.reconciliation import Reconciliation, reconcile_sweep
from edgebench.measures.strategies import strategy_of
from edgebench.measures.strategy import SpanReading
from edgebench.report.figures import naming, style
from edgebench.results.sweep_reader import settings_columns
from edgebench.results.trial_readings import SpanKey, TrialReadings
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

_HEIGHT_IN = 6.2
_PHASES = ("import", "init", "load", "first")
#: Nearer to each other than this share of the axis, names can't be read.
_NAME_ROOM = 1 / 52
_GNU_TIME, _LIMIT = "#CC3311", "#D55E00"


class _Look(NamedTuple):
    """How a strategy is drawn."""

    colour: str
    width: float = 1.4
    dashes: Any = "-"


#: In the order of the legend: from what counts most to what counts least.
_LOOKS = {
    "kernel": _Look("#0B3C5D", 2.0),
    "sampled": _Look("#56B4E9", 0.9),
    "process": _Look("#E69F00", 1.8),
    "process-swap": _Look("#E69F00", 1.0, (0, (4, 2))),
    "process-pss": _Look("#B07AA1", 1.0, (0, (2, 2))),
    "tcmalloc": _Look("#117733", 1.2),
    "memray": _Look("#44AA66", 1.2),
    "massif": _Look("#88AA22", 1.2),
    "malloc": _Look("#6b6b6b", 1.0, (0, (4, 2))),
    "analytic": _Look("#882255", 1.2, (0, (1, 1.2))),
    "torch": _Look("#AA4499", 1.4),
}


class _Slot(NamedTuple):
    """One load or execution on the axis."""

    key: SpanKey
    name: str


@naming.figure_kind("reconciliation", place=7)
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One per point that strategies measured; none if the scenario names no strategies."""
    sweep = results.sweeps[0]
    if not sweep.strategy_records:
        return
    for point in reconcile_sweep(sweep):
        slots = _slots(point)
        if slots:
            settings = _settings(point)
            words = (settings.get("network"), settings.get("schedule", ""), _limit_word(point))
            stem = naming.stem_of("reconciliation", settings, *words)
            yield naming.NamedFigure(stem, _draw(results, point, slots))


def _settings(point: Reconciliation) -> dict[str, Any]:
    return settings_columns({k: v for k, v in point.record.settings.items() if v is not None})


def _limit_word(point: Reconciliation) -> str:
    limit = point.record.limit_bytes
    return "unlimited" if limit is None else f"{limit / MIB:.0f} MiB"


def _slots(point: Reconciliation) -> list[_Slot]:
    """Import, build, and each layer's load, if it has weights, and first execution."""
    timed = point.chain.timed
    found = []
    for key, span in timed.spans.items():
        first = key.phase in _PHASES and key.round <= 0 and key.time == 0
        layered = key.layer is not None or key.phase in ("import", "init")
        if first and layered and (key.phase != "load" or _has_weights(timed, key)):
            found.append(_Slot(key, span.name or style.PHASE_TITLES[key.phase]))
    return found if any(slot.key.layer is not None for slot in found) else []


def _has_weights(timed: TrialReadings, key: SpanKey) -> bool:
    table = timed.seen.tables.get(key.network or "", ())
    if key.layer is None or key.layer >= len(table):
        return True
    return bool(table[key.layer].get("file_bytes"))


def _draw(results: Results, point: Reconciliation, slots: Sequence[_Slot]) -> Figure:
    what = naming.title_of(_settings(point).get("network", "workload"))
    limited = "" if point.record.limit_bytes is None else "limit "
    words = (f"{limited}{_limit_word(point)}", f"trial {point.record.trial}")
    about = naming.subtitle(_settings(point), *words)
    title = f"Memory of {what} by every strategy"
    figure = style.new_figure(title, about, results, _HEIGHT_IN)
    axes = figure.subplots()
    _shade(axes, slots)
    handles = []
    for name, look in _LOOKS.items():
        trial = _trial_of(point, name)
        # Resident and swapped is the resident set again where nothing was swapped.
        shown = name != "process-swap" or point.record.swap_peak_bytes
        if trial is not None and shown:
            handles += _strategy(axes, trial, name, look, slots)
    handles += _marks(axes, point)
    axes.set_xlim(0, len(slots))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("memory (MiB)")
    _name(axes, point.chain.timed, slots)
    phases = dict.fromkeys(slot.key.phase for slot in slots)
    handles += [
        Patch(fc=style.PHASE_COLOURS[p], alpha=0.25, label=style.PHASE_TITLES[p]) for p in phases
    ]
    style.legend_beside(axes, handles=handles, title="peaks of the whole trial in MiB")
    return figure


def _trial_of(point: Reconciliation, name: str) -> TrialReadings | None:
    """The trial that shows the strategy: the timed one, else its own."""
    trials = (point.chain.timed, *point.chain.own.values())
    return next((t for t in trials if name in t.readings and t.readings[name].spans), None)


def _shade(axes: Axes, slots: Sequence[_Slot]) -> None:
    for x, slot in enumerate(slots):
        axes.axvspan(
            x, x + 1, color=style.PHASE_COLOURS[slot.key.phase], alpha=0.13, lw=0, zorder=0
        )
    axes.grid(visible=False, axis="x")


def _strategy(
    axes: Axes, trial: TrialReadings, name: str, look: _Look, slots: Sequence[_Slot]
) -> list[Any]:
    """The strategy's line, or its steps from before to after; above them its peaks."""
    line = _line(trial, name, slots)
    seen = [trial.span_reading(name, slot.key) for slot in slots]
    xs, sizes = line if line is not None else _steps(seen)
    drawn = axes.plot(
        xs,
        sizes,
        color=look.colour,
        lw=look.width,
        ls=look.dashes,
        # A step holds until the next reading.
        drawstyle="default" if line is None else "steps-post",
        label=_label(trial, name),
        zorder=3,
    )
    for x, reading in enumerate(seen):
        if reading is not None and reading.peak_bytes is not None:
            ends = (reading.before_bytes or 0, reading.after_bytes or 0)
            if reading.peak_bytes - max(ends) > MIB // 2:
                peak = reading.peak_bytes / MIB
                axes.hlines(peak, x + 0.08, x + 0.92, color=look.colour, lw=look.width, zorder=4)
                axes.vlines(x + 0.5, max(ends) / MIB, peak, color=look.colour, lw=0.7, zorder=4)
    return list(drawn)


def _label(trial: TrialReadings, name: str) -> str:
    strategy, peak = strategy_of(name), trial.readings[name].peak_bytes
    title = strategy.title if strategy else name
    return title if peak is None else f"{title}: {peak / MIB:.0f}"


def _steps(seen: Sequence[SpanReading | None]) -> tuple[Any, Any]:
    """From each slot's start to its end; a gap where nothing was seen."""
    xs: list[float] = []
    sizes: list[float] = []
    for x, reading in enumerate(seen):
        ends = (reading.before_bytes, reading.after_bytes) if reading else (None, None)
        xs += [x, x + 1]
        sizes += [float("nan") if size is None else size / MIB for size in ends]
    return np.array(xs), np.array(sizes)


def _line(trial: TrialReadings, name: str, slots: Sequence[_Slot]) -> tuple[Any, Any] | None:
    """The line over time that a strategy has, put on the axis of slots; None if it has none."""
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
    xs = np.interp(times[inside], known, np.arange(len(known)))
    return xs, np.asarray(sizes)[inside] / MIB


def _marks(axes: Axes, point: Reconciliation) -> list[Any]:
    marks = []
    record = point.record
    if record.gnu_time_maxrss_bytes is not None:
        size = record.gnu_time_maxrss_bytes / MIB
        label = f"GNU time's maximum resident set: {size:.0f}"
        marks.append(axes.axhline(size, color=_GNU_TIME, lw=1.1, ls=(0, (5, 2)), label=label))
    if record.limit_bytes is not None:
        size = record.limit_bytes / MIB
        marks.append(axes.axhline(size, color=_LIMIT, lw=1.6, label=f"limit: {size:.0f}"))
    return marks


def _name(axes: Axes, timed: TrialReadings, slots: Sequence[_Slot]) -> None:
    """Layers' names under the axis: those that move memory most, as far as there is room."""
    spans = [timed.spans[slot.key] for slot in slots]
    rises = [
        max(span.peak_bytes or 0, span.usage_after_bytes or 0) - (span.usage_before_bytes or 0)
        for span in spans
    ]
    named: list[int] = []
    for x in sorted(range(len(slots)), key=lambda x: rises[x], reverse=True):
        if all(abs(x - other) >= _NAME_ROOM * len(slots) for other in named):
            named.append(x)
    axes.set_xticks(
        [x + 0.5 for x in named], [slots[x].name for x in named], rotation=90, fontsize=6.5
    )
    axes.tick_params(axis="x", length=2)
    words = "loads and executions in order, not to scale"
    if len(named) < len(slots):
        words += f" ({len(named)} of {len(slots)} named)"
    axes.set_xlabel(words, color=style.MUTED)
