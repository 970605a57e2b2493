"""Move the limit of a living trial between its rounds, and make a record of each limit."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.cgroups.interface import Cgroup, parse_counters
from edgebench.cgroups.process_files import TouchedPages, forget_touched, touched_pages
from edgebench.errors import CgroupError
from edgebench.need import EQUAL_SHARE, KneeBracket, settled
from edgebench.records import (
    DEMAND,
    NOT_REACHED,
    Doubt,
    PhaseSum,
    RoundCounts,
    TrialRecord,
    WalkReport,
    WorkingSet,
    is_count,
)
from edgebench.results.times import LEAST, steadiness
from edgebench.run.trial.controllers import LimitControl, group_swap
from edgebench.run.trial.process import WorkloadProcess, events_of
from edgebench.run.trial.record import RecordedRounds, RoundSources, utc_now
from edgebench.run.walk.walk import CHARGED_BYTES, Visit, WalkedLimits, visited, walk
from edgebench.safe_files import write
from edgebench.spans import NO_ROUND, collections_s, events_to_phases, finished_spans
from edgebench.workloads.events import GO, STOP

#: Pages of files that the cgroup is charged for; swapped pages that are kept are not among them.
_FILE_LISTS = ("active_file", "inactive_file")
NOT_MARKED = "this kernel does not let us see which pages are touched (clear_refs, smaps)"


class WorkingSetRound:
    """The round that shows the working set.

    Run last and untimed: clearing the accessed bits makes the kernel evict idle pages sooner. The
    workload waits while :meth:`begin` clears them and :meth:`read` counts them.

    Args:
        cgroup: the trial's.
        maps_weights: whether rounds use their weights' files in place, and don't copy them.
    """

    def __init__(self, cgroup: Cgroup, maps_weights: bool) -> None:
        self._cgroup, self._maps_weights = cgroup, maps_weights
        self.begun = False
        self.found: WorkingSet | None = None
        self.missing: str | None = NOT_REACHED
        #: Of what was found, bytes in huge pages, which may have been touched in part.
        self.huge_bytes = 0

    def begin(self) -> bool:
        """Clear the bits; return whether there is a round to make."""
        self.begun = forget_touched(self._cgroup.pids())
        self.missing = NOT_REACHED if self.begun else NOT_MARKED
        return self.begun

    def read(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Count the pages that the round touched; ``events`` are the round's."""
        touched = touched_pages(self._cgroup.pids())
        stat, counters = self._cgroup.file("memory", "memory.stat"), self._cgroup.read()
        if touched is None or stat is None or counters.mapped_file_bytes is None:
            self.missing = NOT_MARKED
            return
        lists = parse_counters(stat.read_text(errors="replace"))
        charged = {
            "file": sum(lists.get(name, 0) for name in _FILE_LISTS),
            "mapped": counters.mapped_file_bytes,
            "kernel": counters.kernel_bytes or 0,
        }
        self.huge_bytes = touched.huge_bytes
        self.found = working_set(touched, charged, events, self._maps_weights)
        self.missing = None if self.found else "the round that was watched left no spans"


def working_set(
    touched: TouchedPages,
    charged: Mapping[str, int],
    events: Iterable[Mapping[str, Any]],
    maps_weights: bool,
) -> WorkingSet | None:
    """Compute the working set from touched pages, charged bytes and spans; None without spans."""
    spans = finished_spans([dict(event) for event in events])
    peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
    after = [span.usage_after_bytes for span in spans if span.usage_after_bytes is not None]
    if not peaks or not after:
        return None
    # Files of libraries may be charged to whoever read them first.
    mapped, cached = min(touched.file_bytes, charged["mapped"]), charged["file"] - charged["mapped"]
    # Mapped weights are unmapped when the round ends, and stay in the page cache.
    weights = max(0, cached) if maps_weights else 0
    return WorkingSet(
        anonymous_bytes=touched.anonymous_bytes,
        file_bytes=mapped + weights,
        kernel_bytes=charged["kernel"],
        passing_bytes=max(0, max(peaks) - after[-1]),
        cached_bytes=max(0, cached) - weights,
    )


#: How events begin that tell of a trial as a whole, in any of its rounds.
_OF_THE_TRIAL = b'{"event": "accelerator"'
#: The most kept of packed events, whatever a worker sends; then no more room is made.
_MOST_PACKED_BYTES = 64 << 20
#: At one limit at most: rounds that don't repeat by then are kept as they are.
MOST_ROUNDS = 12


