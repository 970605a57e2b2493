"""How trials ended, what each used, whether a board has the room; and what puts numbers in doubt.

A doubt is one line a kind, with what to do.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from edgebench.answers.table import (
    GAP,
    factor,
    headline,
    seconds,
    share,
    size,
)
from edgebench.boards import Fit, find_board
from edgebench.need import OBSERVER_EFFECT, is_locked, need_of, swap_was_free
from edgebench.records import Doubt, EndedIn, TrialRecord
from edgebench.results.limit_to_give import Unmeasured, is_stopped, unmeasured
from edgebench.text import AS_IS, MIB, format_limit, printable, shortened, swap_words

if TYPE_CHECKING:
    from edgebench.pytest_plugin.limited_test import LimitedRun
    from edgebench.results.facts import WorkloadFacts
    from edgebench.results.sweep_reader import Sweep

_FITS = {
    Fit.ENOUGH: "enough",
    Fit.SLOW: "finishes, slower than asked for",
    Fit.LIBRARIES: "too little beside its libraries: they are read again and again",
    Fit.TOO_LITTLE: "too little",
}

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
#: More limits and names than these are counted.
_MOST = 3
#: Cached files count from this share of the peak on.
_MUCH = 0.05


def board_line(
    name: str | None,
    enough_bytes: float | None,
    finished_bytes: float | None,
    library_bytes: float | None,
) -> str:
    """``Raspberry Pi 4   leaves 3.6 GiB   libraries 12 MiB   enough``; empty without a board."""
    if name is None or enough_bytes is None:
        return ""
    board = find_board(name)
    libraries = f"libraries {size(library_bytes)}" if library_bytes else ""
    fit = board.fit(enough_bytes, finished_bytes, library_bytes)
    return headline(board.title, f"leaves {size(board.left_bytes)}", libraries, _FITS[fit])


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
    # Where the limit was reached, what of libraries could be dropped is not known.
    unknown = record.saturated and record.library_bytes
    if record.limits.board and record.outcome == "ok" and not unknown:
        libraries = record.library_bytes
        if fits := board_line(record.limits.board, record.peak_bytes, None, libraries):
            yield "board", fits
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


class WarningKind(Enum):
    """Each kind of doubt: its line, with the numbers that it needs."""

    FAILED = "{what}"
    NOISE = "took {times} the unlimited time though the limit was not met: noise, repeat more often"
    BUSY = "others used up to {share} of the CPU: end them (see top), or repeat more often"
    SLOWED = "the machine slowed itself down ({what}): cool it or fix its power supply, run again"
    SPREAD = "repeats differ by up to {share}: repeat more often, or see edgebench doctor"
    COLLECTED = 'garbage collections took up to {seconds} of the rounds: set gc = "frozen"'
    LIMIT = "limits did not hold ({what}): end what changes them, run again"
    EVENTS = "{what}: numbers are missing; run again"
    SWAP = "swap was used or counted elsewhere ({what}): swapoff other areas, run again"
    WALK = "the walk ended early or without a clear knee ({what}): walk again with more repeats"
    SWAP_FREE = f"killed with {{size}} of swap free: {NOTHING_TO_RECLAIM}"
    GROWS = "memory still grew by {size} a minute when it was stopped: run it longer (--for 10m)"
    OUTSIDE = "part of it was not measured ({what}): --for 20s, or measure where it runs"
    CACHED = "{size} of its files lay in the page cache and were not counted: name them with --file"
    WATCHED = "memory.stat was read during trials, which can prevent kills: run without it"


@dataclass(frozen=True)
class Warned:
    """One doubt, and what it is about: a workload, and limits or a trial."""

    kind: WarningKind
    values: Mapping[str, Any] = field(default_factory=dict)
    workload: str = ""
    at: str = ""


#: Kind of doubt in a record → its warning, and what happened in few words.
_DOUBTS: Mapping[str, tuple[WarningKind, str]] = {
    "limit_not_met": (WarningKind.NOISE, ""),
    "stolen_cpu": (WarningKind.BUSY, ""),
    "foreign_cpu": (WarningKind.BUSY, ""),
    "throttled_cpu": (WarningKind.SLOWED, "throttled"),
    "slowed_down": (WarningKind.SLOWED, "{names}"),
    "hot": (WarningKind.SLOWED, "{hot_c:.0f} °C"),
    "clock_capped": (WarningKind.SLOWED, "clock rate capped"),
    "spread": (WarningKind.SPREAD, ""),
    "spread_known": (WarningKind.SPREAD, ""),
    "spread_wide": (WarningKind.SPREAD, ""),
    "short_repeat": (WarningKind.SPREAD, ""),
    "long_repeat": (WarningKind.SPREAD, ""),
    "drift": (WarningKind.SPREAD, ""),
    "limit_changed": (WarningKind.LIMIT, "{names} changed"),
    "ceiling": (WarningKind.LIMIT, "edgebench itself is limited to {ceiling_bytes}"),
    "no_events": (WarningKind.EVENTS, "lines without events"),
    "events_dropped": (WarningKind.EVENTS, "too many events"),
    "notes_left_out": (WarningKind.EVENTS, "notes too large"),
    "other_swap_area": (WarningKind.SWAP, "{names}"),
    "uncounted_swap_ram": (WarningKind.SWAP, "{taken_bytes} of RAM"),
    "unsteady_rounds": (WarningKind.WALK, "rounds don't repeat"),
    "walk_refused": (WarningKind.WALK, "{names}"),
    "walk_events": (WarningKind.WALK, "too many events"),
    "knee_close": (WarningKind.WALK, "close limits are alike"),
    "knee_left": (WarningKind.WALK, "no limits left"),
    "knee_disagree": (WarningKind.WALK, "visits disagree"),
    "huge_pages": (WarningKind.WALK, "{huge_bytes} in huge pages: huge_pages = false"),
    "killed_with_swap_free": (WarningKind.SWAP_FREE, ""),
}


def warned(doubts: Iterable[Doubt]) -> Iterator[Warned]:
    """Make the warning of each doubt; a kind of an earlier version has none."""
    for doubt in doubts:
        if doubt.kind not in _DOUBTS:
            continue
        kind, what = _DOUBTS[doubt.kind]
        numbers = {k: size(v) if k.endswith("bytes") else v for k, v in doubt.numbers.items()}
        shares = [v for k, v in doubt.numbers.items() if k.endswith("share")]
        values = {
            "share": max(map(abs, shares), default=0.0),
            "times": doubt.numbers.get("factor"),
            "size": doubt.numbers.get("free_bytes"),
            "what": what.format(names=", ".join(doubt.names), **numbers) if what else "",
        }
        where = doubt.limit or (f"trial {doubt.trial}" if doubt.trial else "")
        yield Warned(kind, values, doubt.workload or "", where)


def warnings_of(workload: WorkloadFacts, name: str = "") -> Iterator[Warned]:
    """Find what puts a workload's answer in doubt. ``name`` tells it from others of its sweep."""
    for point in workload.points:
        at = size(point.limit_bytes) if point.limit_bytes else "none"
        if set(point.outcomes) - {"ok", "oom-killed", "timeout"}:
            for reason in point.reasons:
                yield Warned(WarningKind.FAILED, {"what": reason}, name, at)
        free = point.swap_free_bytes
        if free:
            yield Warned(WarningKind.SWAP_FREE, {"size": free.low}, name, at)
        for doubt in warned(point.doubts):
            yield Warned(doubt.kind, doubt.values, name, at)
        if point.collections_s:
            yield Warned(WarningKind.COLLECTED, {"seconds": max(point.collections_s)}, name, at)
    yield from unmeasured_warnings(workload.unmeasured, name)


