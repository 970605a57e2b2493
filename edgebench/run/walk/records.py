"""From a walk to records: one for each limit that it visited, as if each were a trial."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.records import DEMAND, Doubt, TrialRecord, WalkReport, is_count
from edgebench.run.walk.control import WalkControl, WalkedLimits, WalkStep
from edgebench.run.walk.pace import visited
from edgebench.safe_files import write
from edgebench.spans import collections_s, events_to_phases

#: Counted over the whole process, through all of its limits.
_WHOLE = (
    *("cpu_s", "user_s", "system_s", "gnu_time_maxrss_bytes", "major_faults", "minor_faults"),
    *("swapped_in_bytes", "swapped_out_bytes", "refault_anon", "refault_file", "io_read_bytes"),
    *("io_write_bytes", "limit_hits", "sampled_peak_bytes", "swap_peak_bytes"),
)
_WHY_NOT = "counted over a whole walk, not at each of its limits"
_WHY_NO_DEMAND = "in a walk the statistics that show demand are not read: that can prevent a kill"
#: Unlimited rounds that differ by more, from a walk's start to its end, are said.
_DRIFT = 0.05
#: A working set of which a larger part lies in huge pages may be too large by as much.
_HUGE_PART = 0.05


def walk_records(
    whole: TrialRecord,
    control: WalkControl,
    limits: WalkedLimits,
    events: Path,
) -> list[TrialRecord]:
    """Each limit's record, its events written; the first is the trial's own, of its start.

    Args:
        whole: the record of the process as a trial without a limit.
        control: what moved its limit.
        limits: through which it went.
        events: the trial's file of events; those of its further limits get files beside it.
    """
    left = control.read_events()
    steps, made = control.steps, []
    ended = whole.outcome == "ok"
    # What an unfinished round left belongs to its limit, the last words to the trial.
    steps[0 if ended else -1].events += left
    references = _references(steps)
    for number, step in enumerate(steps):
        last, own = number == len(steps) - 1, step.every_event()
        record = _at(whole, number, step, limits, references.get(number), own)
        if number in (0, len(steps) - 1):
            # These have more than rounds: what came before them, and what is left of one.
            record = replace(record, phases=events_to_phases(own))
        if not ended and not last:
            record = _finished(record)
        made.append(record)
        file = events.with_name(f"{record.trial}{''.join(events.suffixes)}") if number else events
        write(file, _packed([_limit_event(step), *own]))
    made[0] = replace(
        made[0],
        working_set=control.working_set.found,
        doubts=[*made[0].doubts, *_doubts(control, limits)],
        missing=_told_missing(made[0].missing, control.working_set.missing),
    )
    return made


def _told_missing(missing: dict[str, str], working_set: str | None) -> dict[str, str]:
    return {**missing, **({"working_set": working_set} if working_set else {})}


def _packed(events: Iterable[dict[str, Any]]) -> bytes:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    return gzip.compress(lines.encode(), compresslevel=1)


def _at(
    whole: TrialRecord,
    number: int,
    step: WalkStep,
    limits: WalkedLimits,
    reference_s: float | None,
    events: Sequence[dict[str, Any]],
) -> TrialRecord:
    """Return the record of one limit."""
    name = f"{whole.trial}-{number:02d}" if number else whole.trial
    limit = step.applied_bytes
    spans: list[Any] = [event.get("peak_bytes") for event in events]
    peak = max(filter(is_count, spans), default=None)
    nothing: dict[str, Any] = dict.fromkeys(_WHOLE)
    record = replace(
        whole,
        **nothing,
        trial=name,
        point=limits.point(step.visit.memory_bytes, step.visit.direction),
        limits=limits.setting(step.visit.memory_bytes),
        direction=step.visit.direction,
        limit_bytes=limit,
        peak_bytes=peak,
        saturated=None if peak is None else limit is not None and peak >= limit,
        collections_s=collections_s(events),
        phases=step.phases,
        round_counts=step.counts,
        walk=WalkReport(whole.trial, number, step.round_s, reference_s),
        missing={
            **whole.missing,
            **dict.fromkeys(_WHOLE, _WHY_NOT),
            **dict.fromkeys(DEMAND, _WHY_NO_DEMAND),
        },
    )
    return record if number == 0 else _later(record, step)


def _later(record: TrialRecord, step: WalkStep) -> TrialRecord:
    """Remove what is of the process as a whole, which its first record has."""
    took_s = (step.end_ns - step.start_ns) / 1e9 if step.end_ns else None
    return replace(
        record,
        started_utc=step.started_utc,
        wall_s=took_s,
        harness_s=None,
        sampler=None,
        gnu_time={},
        noise={},
        notes={},
        doubts=[],
    )


def _finished(record: TrialRecord) -> TrialRecord:
    """Remove what only a later limit came to."""
    return replace(
        record,
        outcome="ok",
        reason=None,
        ended_in=None,
        exit_code=None,
        signal=None,
        oom_kills=None,
        killed_with_swap_free=None,
        kill=None,
    )


def _limit_event(step: WalkStep) -> dict[str, Any]:
    return {
        "event": "limit",
        "t_ns": step.start_ns,
        "limit_bytes": step.applied_bytes,
        "direction": step.visit.direction,
    }


def _references(steps: Sequence[WalkStep]) -> dict[int, float]:
    """For each finished step the unlimited round as it was then, seconds."""
    known = {
        number: _steady_s(step)
        for number, step in enumerate(steps)
        if step.visit.memory_bytes is None and step.end_ns
    }
    found = dict(known)
    for number, step in enumerate(steps):
        before = max((n for n in known if n < number), default=None)
        after = min((n for n in known if n > number), default=None)
        if number in known or before is None or after is None:
            continue
        start, end = steps[before].end_ns, steps[after].start_ns
        share = ((step.start_ns + step.end_ns) / 2 - start) / max(1, end - start)
        found[number] = known[before] + share * (known[after] - known[before])
    return found


def _steady_s(step: WalkStep) -> float:
    return visited(step.phases, step.counts).seconds or 0.0


def _doubts(control: WalkControl, limits: WalkedLimits) -> list[Doubt]:
    """Return what the user should know of the walk as a whole."""
    doubts = [control.refused] if control.refused else []
    knee = control.knee
    if knee and knee.known_to > limits.target:
        is_wide = knee.high_bytes - knee.low_bytes >= 2 * limits.step_bytes
        apart = "knee_left" if is_wide else "knee_close"
        kind = "knee_disagree" if knee.disagree else apart
        sizes = {"low_bytes": knee.low_bytes, "high_bytes": knee.high_bytes}
        shares = {"known_share": knee.known_to, "wanted_share": limits.target}
        doubts.append(Doubt(kind, {**sizes, **shares}))
    watched = control.working_set
    if watched.found and watched.huge_bytes > _HUGE_PART * watched.found.total_bytes:
        doubts.append(Doubt("huge_pages", {"huge_bytes": watched.huge_bytes}))
    free = [s for s in control.steps if s.visit.memory_bytes is None and s.end_ns]
    if len(free) > 1 and abs(drift := _steady_s(free[-1]) / _steady_s(free[0]) - 1) > _DRIFT:
        doubts.append(Doubt("drift", {"drift_share": drift}))
    return doubts
