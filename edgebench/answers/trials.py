"""How trials ended and what each used, and the layers to blame for a slowdown."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.answers.give import board_line
from edgebench.answers.table import (
    GAP,
    Table,
    factor,
    filled_table,
    headline,
    seconds,
    share,
    size,
    size_cells,
    time_cells,
)
from edgebench.kills import OBSERVER_EFFECT, is_locked, swap_was_free
from edgebench.need import need_of
from edgebench.records import EndedIn, TrialRecord
from edgebench.results.limit_to_give import is_stopped, unmeasured
from edgebench.text import AS_IS, format_limit, printable, shortened, swap_words

if TYPE_CHECKING:
    from edgebench.analysis.layer_table import LayerCostTable, LayerRow, PassCost
    from edgebench.pytest_plugin.limited_test import LimitedRun


#: Swap in memory frees next to nothing where it takes this share of what lies in it.
_INCOMPRESSIBLE = 0.9
NOTHING_TO_RECLAIM = f"nothing could be reclaimed ({OBSERVER_EFFECT})"

_ENDS = {
    "ok": "finished",
    "oom-killed": "killed",
    "accelerator-oom": "accelerator full",
    "timeout": "stopped",
    "harness-error": "not measured",
}


def end_word(outcome: str) -> str:
    """``killed``; an outcome without another word is called by its name."""
    return _ENDS.get(outcome, outcome)


def end_words(outcomes: Mapping[str, int], ended_in: EndedIn | None = None) -> str:
    """``killed in features.8``, ``killed, stopped``: how trials ended that did not finish."""
    words = ", ".join(end_word(outcome) for outcome in outcomes if outcome != "ok")
    place = (ended_in.layer or ended_in.phase) if words and ended_in else None
    return f"{words} in {place}" if place else words


def reason_words(record: TrialRecord) -> str:
    """Why a trial did not finish; of a kill while most of its swap was free, why swap was no help.

    Without numbers of that one trial.
    """
    if not swap_was_free(record.kill):
        return record.reason or ""
    ram = record.swap_ram
    taken = ram.peak_bytes if ram and ram.limit_least_bytes is not None else 0
    why = NOTHING_TO_RECLAIM
    if record.kill and is_locked(record.kill):
        why = "it is locked in memory (mlock), which no swap can hold"
    elif ram and taken >= _INCOMPRESSIBLE * (record.swap_peak_bytes or math.inf):
        why = f"{ram.kind} takes of the same memory, and its data hardly compress there"
    return f"killed while most of its swap was free: {why}"


def trial_name(record: TrialRecord) -> str:
    """Return what was run: a command, a function, networks or a kind of workload."""
    settings = record.settings
    if isinstance(command := settings.get("command"), list):
        name = shlex.join(map(str, command))
    else:
        networks = "+".join(map(str, settings.get("networks") or ()))
        name = str(settings.get("function") or networks or settings.get("kind"))
    return shortened(printable(name))


def trial_headline(record: TrialRecord) -> str:
    """``./fill under 120 MiB, no swap``."""
    swap = swap_words(record.limits.swap_kind, record.limits.swap_bytes)
    if record.limit_bytes is None:
        return f"{trial_name(record)} without a limit"
    return f"{trial_name(record)} under {size(record.limit_bytes)}, {swap}"


def trial_fields(record: TrialRecord, *, verbose: bool = False) -> Iterator[tuple[str, str]]:
    """Names and values: how it ended, its peak and need, its time; ``verbose``: other peaks."""
    yield "result", end_of_trial(record)
    reason = reason_words(record)
    if record.outcome != "ok" and reason != "killed by the kernel":
        yield "reason", reason
    of_limit = "" if record.limit_bytes is None else f" of {size(record.limit_bytes)}"
    yield "peak", _joined(_or_reason(record, "peak_bytes", size) + of_limit, _need_words(record))
    if record.swap_peak_bytes:
        ram = record.swap_ram
        takes = f"{ram.kind} takes {size(ram.peak_bytes)} of RAM" if ram else ""
        yield "swap", _joined(size(record.swap_peak_bytes), takes)
    faults = "" if record.major_faults is None else f"major faults {record.major_faults:,}"
    yield "cpu", _joined(_or_reason(record, "cpu_s", seconds), faults)
    if record.limits.storage != AS_IS and record.storage:
        disks = ", ".join(disk["name"] for disk in record.storage.disks)
        yield "storage", f"{disks} held to {record.limits.storage}"
    if board := _board(record):
        yield "board", board
    if verbose:
        yield "sampled", _or_reason(record, "sampled_peak_bytes", size)
        yield "GNU time", _or_reason(record, "gnu_time_maxrss_bytes", size)
        sampler = record.sampler
        if sampler and sampler.achieved_s and sampler.largest_gap_s:
            each, gap = seconds(sampler.achieved_s), seconds(sampler.largest_gap_s)
            yield "samples", f"{sampler.samples}, every {each}, largest gap {gap}"


def end_of_trial(record: TrialRecord) -> str:
    """``finished after 1.2 s``, ``killed for memory after 0.34 s``."""
    ends = {
        "ok": "stopped" if is_stopped(record) else "finished",
        "oom-killed": "killed for memory",
        "accelerator-oom": "accelerator's memory full",
        "timeout": "stopped at its time limit",
    }
    failed = record.outcome == "failed" and not record.signal
    code = f" (exit code {record.exit_code})" if failed else ""
    return f"{ends.get(record.outcome, record.outcome)}{code} after {seconds(record.wall_s)}"


def _need_words(record: TrialRecord) -> str:
    """``needs 150 MiB``, ``needs 375 MiB, 320 MiB of it files``, ``needs more than 120 MiB``."""
    if record.outcome == "oom-killed" and record.limit_bytes is not None:
        return f"needs more than {size(record.limit_bytes)}"
    need = need_of(record)
    if need is None or unmeasured([record]).growth:
        return "may need more" if record.saturated else ""
    files = f", {size(need.files_bytes)} of it files" if need.files_bytes else ""
    return f"needs {size(need.total_bytes)}{files}"


def _board(record: TrialRecord) -> str:
    # Where the limit was reached, what of it could be dropped is not known.
    unknown = record.saturated and record.library_bytes
    if record.limits.board is None or record.outcome != "ok" or unknown:
        return ""
    return board_line(record.limits.board, record.peak_bytes, None, record.library_bytes)


def _joined(*parts: str) -> str:
    return GAP.join(filter(None, parts))


def _or_reason(record: TrialRecord, key: str, form: Any) -> str:
    value = getattr(record, key)
    return f"?   {record.missing.get(key, '')}".rstrip() if value is None else form(value)


def limit_words(run: LimitedRun) -> str:
    """``300.0 MiB``, with its share of the demand and its swap, if any."""
    limits = run.record.limits
    label = limits.label if limits.label.endswith("%") else ""
    words = format_limit(label, run.record.limit_bytes)
    if limits.swap_kind == "none":
        return words
    return f"{words} with {swap_words(limits.swap_kind, limits.swap_bytes)}"


def kill_lines(run: LimitedRun, unlimited: LimitedRun) -> str:
    """Return that the kernel killed it, its need, and what of that is not the test's own."""
    need, limit = need_of(unlimited.record), run.record.limit_bytes or 0
    lines = [f"killed by the kernel at {limit_words(run)}"]
    if run.record.reason and run.finished:
        lines.append(f"  reason  {run.record.reason}")
    if need is not None:
        less = "   without a limit: allow more" if need.total_bytes <= limit else ""
        lines.append(f"  needs   {size(need.total_bytes)}{less}")
    base, module = unlimited.started_bytes, unlimited.collected_bytes
    if base is not None and module is not None:
        began = run.started_bytes is not None and run.collected_bytes is not None
        more = "" if began else "   the test itself did not begin"
        lines += [f"  pytest  {size(base)}", f"  module  {size(module)} with pytest{more}"]
    return "\n".join(lines)


