"""From a walk to records: one for each limit that it visited, as if each were a trial."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.records import DEMAND, Doubt, TrialRecord, WalkReport, is_count
from edgebench.run.trial.round_sources import RecordedRounds
from edgebench.run.trial.trial_readers import OTHER_SWAP
from edgebench.run.walk.control import WalkControl, WalkedLimits, WalkStep, visited
from edgebench.safe_files import write
from edgebench.spans import collections_s, events_to_phases

#: Counted over the whole process, through all of its limits.
_WHOLE = (
    *("cpu_s", "user_s", "system_s", "gnu_time_maxrss_bytes", "major_faults", "minor_faults"),
    *("swapped_in_bytes", "swapped_out_bytes", "refault_anon", "refault_file", "io_read_bytes"),
    *("io_write_bytes", "limit_hits", "sampled_peak_bytes", "swap_peak_bytes"),
)
#: How the process ended, and what stands in the first record alone.
_END = (
    *("reason", "ended_in", "exit_code", "signal"),
    *("oom_kills", "killed_with_swap_free", "kill"),
)
_OF_THE_FIRST = ("harness_s", "other_swap_bytes", "sampler", "swap_ram", "accelerator")
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
    rounds: RecordedRounds,
) -> list[TrialRecord]:
    """Return each limit's record, its events written; the first is the trial's own, of its start.

    Args:
        whole: the record of the process as a trial without a limit.
        control: what moved its limit.
        limits: through which it went.
        events: the trial's file of events; those of its further limits get files beside it.
        rounds: which counts of rounds are known.
    """
    left = control.read_events()
    # What an unfinished round left belongs to its limit, the last words to the trial.
    control.steps[0 if whole.outcome == "ok" else -1].events += left
    references = _references(control.steps)
    records = []
    for number, step in enumerate(control.steps):
        own_events = step.every_event()
        reference_s = references.get(number)
        record = _record_at(whole, control, limits, number, own_events, rounds, reference_s)
        records.append(record)
        file = events.with_name(f"{record.trial}{''.join(events.suffixes)}") if number else events
        limit = {
            "event": "limit",
            "t_ns": step.start_ns,
            "limit_bytes": step.applied_bytes,
            "direction": step.visit.direction,
        }
        lines = "".join(json.dumps(event) + "\n" for event in (limit, *own_events))
        write(file, gzip.compress(lines.encode(), compresslevel=1))
    return records


def _record_at(
    whole: TrialRecord,
    control: WalkControl,
    limits: WalkedLimits,
    number: int,
    events: Sequence[dict[str, Any]],
    rounds: RecordedRounds,
    reference_s: float | None,
) -> TrialRecord:
    """Build the record of one limit.

    The first has what is of the whole process, the last one how that ended.
    """
    step, is_last = control.steps[number], number == len(control.steps) - 1
    memory_bytes, limit = step.visit.memory_bytes, step.applied_bytes
    spans: list[Any] = [event.get("peak_bytes") for event in events]
    peak = max(filter(is_count, spans), default=None)
    missing = {
        **whole.missing,
        **dict.fromkeys(_WHOLE, _WHY_NOT),
        **dict.fromkeys(DEMAND, _WHY_NO_DEMAND),
    }
    record = structs.replace(
        whole,
        **dict.fromkeys((*_WHOLE, *DEMAND, "demand_source")),
        point=limits.point(memory_bytes, step.visit.direction),
        limits=limits.setting(memory_bytes),
        direction=step.visit.direction,
        limit_bytes=limit,
        peak_bytes=peak,
        saturated=None if peak is None else limit is not None and peak >= limit,
        collections_s=collections_s(events),
        walk=WalkReport(whole.trial, number, step.round_s, reference_s),
        # The first and the last have more than rounds: what came before them, what is left of one.
        phases=step.phases if number and not is_last else events_to_phases(events),
        round_counts=rounds.known(step.counts),
        round_sources=rounds.sources,
        missing=missing,
    )
    if whole.outcome != "ok" and not is_last:
        record = structs.replace(record, outcome="ok", **dict.fromkeys(_END))
    if number:
        missing.pop(OTHER_SWAP, None)
        return structs.replace(
            record,
            **dict.fromkeys(_OF_THE_FIRST),
            trial=f"{whole.trial}-{number:02d}",
            started_utc=step.started_utc,
            wall_s=(step.end_ns - step.start_ns) / 1e9 if step.end_ns else None,
            gnu_time={},
            notes={},
            noise={},
            doubts=[],
        )
    if control.working_set.missing:
        missing["working_set"] = control.working_set.missing
    doubts = [*whole.doubts, *_doubts(control, limits)]
    return structs.replace(record, working_set=control.working_set.found, doubts=doubts)


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
