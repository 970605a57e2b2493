"""From what was measured of one trial to its record."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.interface import Counters, Limits
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.kills import swap_was_free
from edgebench.measures.gnu_time import NO_REPORT, GnuTime
from edgebench.measures.strategies import StrategyOptions
from edgebench.records import (
    DEMAND,
    AcceleratorReport,
    Doubt,
    FilesReport,
    GrowthReport,
    KillReport,
    LimitSetting,
    Outcome,
    OutsideReport,
    RoundCounts,
    SamplerReport,
    StorageReport,
    SwapRamReport,
    TrialRecord,
    Watching,
    is_count,
)
from edgebench.run.trial.outcome import TrialEnd, judge_end
from edgebench.run.trial.output_rate import trial_throughput
from edgebench.run.trial.process import ProcessEnd
from edgebench.run.trial.round_sources import RecordedRounds, RoundSources
from edgebench.spans import collections_s, events_to_phases, finished_spans
from edgebench.text import printable, reads_throughput

if TYPE_CHECKING:
    from edgebench.run.walk.control import WalkControl, WalkedLimits

#: What samples tell of the demand.
_SAMPLED = ("demand_bytes", "demand_source", "undroppable_bytes")
#: The most that a record keeps of notes, as JSON.
_NOTES_BYTES = 1 << 20
_REASON_LENGTH = 300


def utc_now() -> str:
    """Return the time of day, for people; intervals are measured on the monotonic clock."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class TrialRequest:
    """Which trial to make. ``strategy``: whose own trial it is (None: timed).

    Not recorded: ``weights`` (network → folder), ``code`` (the user's files → digests), ``walk``
    (limits that a living trial is moved to).
    """

    trial: str
    point: str
    block: int
    repeat: int
    settings: Mapping[str, Any]
    limits: LimitSetting
    timeout_s: float | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    dump_every_bytes: int = StrategyOptions.dump_every_bytes
    walk: WalkedLimits | None = None


@dataclass(frozen=True)
class Measured:
    """All that was measured of one trial, before it becomes a record.

    Args:
        watched: how the sampler watched.
        missing: key of the record → why it is missing.
        doubts: what readers and controllers found doubtful.
        walk: what moved the limit of a walk; None: it is none.
        rounds: where its rounds' counts come from.
    """

    applied: Limits
    ended: ProcessEnd
    counters: Counters
    gnu_time: GnuTime | None
    events: list[dict[str, Any]]
    sampler: SamplerReport
    samples: SampleSummary
    watched: Watching
    output_tail: str = ""
    bad_events: int = 0
    dropped_events: int = 0
    library_bytes: int | None = None
    other_swap_bytes: int | None = None
    throughput_per_s: float | None = None
    why_no_rate: str = ""
    ceiling_bytes: int | None = None
    accelerator: AcceleratorReport | None = None
    files: FilesReport | None = None
    growth: GrowthReport | None = None
    kill: KillReport | None = None
    outside: OutsideReport | None = None
    storage: StorageReport | None = None
    swap_ram: SwapRamReport | None = None
    noise: dict[str, Any] = field(default_factory=dict)
    surroundings: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    broken_limits: list[Doubt] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    rounds: RoundSources = field(default_factory=RoundSources)
    walk: WalkControl | None = None

    @cached_property
    def round_counts(self) -> list[RoundCounts]:
        """Each finished round's."""
        return self.rounds.counts(self.events)

    @cached_property
    def recorded_rounds(self) -> RecordedRounds:
        """Where these come from, and why some are missing."""
        return self.rounds.recorded(self.round_counts, self.other_swap_bytes)


