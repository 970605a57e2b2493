"""What is known of a sweep: of each point, and of each workload; typed values without prose.

Every verb, figure and page takes its answers from here, and :mod:`edgebench.answers` its rows.
Made from records alone, without pandas, also of a sweep that is still running.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
from msgspec import structs

from edgebench.measures.machine.noise import spread_doubts
from edgebench.need import TOO_TIGHT, least_to_give, need_of
from edgebench.records import DEMAND, Doubt, EndedIn, LimitSetting, TrialRecord
from edgebench.results.columns import ColumnTable, working_sets
from edgebench.results.limit_to_give import (
    NOT_MET,
    AskedPace,
    LimitBracket,
    TriedLimit,
    Unmeasured,
    adapts,
    given_bracket,
    is_limit_met,
    unmeasured,
)
from edgebench.results.miss_curve import MissCurve, curve_workload, record_curves
from edgebench.results.sweep_reader import Sweep, timed_in
from edgebench.results.times import (
    SLIGHT,
    START,
    STEADY,
    TRIAL_TIMES,
    Ratio,
    Spread,
    ratio_of,
    round_stages,
    spread_of,
)
from edgebench.results.workload_key import WorkloadKey, workload_label, workload_names
from edgebench.text import THROUGHPUT, throughput_unit

#: The number of what is of no walk.
NO_WALK = -1


def walk_numbers(steps: Iterable[float]) -> list[int]:
    """Return each trial's walk, numbered from 0; :data:`NO_WALK` of a fresh one.

    Args:
        steps: of each trial in the order of their records, which of its walk's visits it is; NaN
            of a fresh one.
    """
    numbers, number = [], NO_WALK
    for step in steps:
        number += step == 0
        numbers.append(number if step >= 0 else NO_WALK)
    return numbers


def is_one_walk(walks: Iterable[int]) -> bool:
    """Whether trials of these walks are visits of a single one: then its rounds are the repeats."""
    different = set(walks)
    return len(different) == 1 and NO_WALK not in different


class WalkedRows:
    """The rows of a sweep's columns that are visits of walks.

    ``unlimited_s``: row → seconds of a steady round without a limit at that time; where the walk
    had none afterwards, for it was killed, of the one before.
    """

    def __init__(self, columns: ColumnTable) -> None:
        self._walks = walk_numbers(columns.numbers.get("walk_step", ()))
        self.unlimited_s: dict[int, float] = {}
        last_s: dict[int, float] = {}
        around_s = columns.numbers.get("walk_reference_s", ())
        for row, (walk, round_s) in enumerate(zip(self._walks, around_s, strict=False)):
            if not math.isnan(round_s):
                last_s[walk] = round_s
            if walk != NO_WALK and last_s.get(walk, 0.0) > 0:
                self.unlimited_s[row] = last_s[walk]

    def of(self, rows: Iterable[int]) -> list[int]:
        """Return the numbers of the rows' walks."""
        return [self._walks[row] for row in rows] if self._walks else []


def point_times(sweep: Sweep, rows: Sequence[int], walked: WalkedRows) -> dict[str, Spread]:
    """Return each time of these trials that is known, in seconds.

    A walk's rounds at a limit are compared with rounds without one in the same process, so they are
    the repeats where that walk is all there is: docs/decisions.md.
    """
    columns = sweep.columns
    spreads = {name: spread_of(columns.values(f"times_{name}", rows)) for name in TRIAL_TIMES}
    ends = zip(rows, columns.words("outcome", rows), strict=True)
    done = [row for row, outcome in ends if outcome == "ok"]
    if spreads.get(STEADY) and is_one_walk(walked.of(done)):
        rounds = spread_of(s for row in done for s in _steady_rounds(sweep.records[row]))
        spreads |= dict.fromkeys((STEADY, "total"), rounds) if rounds else {}
    return {name: spread for name, spread in spreads.items() if spread}


def steady_relative(sweep: Sweep, rows: Sequence[int], walked: WalkedRows) -> Spread | None:
    """Return walks' steady rounds over those without a limit around them in the same process.

    What the machine or a process does slower for a while cancels out. The repeats are visits; of
    one walk and without a limit, rounds. None: no visit finished.
    """
    visits: dict[int, list[float]] = {}
    for row in rows:
        unlimited_s = walked.unlimited_s.get(row)
        if unlimited_s and (record := sweep.records[row]).outcome == "ok" and record.walk:
            steady = [round_s / unlimited_s for round_s in _steady_rounds(record)]
            visits |= {row: steady} if steady else {}
    limited = bool(visits) and sweep.records[rows[0]].limits.memory_bytes is not None
    if limited and not is_one_walk(walked.of(visits)):
        return spread_of(map(statistics.median, visits.values()))
    return spread_of(ratio for rounds in visits.values() for ratio in rounds)