@dataclass
class WalkStep:
    """One limit of a walk under way.

    ``applied_bytes`` is as the kernel rounded the limit. ``swapped`` is what lay in swap at the end
    of each round; None: not known.
    """

    visit: Visit
    applied_bytes: int | None
    start_ns: int = field(default_factory=time.monotonic_ns)
    started_utc: str = field(default_factory=utc_now)
    end_ns: int = 0
    #: Of its rounds; of one that the walk has left they are ``packed``.
    events: list[dict[str, Any]] = field(default_factory=list)
    packed: bytes = b""
    phases: list[PhaseSum] = field(default_factory=list)
    counts: list[RoundCounts] = field(default_factory=list)
    swapped: list[int | None] = field(default_factory=list)

    @property
    def round_s(self) -> list[float]:
        """Each round's seconds on the clock, in order."""
        return [phase.wall_s for phase in self.phases if phase.phase == "round"]

    def pack(self, lines: bytes) -> None:
        """Keep its events as the lines that they came in: parsed, a walk's take a gigabyte."""
        self.packed, self.events = gzip.compress(lines, compresslevel=1), []

    def every_event(self) -> list[dict[str, Any]]:
        """All events of its rounds, in order."""
        packed = events_of(gzip.decompress(self.packed))[0] if self.packed else []
        return [*packed, *self.events]

    @property
    def enough(self) -> bool:
        """Whether its rounds repeat, or have had their chances.

        At a limit two that read the same say what rounds cost there. Those without one are what
        others are compared with: their seconds must repeat. While the kernel still swaps out what
        rounds don't use, neither says what they will cost.
        """
        times, limit = self.round_s, self.visit.memory_bytes
        if len(times) >= MOST_ROUNDS:
            return True
        before, now = self.swapped[-2:] if len(self.swapped) > 1 else (None, None)
        if limit is not None and before is not None and now is not None:
            # As much as shifts the knee.
            least = max(CHARGED_BYTES, EQUAL_SHARE * limit)
            if abs(now - before) > least:
                return False
        if limit is not None and settled([count.in_bytes for count in self.counts]):
            return True
        return len(times) > LEAST and steadiness(times).repeats


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


