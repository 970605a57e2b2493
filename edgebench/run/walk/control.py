"""Moves the limit of a living trial between its rounds, and keeps what each limit came to."""

from __future__ import annotations

import gzip
import mmap
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from edgebench.cgroups.interface import Cgroup, parse_counters
from edgebench.cgroups.process_files import TouchedPages, forget_touched, touched_pages
from edgebench.errors import CgroupError
from edgebench.knee import EQUAL_SHARE, KneeBracket, settled
from edgebench.records import (
    NOT_REACHED,
    UP,
    Direction,
    Doubt,
    LimitSetting,
    PhaseSum,
    RoundCounts,
    TrialRecord,
    WorkingSet,
)
from edgebench.results.times import LEAST, reads_of, steadiness
from edgebench.run.trial.controllers import LimitControl
from edgebench.run.trial.process import WorkloadProcess, events_of
from edgebench.run.trial.record import utc_now
from edgebench.run.trial.round_sources import RoundSources
from edgebench.run.trial.trial_readers import group_swap
from edgebench.run.walk.walk import Visit, Visited, walk
from edgebench.scenario.points import Point, limits_of, series_of
from edgebench.spans import NO_ROUND, events_to_phases, finished_spans
from edgebench.text import MIB
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


def visited(phases: Sequence[PhaseSum], counts: Sequence[RoundCounts]) -> Visited:
    """Medians of the steady rounds: seconds, and bytes read; these of the last that read alike.

    Of a single round, which a kill may leave, they are its own; nothing where there is none.
    """
    rounds = [phase for phase in phases if phase.phase == "round"]
    if not rounds:
        return Visited()
    places = steadiness([phase.wall_s for phase in rounds]).rounds or (0,)
    reads = reads_of((one.round for one in rounds), counts)
    known = [read for place in settled(reads) or places if (read := reads[place]) is not None]
    return Visited(
        statistics.median(rounds[place].wall_s for place in places),
        round(statistics.median(known)) if known else None,
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
            least = max(_CHARGED_PAGES * mmap.PAGESIZE, EQUAL_SHARE * limit)
            if abs(now - before) > least:
                return False
        if limit is not None and settled([one.in_bytes for one in self.counts]):
            return True
        return len(times) > LEAST and steadiness(times).repeats


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
        packed = sum(len(one.packed) for one in self.steps)
        if len(self.steps) > 1 and packed < _MOST_PACKED_BYTES:
            pipe = self._process.events
            before = len(pipe.data)
            step.pack(pipe.forget(self._step_bytes, self._read_bytes, _OF_THE_TRIAL))
            self._read_bytes -= before - len(pipe.data)
        self._step_bytes = self._read_bytes


#: So many pages the kernel charges at once, for each CPU: limits closer together are the same.
_CHARGED_PAGES = 64
#: Labels of shares are written to this part of the demand.
_LABEL_PART = 0.001


@dataclass(frozen=True)
class WalkedLimits:
    """The limits of one workload.

    Args:
        points: the scenario's points of the workload, the unlimited one first.
        demand_bytes: what shares are of; 0 where there are none.
        target: how well the knee is to be known, as a share of the limit.
        killed: the largest limit at which a walk of the workload was killed before, with what its
            rounds had come to; empty: at none. A walk doesn't go there again.
        moved: told each limit that a walk comes to; None: nobody is.
    """

    points: tuple[Point, ...]
    demand_bytes: int
    target: float
    killed: Mapping[int, Visited] = field(default_factory=dict)
    moved: Callable[[LimitSetting], None] | None = None

    @property
    def scenario_bytes(self) -> tuple[int, ...]:
        """The scenario's limits, but for those at which it was killed."""
        return tuple(size for size in self._settings if size > max(self.killed, default=0))

    @property
    def step_bytes(self) -> int:
        """Limits closer together than this are the same."""
        charged = _CHARGED_PAGES * mmap.PAGESIZE * (os.cpu_count() or 1)
        shown = int(self.demand_bytes * _LABEL_PART) if self._shares else MIB // 10
        return max(charged, -(-shown // mmap.PAGESIZE) * mmap.PAGESIZE)

    def after(self, records: Sequence[TrialRecord], again: bool) -> WalkedLimits:
        """Return the same, by what the sweep's trials came to.

        Args:
            records: of the sweep so far.
            again: whether the walk goes on where one before was killed.
        """
        left = points_after_kill(self.points, records) if again else self.points
        return replace(self, points=left, killed=killed_limit(self.points, records))

    def setting(self, memory_bytes: int | None) -> LimitSetting:
        """Return the limits of a trial at that limit of memory, with its label."""
        if memory_bytes is None:
            return self.points[0].limits
        known = self._settings.get(memory_bytes)
        if known is not None:
            return known[1]
        share = 100 * memory_bytes / self.demand_bytes if self._shares else 0.0
        label = f"{share:.1f}%" if self._shares else f"{memory_bytes / MIB:.1f}M"
        return structs.replace(self.points[0].limits, label=label, memory_bytes=memory_bytes)

    def point(self, memory_bytes: int | None, direction: Direction | None) -> str:
        """Return the point that it is of; the way up has points of its own."""
        if memory_bytes is None:
            return self.points[0].id
        known = self._settings.get(memory_bytes)
        name = known[0] if known else f"{self.points[0].id}-{memory_bytes}"
        return f"{name}-{UP}" if direction == UP else name

    @property
    def _settings(self) -> dict[int, tuple[str, LimitSetting]]:
        """Bytes → point and limits, of the scenario's limits."""
        resolved = ((point.id, limits_of(point, self.demand_bytes)) for point in self.points)
        return {at.memory_bytes: (name, at) for name, at in resolved if at.memory_bytes is not None}

    @property
    def _shares(self) -> bool:
        return any(point.share is not None for point in self.points)


def workload_points(unlimited: Point, points: Sequence[Point]) -> tuple[Point, ...]:
    """Return a workload's points: without a limit first, then at all of its limits."""
    found = next(own for own in series_of(points) if unlimited in own)
    return unlimited, *(point for point in found if point != unlimited)


def points_after_kill(points: Sequence[Point], records: Sequence[TrialRecord]) -> tuple[Point, ...]:
    """Return the points that a walk after a killed one visits.

    The unlimited one and the lowest that finished; where a closer look was killed between limits
    that finished, the lowest above it.

    Args:
        points: the scenario's of the workload, the unlimited one first.
        records: of the sweep so far.
    """
    sizes = {
        record.point: record.limit_bytes
        for record in records
        if record.walk and record.direction == "down" and record.outcome == "ok"
    }
    finished = [point for point in points[1:] if sizes.get(point.id)]
    killed = max(killed_limit(points, records), default=0)
    above = [point for point in finished if (sizes[point.id] or 0) > killed]
    lowest = min(above, key=lambda point: sizes[point.id] or 0, default=None)
    left = [point for point in points[1:] if point not in finished or point is lowest]
    return points[0], *left


def killed_limit(points: Sequence[Point], records: Iterable[TrialRecord]) -> dict[int, Visited]:
    """Return the largest limit at which a walk of these points was killed; empty: none was.

    A fresh process may be killed by its start, where one that has started lives.
    """
    names = {point.id for point in points}
    ended = (one for one in records if one.walk and one.outcome == "oom-killed")
    killed = [one for one in ended if one.limit_bytes and walked_point(one) in names]
    if not killed:
        return {}
    largest = max(killed, key=lambda one: one.limit_bytes or 0)
    return {largest.limit_bytes or 0: visited(largest.phases, largest.round_counts)}


def walked_point(record: TrialRecord) -> str:
    """Return the scenario's point that the record is of, or beside which a walk looked closer."""
    return record.point.partition("-")[0]