def unmeasured_warnings(found: Unmeasured, name: str = "") -> Iterator[Warned]:
    """Find what a program's trials leave open."""
    if found.growth:
        yield Warned(WarningKind.GROWS, {"size": 60 * found.growth.bytes_per_s}, name)
    if found.is_idle:
        yield Warned(WarningKind.OUTSIDE, {"what": "it does next to nothing itself"}, name)
    if found.processes:
        what = f"{found.processes} processes outlived it: {', '.join(found.names)}"
        yield Warned(WarningKind.OUTSIDE, {"what": what}, name)
    if found.left_bytes:
        what = f"{size(found.left_bytes)} of shared memory stay: ls /dev/shm"
        yield Warned(WarningKind.OUTSIDE, {"what": what}, name)


def trial_warnings(record: TrialRecord, found: Unmeasured) -> Iterator[Warned]:
    """Find what puts a single trial's answer in doubt."""
    from edgebench.measures.machine.noise import trial_doubts

    yield from warned(trial_doubts(record))
    yield from unmeasured_warnings(found)
    if record.files and is_warm(record):
        yield Warned(WarningKind.CACHED, {"size": record.files.warm_bytes})
    if record.watched and record.watched.flushes and record.limit_bytes is not None:
        yield Warned(WarningKind.WATCHED)
    for what, why in record.storage.not_held.items() if record.storage else ():
        yield Warned(WarningKind.LIMIT, {"what": f"storage speed of {what}: {why}"})


def is_warm(record: TrialRecord) -> bool:
    """Whether much of its files lay in the page cache before it, so that nothing counted them."""
    warm = record.files.warm_bytes or 0 if record.files else 0
    return warm >= max(MIB, _MUCH * (record.peak_bytes or 0))


def sweep_warnings(sweep: Sweep) -> list[Warned]:
    """Warn if trials below a limit were watched in a way that can prevent kills."""
    from edgebench.results.sweep_reader import reads_statistics

    return [Warned(WarningKind.WATCHED)] if reads_statistics(sweep) else []


def warning_lines(warnings: Iterable[Warned]) -> list[str]:
    """Format one line for each kind, with the largest numbers and all that it is about.

    Failures have a line for each reason.
    """
    groups: dict[tuple[WarningKind, str], list[Warned]] = {}
    for warning in warnings:
        reason = warning.values["what"] if warning.kind is WarningKind.FAILED else ""
        groups.setdefault((warning.kind, reason), []).append(warning)
    order = list(WarningKind)
    ranked = sorted(groups.items(), key=lambda group: order.index(group[0][0]))
    return [_line(kind, group) for (kind, _), group in ranked]


def _line(kind: WarningKind, group: list[Warned]) -> str:
    def largest(name: str) -> Any:
        known = [warning.values[name] for warning in group if warning.values.get(name) is not None]
        return max(known, default=0.0)

    whats = dict.fromkeys(warning.values["what"] for warning in group if warning.values.get("what"))
    words = kind.value.format(
        share=share(largest("share")),
        seconds=seconds(largest("seconds")),
        size=size(largest("size")),
        times=f"{largest('times'):.2f} times",
        what=_listed([*whats]),
    )
    places: dict[str, dict[str, None]] = {}
    for warning in group:
        places.setdefault(warning.workload, {})[warning.at] = None
    where = _listed(
        [f"{name} {_listed([*filter(None, at)])}".strip() for name, at in places.items()]
    )
    return f"{where}: {words}" if where else words


def _listed(words: list[str]) -> str:
    left = len(words) - _MOST
    return ", ".join(words[:_MOST] + ([f"{left} more"] if left > 0 else []))