class WalkControl(LimitControl):
    """Answers the worker before each round whether there is one more, at which limit.

    Args:
        cgroup: the trial's; its limit is moved.
        limits: through which it goes.
        swap_bytes: the trial's limit of swap, which stays.
        process: the workload's; its events say how long rounds took.
        rounds: where its rounds' counts come from.
        maps_weights: whether its rounds use weights' files in place.
    """

    def __init__(
        self,
        cgroup: Cgroup,
        limits: WalkedLimits,
        swap_bytes: int | None,
        process: WorkloadProcess,
        rounds: RoundSources,
        *,
        maps_weights: bool = False,
    ) -> None:
        super().__init__()
        self.steps: list[WalkStep] = []
        #: Between which limits the knee is, once the walk has come to its end.
        self.knee: KneeBracket | None = None
        #: Why the walk ended before that: the kernel refused a limit, or events were dropped.
        self.refused: Doubt | None = None
        self.working_set = WorkingSetRound(cgroup, maps_weights)
        self._cgroup, self._swap_bytes, self._process = cgroup, swap_bytes, process
        self._limits, self._rounds = limits, rounds
        self._read_swapped = group_swap(cgroup.hot_files())
        self._walk = walk(limits.scenario_bytes, limits.target, limits.step_bytes, limits.killed)
        #: Of the pipe's data: what was read, and where the events of the last step begin.
        self._read_bytes = self._step_bytes = 0
        next(self._walk)
        self.steps.append(WalkStep(Visit(None), None))

    def read_events(self) -> list[dict[str, Any]]:
        """Return the worker's events since the last call."""
        data = self._process.events.data
        fresh = self._process.event_list(self._read_bytes)[0]
        self._read_bytes = len(data)
        return fresh

    def _answer(self) -> bool:
        """Answer a worker that is ready for a round.

        Let it go on, at another limit if this one is known.
        """
        self._ours.recv(1)
        step, fresh = self.steps[-1], self.read_events()
        if self._process.events.dropped_bytes:
            # Its rounds can't be told any more.
            self.refused, goes_on = Doubt("walk_events"), False
        elif self.working_set.begun:
            # No round of a limit: its events are not kept.
            self.working_set.read(fresh)
            goes_on = False
        else:
            step.events += fresh
            step.phases += [p for p in events_to_phases(fresh) if p.round != NO_ROUND]
            step.counts += self._rounds.counts(fresh)
            step.swapped.append(self._read_swapped())
            goes_on = not step.enough or self._go_on(step)
            if not goes_on and step.visit.memory_bytes is None and self.refused is None:
                # The walk ended without a limit: one more round shows the working set.
                goes_on = self.working_set.begin()
        self._reply(GO if goes_on else STOP)
        return goes_on

    def _go_on(self, step: WalkStep) -> bool:
        """Move to the next limit; False at the walk's end."""
        step.end_ns = time.monotonic_ns()
        self._put_away(step)
        try:
            visit = self._walk.send(visited(step.phases, step.counts))
        except StopIteration as end:
            self.knee = end.value
            return False
        try:
            applied = self._cgroup.move_memory_limit(visit.memory_bytes, self._swap_bytes)
        except CgroupError as error:
            at = {"limit_bytes": float(visit.memory_bytes or 0)}
            self.refused = Doubt("walk_refused", at, [error.what])
            return False
        self.steps.append(WalkStep(visit, applied))
        if self._limits.moved:
            self._limits.moved(self._limits.setting(visit.memory_bytes))
        return True

    def _put_away(self, step: WalkStep) -> None:
        """Pack the events of a step that is left; the first one's tell of the whole trial too."""
        packed = sum(len(step.packed) for step in self.steps)
        if len(self.steps) > 1 and packed < _MOST_PACKED_BYTES:
            pipe = self._process.events
            before = len(pipe.data)
            step.pack(pipe.forget(self._step_bytes, self._read_bytes, _OF_THE_TRIAL))
            self._read_bytes -= before - len(pipe.data)
        self._step_bytes = self._read_bytes

    def records(
        self, record: TrialRecord, events: Path, rounds: RecordedRounds
    ) -> list[TrialRecord]:
        """Return each limit's record, its events written; the first is the trial's, of its start.

        Events of further limits get files beside the trial's own.
        """
        left = self.read_events()
        # What an unfinished round left belongs to its limit, the last words to the trial.
        self.steps[0 if record.outcome == "ok" else -1].events += left
        references = _references(self.steps)
        records = []
        for number, step in enumerate(self.steps):
            own_events = step.every_event()
            reference_s = references.get(number)
            at_limit = self._record_at(record, number, own_events, rounds, reference_s)
            records.append(at_limit)
            file = (
                events.with_name(f"{at_limit.trial}{''.join(events.suffixes)}")
                if number
                else events
            )
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
        self,
        whole: TrialRecord,
        number: int,
        events: Sequence[dict[str, Any]],
        rounds: RecordedRounds,
        reference_s: float | None,
    ) -> TrialRecord:
        """Build the record of one limit.

        The first has what is of the whole process, the last one how that ended.
        """
        step, is_last = self.steps[number], number == len(self.steps) - 1
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
            point=self._limits.point(memory_bytes, step.visit.direction),
            limits=self._limits.setting(memory_bytes),
            direction=step.visit.direction,
            limit_bytes=limit,
            peak_bytes=peak,
            saturated=None if peak is None else limit is not None and peak >= limit,
            collections_s=collections_s(events),
            walk=WalkReport(whole.trial, number, step.round_s, reference_s),
            # The first and the last have more: what came before rounds, what is left of one.
            phases=step.phases if number and not is_last else events_to_phases(events),
            round_counts=rounds.known(step.counts),
            round_sources=rounds.sources,
            missing=missing,
        )
        if whole.outcome != "ok" and not is_last:
            record = structs.replace(record, outcome="ok", **dict.fromkeys(_END))
        if number:
            missing.pop("other_swap_bytes", None)
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
        if self.working_set.missing:
            missing["working_set"] = self.working_set.missing
        doubts = [*whole.doubts, *self._doubts()]
        return structs.replace(record, working_set=self.working_set.found, doubts=doubts)

    def _doubts(self) -> list[Doubt]:
        """Return what the user should know of the walk as a whole."""
        doubts = [self.refused] if self.refused else []
        knee = self.knee
        if knee and knee.known_to > self._limits.target:
            is_wide = knee.high_bytes - knee.low_bytes >= 2 * self._limits.step_bytes
            apart = "knee_left" if is_wide else "knee_close"
            kind = "knee_disagree" if knee.disagree else apart
            sizes = {"low_bytes": knee.low_bytes, "high_bytes": knee.high_bytes}
            shares = {"known_share": knee.known_to, "wanted_share": self._limits.target}
            doubts.append(Doubt(kind, {**sizes, **shares}))
        watched = self.working_set
        if watched.found and watched.huge_bytes > _HUGE_PART * watched.found.total_bytes:
            doubts.append(Doubt("huge_pages", {"huge_bytes": watched.huge_bytes}))
        free = [s for s in self.steps if s.visit.memory_bytes is None and s.end_ns]
        if len(free) > 1 and abs(drift := _steady_s(free[-1]) / _steady_s(free[0]) - 1) > _DRIFT:
            doubts.append(Doubt("drift", {"drift_share": drift}))
        return doubts


def _references(steps: Sequence[WalkStep]) -> dict[int, float]:
    """For each finished step the unlimited round as it was then, seconds."""
    known = {
        number: _steady_s(step)
        for number, step in enumerate(steps)
        if step.visit.memory_bytes is None and step.end_ns
    }
    references = dict(known)
    for number, step in enumerate(steps):
        before = max((n for n in known if n < number), default=None)
        after = min((n for n in known if n > number), default=None)
        if number in known or before is None or after is None:
            continue
        start, end = steps[before].end_ns, steps[after].start_ns
        share = ((step.start_ns + step.end_ns) / 2 - start) / max(1, end - start)
        references[number] = known[before] + share * (known[after] - known[before])
    return references


def _steady_s(step: WalkStep) -> float:
    return visited(step.phases, step.counts).seconds or 0.0
