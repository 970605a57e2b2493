"""From what was seen of one trial to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from edgebench.cgroups.interface import Counters, Limits
from edgebench.cgroups.sampling import SampleSummary
from edgebench.machine.noise import noise_warnings
from edgebench.measures.gnu_time import GnuTime
from edgebench.measures.strategy import Asked
from edgebench.process import Ended
from edgebench.records.phases import events_to_phases
from edgebench.records.records import LimitSetting, Outcome, SamplerReport, TrialRecord
from edgebench.records.shapes import is_count
from edgebench.trial.verdict import Verdict, judge


def utc_now() -> str:
    """The time of day, for people; intervals are measured on the monotonic clock."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class TrialRequest:
    """Which trial to make. ``settings`` is the workload's, with its ``kind``.

    ``weights`` (network → folder) is where this machine keeps them, and no part of the record.
    ``strategy`` names the way of telling memory whose own trial it is; None: it is timed.
    ``dump_every_bytes`` is how often that strategy may dump the heap.
    """

    trial: str
    point: str
    block: int
    repeat: int
    settings: Mapping[str, Any]
    limits: LimitSetting
    timeout_s: float | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    dump_every_bytes: int = Asked.dump_every_bytes


@dataclass(frozen=True)
class Measured:
    """All that was seen of one trial, before it is worded as a record."""

    applied: Limits
    ended: Ended
    events: list[dict[str, Any]]
    bad_events: int
    counters: Counters
    gnu_time: GnuTime | None
    sampler: SamplerReport
    samples: SampleSummary
    noise: dict[str, Any]
    output_tail: str
    missing: dict[str, str] = field(default_factory=dict)


def record_of(
    request: TrialRequest, seen: Measured, started_utc: str, total_s: float
) -> TrialRecord:
    """The record of one trial that took ``total_s`` in all, the harness's work included."""
    verdict = judge(seen.ended, seen.counters, seen.events, seen.output_tail)
    peak_bytes, peak_source = _peak(seen)
    limit = seen.applied.memory_bytes
    # What a strategy adds would pass for the workload's own demand.
    shows_demand = limit is None and verdict.outcome == "ok" and request.strategy is None
    demand = seen.samples.demand_bytes if shows_demand else None
    counters, gnu = seen.counters, seen.gnu_time
    return TrialRecord(
        trial=request.trial,
        point=request.point,
        block=request.block,
        repeat=request.repeat,
        settings=dict(request.settings),
        limits=request.limits,
        outcome=verdict.outcome,
        strategy=request.strategy,
        reason=verdict.reason,
        exit_code=verdict.exit_code,
        signal=verdict.signal,
        started_utc=started_utc,
        wall_s=seen.ended.wall_s,
        cpu_s=_seconds(counters.cpu_ns),
        user_s=_seconds(counters.user_ns),
        system_s=_seconds(counters.system_ns),
        harness_s=total_s - seen.ended.wall_s,
        limit_bytes=limit,
        peak_bytes=peak_bytes,
        peak_source=peak_source,
        saturated=_saturated(peak_bytes, limit, counters),
        sampled_peak_bytes=seen.samples.sampled_peak_bytes,
        swap_peak_bytes=_largest(counters.swap_peak_bytes, seen.samples.swap_peak_bytes),
        demand_bytes=demand,
        demand_source=seen.samples.demand_source if demand is not None else None,
        base_bytes=_base(seen.events),
        gnu_time_maxrss_bytes=gnu.maxrss_bytes if gnu else None,
        gnu_time=asdict(gnu) if gnu else {},
        major_faults=counters.major_faults,
        minor_faults=counters.minor_faults,
        swapped_in_bytes=counters.swapped_in_bytes,
        swapped_out_bytes=counters.swapped_out_bytes,
        refault_anon=counters.refault_anon,
        refault_file=counters.refault_file,
        io_read_bytes=counters.io_read_bytes,
        io_write_bytes=counters.io_write_bytes,
        oom_kills=counters.oom_kills,
        limit_hits=counters.limit_hits,
        page_cache=request.settings.get("page_cache"),
        sampler=seen.sampler,
        phases=events_to_phases(seen.events),
        notes=_notes(seen.events),
        noise=seen.noise,
        warnings=_warnings(seen),
        missing=_missing(seen, limit, verdict, request.strategy),
    )


def _seconds(nanoseconds: int | None) -> float | None:
    return nanoseconds / 1e9 if nanoseconds is not None else None


def _largest(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _peak(seen: Measured) -> tuple[int | None, str | None]:
    """The whole trial's peak: the worker resets the kernel's mark, so its spans' peaks count."""
    if seen.counters.peak_bytes is None:
        return seen.samples.sampled_peak_bytes, "sampled"
    spans = [event.get("peak_bytes") for event in seen.events]
    return _largest(seen.counters.peak_bytes, *(p for p in spans if is_count(p))), "kernel"


def _saturated(peak: int | None, limit: int | None, counters: Counters) -> bool | None:
    """Whether the limit was touched: then the peak tells the limit, not the demand."""
    if limit is None:
        return False
    if peak is not None and peak >= limit:
        return True
    return counters.limit_hits > 0 if counters.limit_hits is not None else None


def _base(events: list[dict[str, Any]]) -> int | None:
    """Usage when the runtime was imported and no model existed yet."""
    started = {e.get("id"): e.get("phase") for e in events if e["event"] == "start"}
    ends = (e for e in events if e["event"] == "end" and started.get(e.get("id")) == "import")
    usage = next(ends, {}).get("usage_bytes")
    return usage if is_count(usage) else None


def _notes(events: list[dict[str, Any]]) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    for event in events:
        if event["event"] == "note" and isinstance(event.get("data"), dict):
            notes.update(event["data"])
    return notes


def _warnings(seen: Measured) -> list[str]:
    warnings = list(noise_warnings(seen.noise))
    if seen.bad_events:
        warnings.append(f"{seen.bad_events} lines from the worker were no events and were left out")
    return warnings


def _missing(
    seen: Measured, limit: int | None, verdict: Verdict, strategy: str | None
) -> dict[str, str]:
    missing = dict(seen.missing)
    if seen.gnu_time is None:
        missing["gnu_time"] = "GNU time left no report: it was killed with the workload"
    if strategy is not None:
        missing["demand_bytes"] = f"{strategy}'s own trial: what it adds is no demand"
    elif limit is not None:
        missing["demand_bytes"] = "demand shows only without a limit"
    elif verdict.outcome != "ok":
        missing["demand_bytes"] = f"the trial ended as {verdict.outcome}"
    return missing


def harness_error(request: TrialRequest, error: Exception) -> TrialRecord:
    """The record of a trial the harness itself could not make; a resume runs it again."""
    return _not_made(request, "harness-error", str(error))


def unavailable(request: TrialRequest, reason: str) -> TrialRecord:
    """The record of a strategy's trial that was not made, since it can't be used here."""
    return _not_made(request, "failed", reason)


def _not_made(request: TrialRequest, outcome: Outcome, reason: str) -> TrialRecord:
    return TrialRecord(
        trial=request.trial,
        point=request.point,
        block=request.block,
        repeat=request.repeat,
        settings=dict(request.settings),
        limits=request.limits,
        outcome=outcome,
        started_utc=utc_now(),
        strategy=request.strategy,
        reason=reason,
    )
