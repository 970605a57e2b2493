"""What is asked of one trial, what was measured of it, and the record that is made from both.

Rounds count what they read from swap and write to it. Only what flushes no statistics is read for
that (docs/explanation/observer-effect.md): all that a round reads is in the process's own
``/proc/PID/io``, on versions 1 and 2 of cgroups alike; what of it is swap depends on where the swap
lies.
"""

from __future__ import annotations

import json
import statistics
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.interface import Counters, Limits
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.cgroups.swap import SwapState
from edgebench.measures.gnu_time import NO_REPORT, GnuTime
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.need import swap_was_free
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
    PhaseSum,
    RoundCounts,
    SamplerReport,
    StorageReport,
    SwapRamReport,
    TrialRecord,
    Watching,
    is_count,
)
from edgebench.run.trial.outcome import TrialEnd, judge_end
from edgebench.run.trial.process import ProcessEnd
from edgebench.spans import collections_s, events_to_phases, finished_spans
from edgebench.swap_areas import parse_swap_areas
from edgebench.text import generates_text, printable, reads_throughput
from edgebench.workloads.events import ONLY_SWAP, VMSTAT

if TYPE_CHECKING:
    from edgebench.run.walk.walk import WalkedLimits

_OWN = "/proc/PID/io"
_OTHER_AREAS = "other swap areas are on: the machine's counters don't tell whose pages they move"
#: The counts that the machine's counters give, and how these are named.
_SWAPPED, _MACHINE = ("swap_in_bytes", "file_in_bytes", "out_bytes"), "of the whole machine"
_MORE = "in some rounds the machine swapped in more than the process read: others did, too"
_NO_OWN = "this kernel has no /proc/PID/io"


@dataclass(frozen=True)
class RoundSources:
    """What the worker reads for swap, and what is told of it.

    Args:
        file: the statistics; None: there are none.
        kind: how they are read, of :mod:`edgebench.workloads.events`.
        swaps: whether there is swap at all; without, nothing is read from it.
        sources: count → where it is from.
        missing: count → why it can't be had.
    """

    file: Path | None = None
    kind: str = ""
    swaps: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def counts(self, events: Iterable[Mapping[str, Any]]) -> list[RoundCounts]:
        """Return each finished round's counts, from the worker's events."""
        counts = []
        for event in events:
            if event.get("event") != "counts" or (number := _count(event, "round")) is None:
                continue
            read, out = _count(event, "in_bytes"), _count(event, "out_bytes")
            swap = _count(event, "swap_in_bytes")
            if not self.swaps:
                swap, out = 0, 0
            if read is not None and swap is not None and swap > read:
                # Others swapped in as well.
                swap = None
            files = None if read is None or swap is None else read - swap
            faults = _count(event, "major_faults")
            counts.append(RoundCounts(number, read, swap, files, out, faults))
        return counts

    def recorded(
        self, counts: Sequence[RoundCounts], other_swap_bytes: int | None
    ) -> RecordedRounds:
        """Return what a record has of these rounds; nothing where there are none.

        ``other_swap_bytes``: by how much other swap areas grew while the trial ran.
        """
        if not counts:
            return RecordedRounds()
        sources, missing = dict(self.sources), dict(self.missing)
        if all(count.in_bytes is None for count in counts):
            missing |= {"in_bytes": _NO_OWN, "file_in_bytes": _NO_OWN}
        if any(count.in_bytes is not None and count.swap_in_bytes is None for count in counts):
            missing = dict.fromkeys(("swap_in_bytes", "file_in_bytes"), _MORE) | missing
        others = bool(other_swap_bytes) and _MACHINE in sources.get("swap_in_bytes", "")
        if others:
            sources = {name: where for name, where in sources.items() if name not in _SWAPPED}
            missing |= dict.fromkeys(_SWAPPED, _OTHER_AREAS)
        reasons = {f"round_{name}": why for name, why in missing.items()}
        return RecordedRounds(sources, reasons, others)


@dataclass(frozen=True)
class RecordedRounds:
    """Where a record's counts come from, and why some are missing.

    ``others``: other programs swapped as well, so counts of swap are left out.
    """

    sources: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    others: bool = False

    def known(self, counts: Iterable[RoundCounts]) -> list[RoundCounts]:
        """Return the counts that are the trial's."""
        if not self.others:
            return list(counts)
        return [
            RoundCounts(count.round, in_bytes=count.in_bytes, major_faults=count.major_faults)
            for count in counts
        ]


def _count(event: Mapping[str, Any], key: str) -> int | None:
    value: Any = event.get(key)
    return value if is_count(value) and value >= 0 else None


def round_sources(machine: SystemFiles, swap: SwapState, kind: str) -> RoundSources:
    """Return where a trial's counts come from.

    Args:
        machine: its files.
        swap: what is on at the moment.
        kind: the trial's kind of swap.
    """
    sources = {"in_bytes": _OWN, "major_faults": "getrusage"}
    if kind == "none":
        return RoundSources(swaps=False, sources={**sources, "file_in_bytes": _OWN})
    if swap.kind == "zram" and swap.device:
        file, reading = machine.root / f"sys/block/{swap.device.name}/stat", ONLY_SWAP
        name = str(file)
    else:
        area = swap.device if swap.kind == "file" else None
        areas = None
        with suppress(UnreadableError, ValueError):
            areas = set(parse_swap_areas(machine.text("proc/swaps")))
        # Of the machine's own areas all are the trial's.
        if areas is None or (area is not None and areas != {area}):
            return RoundSources(sources=sources, missing=dict.fromkeys(_SWAPPED, _OTHER_AREAS))
        file, reading = machine.root / "proc/vmstat", VMSTAT
        name = f"{file}, {_MACHINE}"
    sources |= {"swap_in_bytes": name, "file_in_bytes": f"{_OWN} - {name}", "out_bytes": name}
    return RoundSources(file, reading, True, sources)


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
    dump_every_bytes: int | None = None
    walk: WalkedLimits | None = None


@dataclass(frozen=True)
class Measured:
    """All that was measured of one trial, before it becomes a record.

    Args:
        watched: how the sampler watched.
        missing: key of the record → why it is missing.
        doubts: what readers and controllers found doubtful.
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


def trial_throughput(
    settings: Mapping[str, Any], from_output: float | None, phases: Sequence[PhaseSum]
) -> float | None:
    """Return what a program's output says; of text generation, tokens a second while decoding."""
    if reads_throughput(settings):
        return from_output
    rates = [
        settings["batch"] * phase.passes / phase.wall_s
        for phase in phases
        if phase.phase == "decode" and phase.wall_s > 0 and generates_text(settings)
    ]
    return statistics.median(rates) if rates else None


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