def _steady_rounds(record: TrialRecord) -> list[float]:
    stages = round_stages(record)
    rounds = (phase for phase in record.phases if phase.phase == "round")
    return [phase.wall_s for phase in rounds if stages[phase.round] == STEADY]


@dataclass(frozen=True)
class PointFacts:
    """What is known of one point so far.

    ``times_s`` and ``slowdowns`` have those of :data:`~edgebench.results.times.TRIAL_TIMES`
    that the point has; only trials that ended ``ok`` count in them. ``limit_bytes`` is as the
    kernel rounded it. ``ratios`` are the same as ``slowdowns`` with the intervals that repeats give
    them. A point with a ``throughput_per_s`` also has ``slowdowns["throughput"]``, unlimited
    rate ÷ rate; ``unit`` is what is counted. ``collections_s`` is what garbage collections took of
    each trial's rounds, where any did. ``doubts`` are of the point's numbers.
    ``swap_free_bytes`` is the swap that was free at kills which a lack of it can't explain; None:
    there were none.
    ``ended_in``: what all trials that did not finish were doing; None where they differ.
    ``base_bytes`` is the runtime's footprint. ``need_bytes`` is what each trial without a limit
    needed; ``least_to_give_bytes`` is the most of it where limits are kinder (else None).
    ``undroppable_bytes`` is the part of the demand that only swap can hold; the rest are files that
    are read again when dropped. ``library_bytes`` is beside it.
    ``stopped_s``: when a trial was stopped that ran past its time limit.
    ``working_set_bytes`` is what its steady rounds need, where that was watched.
    ``read_again_bytes`` is what each of them reads again, where that was counted.
    ``steady_relative``: a walk's steady
    rounds over those without a limit around them. ``unmeasured``: what the trials of a program
    leave open; None of others. ``meets_limit``: whether one of them reached its limit, as far as
    that is known; else its slowdowns are 1, and a doubt has what the clock said.
    """

    point: str
    workload: str
    settings: dict[str, Any]
    limits: LimitSetting
    planned: int | None
    outcomes: dict[str, int]
    times_s: dict[str, Spread] = field(default_factory=dict)
    slowdowns: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    limit_bytes: int | None = None
    peak_bytes: Spread | None = None
    saturated: bool | None = None
    swap_peak_bytes: Spread | None = None
    swap_free_bytes: Spread | None = None
    stopped_s: float | None = None
    ended_in: EndedIn | None = None
    base_bytes: float | None = None
    demand_bytes: float | None = None
    need_bytes: Spread | None = None
    least_to_give_bytes: float | None = None
    undroppable_bytes: float | None = None
    library_bytes: float | None = None
    working_set_bytes: Spread | None = None
    read_again_bytes: int | None = None
    reasons: list[str] = field(default_factory=list)
    collections_s: list[float] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    throughput_per_s: Spread | None = None
    unit: str = ""
    steady_relative: Spread | None = None
    unmeasured: Unmeasured | None = None
    meets_limit: bool = True

    @cached_property
    def key(self) -> WorkloadKey:
        """What it runs; points with the same differ in their memory limit alone."""
        return WorkloadKey.of(self.settings, self.limits)

    @property
    def ratio(self) -> Ratio | None:
        """The slowdown that counts: in throughput where it is known, else of the whole."""
        return self.ratios.get(THROUGHPUT) or self.ratios.get("total")

    @property
    def slowdown(self) -> float | None:
        """Its median."""
        return self.ratio.median if self.ratio else None

    @property
    def is_unlimited(self) -> bool:
        """Whether it asks for no limit of memory."""
        return self.limits.label == "max"

    @property
    def made(self) -> int:
        """How many trials have ended."""
        return sum(self.outcomes.values())

    @property
    def finished(self) -> bool:
        """Whether all trials did, and there is one."""
        return set(self.outcomes) == {"ok"}

    @property
    def is_slower(self) -> bool:
        """Whether it is slower than unlimited: proved by the repeats, where there are any."""
        return self.ratio is not None and self.ratio.is_surely_more


