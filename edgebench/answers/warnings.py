"""What puts an answer in doubt: one line a kind, each with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from edgebench.answers.table import seconds, share, size
from edgebench.answers.trials import NOTHING_TO_RECLAIM
from edgebench.text import MIB

if TYPE_CHECKING:
    from edgebench.records import Doubt, TrialRecord
    from edgebench.results.facts import WorkloadFacts
    from edgebench.results.limit_to_give import Unmeasured
    from edgebench.results.sweep_reader import Sweep

#: More limits and names than these are counted.
_MOST = 3
#: Cached files count from this share of the peak on.
_MUCH = 0.05


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
        for one in warned(point.doubts):
            yield Warned(one.kind, one.values, name, at)
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


def warning_lines(found: Iterable[Warned]) -> list[str]:
    """Format one line for each kind, with the largest numbers and all that it is about.

    Failures have a line for each reason.
    """
    groups: dict[tuple[WarningKind, str], list[Warned]] = {}
    for one in found:
        reason = one.values["what"] if one.kind is WarningKind.FAILED else ""
        groups.setdefault((one.kind, reason), []).append(one)
    order = list(WarningKind)
    ranked = sorted(groups.items(), key=lambda group: order.index(group[0][0]))
    return [_line(kind, group) for (kind, _), group in ranked]


def _line(kind: WarningKind, group: list[Warned]) -> str:
    def largest(name: str) -> Any:
        known = [one.values[name] for one in group if one.values.get(name) is not None]
        return max(known, default=0.0)

    whats = dict.fromkeys(one.values["what"] for one in group if one.values.get("what"))
    words = kind.value.format(
        share=share(largest("share")),
        seconds=seconds(largest("seconds")),
        size=size(largest("size")),
        times=f"{largest('times'):.2f} times",
        what=_listed([*whats]),
    )
    places: dict[str, dict[str, None]] = {}
    for one in group:
        places.setdefault(one.workload, {})[one.at] = None
    where = _listed(
        [f"{name} {_listed([*filter(None, at)])}".strip() for name, at in places.items()]
    )
    return f"{where}: {words}" if where else words


def _listed(words: list[str]) -> str:
    left = len(words) - _MOST
    return ", ".join(words[:_MOST] + ([f"{left} more"] if left > 0 else []))
