"""How trials ended and what each used: short words, names and values, and a marked test's lines."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.answers.give import board_line
from edgebench.answers.table import GAP, factor, seconds, size
from edgebench.boards.storage import AS_IS
from edgebench.kills import OBSERVER_EFFECT, is_locked, swap_was_free
from edgebench.need import need_of
from edgebench.records import EndedIn, TrialRecord
from edgebench.results.unmeasured import is_stopped, unmeasured
from edgebench.text import printable, shortened
from edgebench.units import format_limit, swap_words

if TYPE_CHECKING:
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