def record_of(
    request: TrialRequest, measured: Measured, started_utc: str, total_s: float
) -> TrialRecord:
    """Return the record of one trial that took ``total_s`` in all, the harness's work included."""
    counters, samples, gnu = measured.counters, measured.samples, measured.gnu_time
    filled = measured.swap_ram is not None and measured.swap_ram.ran_out
    verdict = judge_end(
        measured.ended, counters, measured.events, measured.output_tail, swap_filled_limit=filled
    )
    peak, peak_source, saturated = _peak(measured)
    swap_peaks = (counters.swap_peak_bytes, samples.swap_peak_bytes)
    # What a strategy adds would pass for the workload's own demand.
    is_plain = verdict.outcome == "ok" and request.strategy is None
    shows_demand = is_plain and measured.applied.lowest_bytes is None
    demand = samples.demand_bytes if shows_demand else None
    source = samples.demand_source if demand is not None else None
    if demand is not None and measured.files:
        demand += measured.files.late_bytes + measured.files.reread_bytes
    phases, rounds = events_to_phases(measured.events), measured.recorded_rounds
    notes, notes_left_out = _notes(measured.events)
    # No layer is imported, so the many spans of layers need not be looked at.
    whole = finished_spans(event for event in measured.events if event.get("layer") is None)
    imports = (span for span in whole if span.phase == "import")
    return TrialRecord(
        trial=request.trial,
        point=request.point,
        block=request.block,
        repeat=request.repeat,
        settings=dict(request.settings),
        limits=request.limits,
        strategy=request.strategy,
        outcome=verdict.outcome,
        reason=verdict.reason,
        ended_in=verdict.ended_in,
        exit_code=verdict.exit_code,
        signal=verdict.signal,
        started_utc=started_utc,
        wall_s=measured.ended.wall_s,
        cpu_s=_seconds(counters.cpu_ns),
        user_s=_seconds(counters.user_ns),
        system_s=_seconds(counters.system_ns),
        harness_s=total_s - measured.ended.wall_s,
        limit_bytes=measured.applied.memory_bytes,
        peak_bytes=peak,
        peak_source=peak_source,
        saturated=saturated,
        sampled_peak_bytes=samples.sampled_peak_bytes,
        swap_peak_bytes=max((size for size in swap_peaks if size is not None), default=None),
        other_swap_bytes=measured.other_swap_bytes,
        demand_bytes=demand,
        demand_source=source,
        undroppable_bytes=samples.undroppable_bytes if shows_demand else None,
        library_bytes=measured.library_bytes if is_plain else None,
        base_bytes=next((span.usage_after_bytes for span in imports), None),
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
        killed_with_swap_free=swap_was_free(measured.kill),
        limit_hits=counters.limit_hits,
        collections_s=collections_s(measured.events),
        throughput_per_s=trial_throughput(request.settings, measured.throughput_per_s, phases),
        page_cache=request.settings.get("page_cache"),
        sampler=measured.sampler,
        watched=measured.watched,
        kill=measured.kill,
        outside=measured.outside,
        growth=measured.growth,
        storage=measured.storage,
        files=measured.files,
        swap_ram=measured.swap_ram,
        accelerator=measured.accelerator,
        phases=phases,
        round_counts=rounds.known(measured.round_counts),
        round_sources=rounds.sources,
        notes={**notes, **measured.surroundings},
        noise=measured.noise,
        doubts=_doubts(measured, notes_left_out),
        missing={**_missing(measured, verdict, request), **rounds.missing},
    )


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _peak(measured: Measured) -> tuple[int | None, str, bool | None]:
    """Return the whole trial's peak, where it is from, and whether the limit was touched.

    Then it shows no demand.
    """
    counters, limit = measured.counters, measured.applied.lowest_bytes
    peak, source = measured.samples.sampled_peak_bytes, "sampled"
    if counters.peak_bytes is not None:
        # The worker resets the kernel's mark, so its spans' peaks count.
        spans: list[Any] = [event.get("peak_bytes") for event in measured.events]
        peak, source = max([counters.peak_bytes, *filter(is_count, spans)]), "kernel"
    if limit is None or (peak is not None and peak >= limit):
        return peak, source, limit is not None
    return peak, source, None if counters.limit_hits is None else counters.limit_hits > 0


def _notes(events: list[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """All that the worker noted, and how many notes have no room in a record."""
    notes: dict[str, Any] = {}
    room, left_out = _NOTES_BYTES, 0
    for event in events:
        data = event.get("data")
        if event["event"] != "note" or not isinstance(data, dict):
            continue
        room -= len(json.dumps(data))
        if room < 0:
            left_out += 1
        else:
            notes.update(data)
    return notes, left_out


def _doubts(measured: Measured, notes_left_out: int) -> list[Doubt]:
    counts = {
        "no_events": measured.bad_events,
        "events_dropped": measured.dropped_events,
        "notes_left_out": notes_left_out,
    }
    counted = [Doubt(kind, {"count": count}) for kind, count in counts.items() if count]
    ceiling, limit = measured.ceiling_bytes, measured.applied.lowest_bytes
    if ceiling is not None and measured.counters.oom_kills and (limit is None or limit > ceiling):
        counted.append(Doubt("ceiling", {"ceiling_bytes": ceiling}))
    return [*measured.broken_limits, *counted, *measured.doubts]


def _missing(measured: Measured, verdict: TrialEnd, request: TrialRequest) -> dict[str, str]:
    missing = dict(measured.missing)
    if measured.throughput_per_s is None and reads_throughput(request.settings):
        missing["throughput_per_s"] = measured.why_no_rate
    if measured.gnu_time is None:
        missing["gnu_time"] = NO_REPORT
    if not measured.events:
        missing["collections_s"] = "the workload tells no events"
    if request.strategy is not None:
        why = f"{request.strategy}'s own trial: what it adds is no demand"
    elif measured.applied.lowest_bytes is not None:
        why = "demand shows only without a limit"
    elif verdict.outcome != "ok":
        why = f"the trial ended as {verdict.outcome}"
    elif measured.samples.demand_bytes is None:
        why = "no sample saw its memory: it ended too soon"
        return {**dict.fromkeys(_SAMPLED, why), **missing}
    else:
        return missing
    # Where a board is sized, libraries are measured below its limit, too.
    hides = verdict.outcome != "ok" or request.strategy or measured.library_bytes is None
    unknown = DEMAND if hides else [name for name in DEMAND if name != "library_bytes"]
    return {**missing, **dict.fromkeys(unknown, why)}


def faulty_record(request: TrialRequest, error: Exception) -> TrialRecord:
    """Return the record of a trial at which the harness itself failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    what = printable(f"{type(error).__name__}: {error}")[:_REASON_LENGTH]
    reason = f"what was measured can't be read ({place}): {what}"
    return unmade_record(request, "harness-error", reason)


def unmade_record(request: TrialRequest, outcome: Outcome, reason: str) -> TrialRecord:
    """Return the record of a trial that was not made; a resume makes a ``harness-error`` again."""
    return TrialRecord(
        trial=request.trial,
        point=request.point,
        block=request.block,
        repeat=request.repeat,
        settings=dict(request.settings),
        limits=request.limits,
        strategy=request.strategy,
        outcome=outcome,
        reason=reason,
        started_utc=utc_now(),
    )