def point_facts(sweep: Sweep) -> list[PointFacts]:
    """Every point of a sweep in the plan's order, also those with no trial yet.

    Each is compared with the same workload without a limit; with the same swap, if there is one.
    """
    trials: dict[str, list[int]] = {}
    ids = sweep.columns.words("point", range(len(sweep.records)))
    for row, point_id in enumerate(map(str, ids)):
        trials.setdefault(point_id, []).append(row)
    planned = Counter(str(trial.get("point_id")) for trial in timed_in(sweep.resolved.get("plan")))
    declared: dict[str, tuple[dict[str, Any], LimitSetting]] = {}
    listed = sweep.resolved.get("points")
    for point in listed if isinstance(listed, list) else []:
        if isinstance(point, dict) and "id" in point:
            settings, limits = point.get("settings"), LimitSetting()
            with suppress(msgspec.ValidationError):
                limits = msgspec.convert(point.get("limits", {}), LimitSetting)
            declared[str(point["id"])] = settings if isinstance(settings, dict) else {}, limits
    walked = WalkedRows(sweep.columns)
    points = [
        _point(name, sweep, trials.get(name, []), declared.get(name), planned.get(name), walked)
        for name in dict.fromkeys((*declared, *trials))
    ]
    unlimited: dict[WorkloadKey, list[PointFacts]] = {}
    for point in points:
        if point.is_unlimited and point.times_s:
            unlimited.setdefault(point.key.any_swap, []).append(point)
    for place, point in enumerate(points):
        if twins := unlimited.get(point.key.any_swap):
            twin = next((twin for twin in twins if twin.key == point.key), twins[0])
            points[place] = _compared(point, twin)
    return points


def _compared(point: PointFacts, twin: PointFacts) -> PointFacts:
    """Return the point with what it is compared with its twin without a limit."""
    ratios = {
        name: ratio_of(spread, twin.times_s[name])
        for name, spread in point.times_s.items()
        if name in twin.times_s and twin.times_s[name].median > 0
    }
    if point.steady_relative and twin.steady_relative:
        walked = ratio_of(point.steady_relative, twin.steady_relative)
        ratios |= {name: walked for name in (STEADY, "total") if name in ratios}
    if point.throughput_per_s and twin.throughput_per_s and point.throughput_per_s.low > 0:
        ratios[THROUGHPUT] = ratio_of(twin.throughput_per_s, point.throughput_per_s)
    doubts = point.doubts
    limited, free = point.peak_bytes, twin.peak_bytes
    is_adapted = adapts(limited.high if limited else None, free.low if free else None)
    if not (point.meets_limit or point.is_unlimited or is_adapted):
        shown = (ratios.get(THROUGHPUT) or ratios.get("total") or NOT_MET).median
        if not 1 / SLIGHT <= shown <= SLIGHT:
            doubts = [*doubts, Doubt("limit_not_met", {"factor": shown})]
        ratios = dict.fromkeys(ratios, NOT_MET)
    slowdowns = {name: ratio.median for name, ratio in ratios.items()}
    compared = replace(point, slowdowns=slowdowns, ratios=ratios, doubts=doubts)
    if point.demand_bytes is not None:
        return compared
    return replace(compared, **{name: getattr(twin, name) for name in DEMAND})