def slowdown_lines(
    runs: Sequence[LimitedRun], unlimited: Sequence[LimitedRun], slowdown: float, allowed: float
) -> str:
    """How much slower it is at the limit than allowed."""
    lines = [f"{factor(slowdown)} at {limit_words(runs[0])}, {factor(allowed)} allowed"]
    for phase in ("setup", "call"):
        free, limited = _median(unlimited, phase), _median(runs, phase)
        lines.append(f"  {phase:<6}{seconds(free)} to {seconds(limited)}   {len(runs)} runs each")
    return "\n".join(lines)


def _median(runs: Sequence[LimitedRun], phase: str) -> float:
    return statistics.median(run.seconds.get(phase, 0.0) for run in runs)


def crash_words(run: LimitedRun) -> str:
    """Why it did not come to its end, if not for memory."""
    record = run.record
    at = "without a limit" if record.limit_bytes is None else f"at {limit_words(run)}"
    if record.outcome == "timeout":
        return f"{record.reason}, {at}"
    if run.problem:
        return f"pytest could not collect it again in its own process, {at}:\n{run.problem}"
    if not run.found:
        return (
            "not found again in its own process: ids of parametrized tests must be the same in "
            "each process (as for xdist)"
        )
    return f"its process ended early, {at}: {record.reason or f'exit code {record.exit_code}'}"


def memory_words(run: LimitedRun) -> str:
    """``peak 212 MiB of 300.0 MiB   pytest with the module 45.0 MiB``."""
    record = run.record
    parts = [f"peak {size(record.peak_bytes)} of {limit_words(run)}"]
    if record.swap_peak_bytes:
        parts.append(f"swap {size(record.swap_peak_bytes)}")
    if run.collected_bytes is not None:
        parts.append(f"pytest with the module {size(run.collected_bytes)}")
    return GAP.join(parts)