def _point(
    point: str,
    sweep: Sweep,
    rows: Sequence[int],
    declared: tuple[dict[str, Any], LimitSetting] | None,
    planned: int | None,
    walked: WalkedRows,
) -> PointFacts:
    """One point, of these rows of the sweep's columns."""
    columns = sweep.columns
    last = sweep.records[rows[-1]] if rows else None
    settings, limits = (last.settings, last.limits) if last else declared or ({}, LimitSetting())
    measured = last.limit_bytes if last else None
    ends = list(zip(rows, columns.words("outcome", rows), strict=True))
    stopped = [row for row, end in ends if end == "timeout"]
    marks = columns.numbers.get("killed_with_swap_free")
    killed = [row for row in rows if marks is not None and marks[row] == 1]
    places = zip(columns.words("ended_in", rows), ends, strict=True)
    ended_in = {place for place, (_, end) in places if end != "ok"}
    free = rows if limits.label == "max" else ()
    needs = [need for row in free if (need := need_of(sweep.records[row]))]
    # Only trials of programs have such a column: no others are read.
    beside = columns.values("outside_processes", rows)
    return PointFacts(
        point=point,
        workload=workload_label(settings),
        settings=settings,
        limits=limits,
        planned=planned,
        outcomes=dict(Counter(str(end) for _, end in ends)),
        times_s=point_times(sweep, rows, walked),
        limit_bytes=limits.memory_bytes if measured is None else measured,
        peak_bytes=spread_of(columns.values("peak_bytes", rows)),
        saturated=any(columns.values("saturated", rows)) if rows else None,
        swap_peak_bytes=spread_of(columns.values("swap_peak_bytes", rows)),
        swap_free_bytes=spread_of(columns.values("kill_swap_free_bytes", killed)),
        stopped_s=max(columns.values("wall_s", stopped), default=None),
        ended_in=ended_in.pop() if len(ended_in) == 1 else None,
        base_bytes=_median(columns, "base_bytes", rows),
        demand_bytes=_median(columns, "demand_bytes", rows),
        undroppable_bytes=_median(columns, "undroppable_bytes", rows),
        need_bytes=spread_of(need.total_bytes for need in needs),
        least_to_give_bytes=least_to_give(needs),
        library_bytes=_median(columns, "library_bytes", rows),
        working_set_bytes=working_sets(columns, rows),
        reasons=_reasons(columns, rows),
        collections_s=[taken for taken in columns.values("collections_s", rows) if taken > 0],
        doubts=_doubts(columns, rows),
        throughput_per_s=spread_of(
            columns.values("throughput_per_s", [row for row, end in ends if end == "ok"])
        ),
        unit=throughput_unit(settings),
        steady_relative=steady_relative(sweep, rows, walked),
        unmeasured=unmeasured([sweep.records[row] for row in rows]) if beside else None,
        meets_limit=is_limit_met(limits, len(rows), columns.values("limit_hits", rows)),
    )


def _median(columns: ColumnTable, name: str, rows: Sequence[int]) -> float | None:
    spread = spread_of(columns.values(name, rows))
    return spread.median if spread else None


def _reasons(columns: ColumnTable, rows: Sequence[int]) -> list[str]:
    """Why trials didn't end ``ok``, each wording once."""
    ends = zip(columns.words("outcome", rows), columns.words("reason", rows), strict=True)
    bad = dict.fromkeys(end for end in ends if end[0] != "ok")
    words = (f"{outcome}: {reason or 'no reason recorded'}" for outcome, reason in bad)
    # A reason of several lines must not look like several reasons.
    return list(dict.fromkeys(" ".join(line.split()) for line in words))


def _doubts(columns: ColumnTable, rows: Sequence[int]) -> list[Doubt]:
    doubts = spread_doubts([time_s for time_s in columns.values("times_total", rows) if time_s])
    repeat = columns.values("rounds_repeat", rows)
    # Every second trial that tells it is enough.
    if repeat and repeat.count(0) * 2 >= len(repeat):
        doubts.append(Doubt("unsteady_rounds"))
    trials = zip(columns.words("trial", rows), columns.words("doubts", rows), strict=True)
    return doubts + [structs.replace(d, trial=trial) for trial, own in trials for d in own or ()]


@dataclass(frozen=True)
class WorkloadFacts:
    """Points that differ in their memory limit alone, the widest limit first.

    ``miss_curve`` is what its rounds read again at each limit; None where nothing was counted.
    ``asked`` is how slow it may be at the limit to give.
    """

    name: str
    settings: dict[str, Any]
    points: tuple[PointFacts, ...]
    miss_curve: MissCurve | None = None
    asked: AskedPace = field(default_factory=AskedPace)

    @property
    def key(self) -> WorkloadKey:
        """What sets it apart from all others."""
        return self.points[0].key

    @cached_property
    def unlimited(self) -> PointFacts | None:
        """The point without a limit; None if it has no trial that finished."""
        free = (p for p in self.points if p.is_unlimited and "total" in p.times_s)
        return next(free, None)

    @cached_property
    def tried(self) -> tuple[PointFacts, ...]:
        """The points below a limit that have a trial."""
        return tuple(p for p in self.points if not p.is_unlimited and p.outcomes)

    @property
    def demand_bytes(self) -> float | None:
        """Its demand; None if no trial recorded it."""
        return next((p.demand_bytes for p in self.points if p.demand_bytes is not None), None)

    @property
    def needs_bytes(self) -> tuple[float, float] | None:
        """The least and the most that its trials without a limit needed; None: not known."""
        need = next((p.need_bytes for p in self.points if p.need_bytes), None)
        if need:
            return need.low, need.high
        return None if self.demand_bytes is None else (self.demand_bytes, self.demand_bytes)

    @property
    def most_slowdown(self) -> float | None:
        """How many times as slow it may be at the limit to give; None: as usual."""
        rate = self.unlimited.throughput_per_s if self.unlimited else None
        return self.asked.factor(1 / rate.median if rate else None)

    def bracket(self) -> LimitBracket:
        """Return the limit to give, and the largest that is not enough.

        Nothing is given to what still grew when it was stopped.
        """
        if self.unmeasured.growth is not None:
            return LimitBracket(None, None)
        least = next((p.least_to_give_bytes for p in self.points if p.least_to_give_bytes), 0)
        return given_bracket([*map(self._tried_limit, self.tried)], self.most_slowdown, least)

    def _tried_limit(self, point: PointFacts) -> TriedLimit:
        free, later_s = self.unlimited, None
        if free and point.slowdown and not (self.has_rounds or point.throughput_per_s):
            later_s = (point.slowdown - 1) * free.times_s["total"].median
        return TriedLimit(
            limit_bytes=point.limit_bytes or 0,
            # A walk may come to a limit more often than trials were planned.
            trials=max(point.planned or 0, point.made),
            finished=point.outcomes.get("ok", 0),
            killed="oom-killed" in point.outcomes,
            slowdown=point.slowdown,
            later_s=later_s,
        )

    @property
    def library_bytes(self) -> float | None:
        """What it maps of libraries, beside its demand; None if no trial recorded it."""
        return next((p.library_bytes for p in self.points if p.library_bytes is not None), None)

    @property
    def unmeasured(self) -> Unmeasured:
        """What its trials without a limit leave open."""
        free = (point.unmeasured for point in self.points if point.is_unlimited)
        return next(filter(None, free), Unmeasured())

    @property
    def limits(self) -> LimitSetting:
        """What all its limits have in common: swap, cores, CPU quota."""
        return self.points[0].limits

    @cached_property
    def has_steady(self) -> bool:
        """Whether ``total`` is a steady round's time, and ``start`` another."""
        return any(STEADY in point.times_s for point in self.points)

    @cached_property
    def has_rounds(self) -> bool:
        """Whether its trials have rounds, if only one."""
        return any(START in point.times_s for point in self.points)

    @cached_property
    def slowed(self) -> tuple[PointFacts, ...]:
        """Those of :attr:`tried` that are surely slower than without a limit."""
        return tuple(p for p in self.tried if p.is_slower)


@dataclass(frozen=True)
class SweepFacts:
    """What a sweep shows: its points in the plan's order, and its workloads."""

    points: tuple[PointFacts, ...]
    workloads: tuple[WorkloadFacts, ...]


def sweep_facts(sweep: Sweep) -> SweepFacts:
    """Return the facts of a sweep, complete, running or interrupted."""
    points = point_facts(sweep)
    timed = [*sweep.records, *sweep.upward_records]
    counted = [trial for trial in timed if trial.round_counts or trial.outcome in TOO_TIGHT]
    curves: dict[WorkloadKey, MissCurve] = {}
    if any(trial.round_counts for trial in counted):
        curves = {curve.workload: curve for curve in record_curves(counted)}
        for place, point in enumerate(points):
            # What its rounds read again, on the way that its curve is of.
            curve = curves.get(curve_workload(point.key))
            known = curve.known if curve else ()
            read = (at.round_bytes for at in known if at.limit_bytes == point.limit_bytes)
            points[place] = replace(point, read_again_bytes=next(read, None))
    # A search plans only some of its points.
    planned = [point for point in points if point.planned or point.outcomes]
    workloads = workload_facts(planned or points)
    try:
        asked = msgspec.convert(sweep.resolved.get("asked", {}), AskedPace)
    except msgspec.ValidationError:
        asked = AskedPace()
    return SweepFacts(
        tuple(points),
        tuple(
            replace(facts, miss_curve=curves.get(curve_workload(facts.key)), asked=asked)
            for facts in workloads
        ),
    )


def workload_facts(points: Iterable[PointFacts]) -> list[WorkloadFacts]:
    """Every workload of a sweep, in the order of its points, each with a name of its own."""
    groups: dict[WorkloadKey, list[PointFacts]] = {}
    for point in points:
        groups.setdefault(point.key, []).append(point)

    def order(point: PointFacts) -> float:
        return -math.inf if point.limit_bytes is None else -point.limit_bytes

    names = workload_names([(group[0].settings, group[0].limits) for group in groups.values()])
    return [
        WorkloadFacts(name, group[0].settings, tuple(sorted(group, key=order)))
        for name, group in zip(names, groups.values(), strict=True)
    ]