#: Layers named in one line, and those with less than this share are summed up with the others.
_NAMED, _LEAST_SHARE = 3, 0.05
#: A table has no more layers, unless all are asked for.
_MOST_ROWS = 8
#: From this overlap on, the layers' times add up to more than elapsed time.
OVERLAPS = 1.01


def blame_words(table: LayerCostTable, cost: PassCost) -> str:
    """``at 231 MiB: classifier.1 +62 %, classifier.4 +27 %, others 11 %``."""
    label = cost.at.label
    worst = sorted(table.layers, key=lambda row: -_extra_share(row, label))[:_NAMED]
    named = [
        row
        for row in worst
        if row.at[label].surely_slower and _extra_share(row, label) >= _LEAST_SHARE
    ]
    if not named:
        return ""
    words = [f"{layer_name(table, row)} +{share(_extra_share(row, label))}" for row in named]
    rest = 1 - sum(_extra_share(row, label) for row in named)
    more = [f"others {share(rest)}"] if rest >= 0.005 else []
    return f"at {size(cost.at.limit_bytes)}: {', '.join([*words, *more])}"


def _extra_share(row: LayerRow, label: str) -> float:
    return row.at[label].extra_share or 0.0


def layers_headline(table: LayerCostTable, cost: PassCost | None, name: str, needs: str) -> str:
    """Return what a round takes at the limit, and what the network needs."""
    if cost is None:
        return headline(name, f"{seconds(table.unlimited.clock_s.median)} a round", needs)
    took = f"{seconds(cost.at.clock_s.median)} a round, {factor(cost.slowdown)}"
    more = f" (+{seconds(cost.extra_s)})" if cost.extra_s > 0 else ""
    return headline(f"{name} at {size(cost.at.limit_bytes)}", took + more, needs)


def layers_table(
    table: LayerCostTable, rows: Sequence[LayerRow], cost: PassCost | None, *, every: bool = False
) -> Table:
    """Make the table of the layers, in this order, at a limit; None: without one."""
    shown = list(rows) if every or len(rows) <= _MOST_ROWS + 1 else list(rows[:_MOST_ROWS])
    groups = [*([row] for row in shown), *([rows[len(shown) :]] if len(shown) < len(rows) else [])]
    names = [
        layer_name(table, group[0]) if n < len(shown) else f"{len(group)} others"
        for n, group in enumerate(groups)
    ]
    weights = [sum(row.parameter_bytes or 0 for row in group) or None for group in groups]
    label = cost.at.label if cost else ""
    phases = [[row.at[label].steps if cost else row.unlimited for row in group] for group in groups]
    peaks = [one[0].peak_bytes if len(one) == 1 and not cost else None for one in phases]
    faults = [sum(step.major_faults or 0 for step in one) if cost else 0 for one in phases]
    extra = [sum(row.at[label].extra_s for row in group) if cost else None for group in groups]
    shares = [
        sum(_extra_share(row, label) if cost else row.share for row in group) for group in groups
    ]
    load, run = (
        [sum(getattr(s, k) for s in one) for one in phases] for k in ("load_s", "execute_s")
    )
    glue = cost.glue_extra_s if cost else table.unlimited.glue_s
    glue_share = cost.glue_extra_share if cost else glue / table.unlimited.sum_s
    columns = [
        [*names, "between layers"],
        [*size_cells(weights), ""],
        [*time_cells(load), ""],
        [*time_cells(run), ""],
        time_cells([*extra, glue if cost else None]),
        [*(f"{count:,.0f}" if count else "" for count in faults), ""],
        [*size_cells(peaks), ""],
        [*map(share, shares), share(glue_share)],
    ]
    titles = ["layer", "weights", "load", "run", "extra", "faults", "peak", "share"]
    return filled_table(titles, zip(*columns, strict=True), "layer")


def layer_name(table: LayerCostTable, row: LayerRow) -> str:
    """Its name, with the network's in a pipeline."""
    several = len({layer.network for layer in table.layers}) > 1
    return printable(f"{row.network} {row.name}" if several else row.name)


def layer_warnings(table: LayerCostTable) -> list[str]:
    """Return what a reader of the layers' times must know."""
    passes = [table.unlimited, *(cost.at for cost in table.costs)]
    found = []
    if any(one.overlap > OVERLAPS for one in passes):
        found.append("layers overlap: their times add up to more than a round takes")
    if all(one.clock_s.count == 1 for one in passes):
        found.append("one trial per limit: --repeats 3 shows how far they differ")
    if all(row.unlimited.peak_bytes is None for row in table.layers):
        found.append("no peaks of layers: this engine or kernel does not tell them")
    return found
