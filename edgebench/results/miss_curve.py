"""The miss curve: how many bytes a steady round reads again at each memory limit, and its knee.

It belongs to the workload, not to the storage: slower storage makes a byte cost more, but does not
change which bytes are read again. The name is that of caches' miss ratio curves (Mattson et al.,
"Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from edgebench.need import (
    KNEE_SHARE,
    TOO_TIGHT,
    NoKnee,
    disagreeing,
    equal_bytes,
    find_knee,
    settled,
)
from edgebench.records import Direction, RoundCounts, TrialRecord
from edgebench.results.times import STEADY, round_stages
from edgebench.results.workload_key import WorkloadKey
from edgebench.text import AS_IS

_WAYS: tuple[Direction | None, ...] = ("down", "up", None)


@dataclass(frozen=True)
class MissPoint:
    """What steady rounds read again at one limit, on one way to it.

    Args:
        limit_bytes: as the kernel rounded it.
        direction: from where a walk came to it; None: a fresh process.
        round_bytes: median bytes read again in a steady round, from swap and files: beyond what a
            round without a limit reads.
        spread_bytes: the largest minus the smallest of the visits' medians; of one visit, of its
            rounds.
        out_bytes: median bytes written in a steady round; None: not known.
        faults: median major faults of a steady round; None: not known.
        rounds: how many steady rounds that is of.
        visit_bytes: the same of each trial or visit, in their order.
        confirmed: whether at least two of the rounds read the same as the median.
        agree: whether visits tell on which side of the knee the limit is. Where they don't, the
            process was in two states, and the median is of neither.
    """

    limit_bytes: int
    direction: Direction | None
    round_bytes: int
    spread_bytes: int = 0
    out_bytes: int | None = None
    faults: int | None = None
    rounds: int = 1
    visit_bytes: tuple[int, ...] = ()
    confirmed: bool = False
    agree: bool = True

    @property
    def visits(self) -> int:
        """Of how many trials or visits it is."""
        return len(self.visit_bytes)


@dataclass(frozen=True)
class MissCurve:
    """Points of one workload, the widest limit first, and where it begins to read again.

    Args:
        workload: what was run, whatever its storage and its kind of swap.
        points: of all directions, which are never mixed.
        plateau_bytes: what a round reads again where a tighter limit hardly adds to it.
        knee_bytes: where the bytes pass half of the plateau, between these two limits.
        knee_between: the tighter limit, at which they do, and the wider one, at which they don't;
            also where visits between them disagree, and no knee is named.
        direction: of which points plateau and knee are: the way down, else of fresh processes.
        unlimited_bytes: what a round without a limit reads; not counted in the points.
        missing: why there is no knee; None: there is one.
    """

    workload: WorkloadKey
    points: tuple[MissPoint, ...] = ()
    plateau_bytes: int | None = None
    knee_bytes: int | None = None
    knee_between: tuple[int, int] | None = None
    direction: Direction | None = None
    unlimited_bytes: int = 0
    missing: NoKnee | None = None

    def of(self, direction: Direction | None) -> tuple[MissPoint, ...]:
        """Return the points of one direction, the widest limit first."""
        return tuple(point for point in self.points if point.direction == direction)

    @property
    def known(self) -> tuple[MissPoint, ...]:
        """The points of the knee's direction at which visits agree."""
        return tuple(point for point in self.of(self.direction) if point.agree)


def steady_counts(record: TrialRecord) -> list[RoundCounts]:
    """Return the last rounds that read alike, else its steady rounds; a start is none of them."""
    if places := settled([one.in_bytes for one in record.round_counts]):
        return [record.round_counts[place] for place in places]
    stages = round_stages(record)
    return [one for one in record.round_counts if stages.get(one.round) == STEADY]


def curve_workload(key: WorkloadKey) -> WorkloadKey:
    """Return the key of a curve: without the storage, and with swap only there or not."""
    swap = "none" if key.limits.swap_kind == "none" else "file"
    same = {"storage": AS_IS, "board": None, "swap_kind": swap, "swap_bytes": None}
    return replace(key, limits=structs.replace(key.limits, **same))


def record_curves(records: Iterable[TrialRecord]) -> list[MissCurve]:
    """Return the curve of each workload that has rounds at a limit, in their trials' order.

    Trials of a strategy's own are no part of them.
    """
    groups: dict[WorkloadKey, list[TrialRecord]] = {}
    for record in records:
        if record.strategy is None:
            key = curve_workload(WorkloadKey.of(record.settings, record.limits))
            groups.setdefault(key, []).append(record)
    limited = ((key, own) for key, own in groups.items() if any(r.limit_bytes for r in own))
    return [_curve(key, own) for key, own in limited]


def _curve(key: WorkloadKey, records: Sequence[TrialRecord]) -> MissCurve:
    if not any(phase.phase == "round" for record in records for phase in record.phases):
        return MissCurve(key, missing="no_rounds")
    free: list[int] = []
    visits: dict[tuple[int, Direction | None], list[list[RoundCounts]]] = {}
    for record in records:
        steady = [one for one in steady_counts(record) if one.in_bytes is not None]
        if not steady or record.outcome != "ok":
            continue
        if record.limit_bytes is None:
            free += [_read(one) for one in steady]
        else:
            visits.setdefault((record.limit_bytes, record.direction), []).append(steady)
    ended = [one.limit_bytes for one in records if one.outcome in TOO_TIGHT and one.limit_bytes]
    if not visits:
        counted = any(one.in_bytes is not None for r in records for one in r.round_counts)
        why: NoKnee = "no_counts" if not counted else "killed" if ended else "no_rounds"
        return MissCurve(key, missing=why)
    unlimited = int(statistics.median(free)) if free else 0
    made = [_point(*where, of, unlimited) for where, of in visits.items()]
    points = sorted(made, key=lambda one: -one.limit_bytes)
    direction: Direction | None = "down" if any(p.direction == "down" for p in points) else None
    knee = find_knee(_visits(points, direction), max(ended, default=None))
    if knee.plateau_bytes:
        half = KNEE_SHARE * knee.plateau_bytes
        torn = {way: disagreeing(_visits(points, way), half) for way in _WAYS}
        points = [replace(one, agree=one.limit_bytes not in torn[one.direction]) for one in points]
    return MissCurve(
        workload=key,
        points=tuple(points),
        plateau_bytes=knee.plateau_bytes,
        knee_bytes=knee.knee_bytes,
        knee_between=knee.between,
        direction=direction,
        unlimited_bytes=unlimited,
        missing=knee.missing,
    )


def _visits(points: Iterable[MissPoint], way: Direction | None) -> dict[int, tuple[int, ...]]:
    return {one.limit_bytes: one.visit_bytes for one in points if one.direction == way}


def _read(counts: RoundCounts) -> int:
    return counts.in_bytes or 0


def _point(
    limit_bytes: int,
    direction: Direction | None,
    visits: Sequence[Sequence[RoundCounts]],
    unlimited_bytes: int,
) -> MissPoint:
    medians = [round(statistics.median(map(_read, rounds))) for rounds in visits]
    every = [one for rounds in visits for one in rounds]
    middle = statistics.median(medians)
    spread = medians if len(medians) > 1 else list(map(_read, every))
    alike = [one for one in every if equal_bytes(_read(one), middle)]
    return MissPoint(
        limit_bytes=limit_bytes,
        direction=direction,
        round_bytes=max(0, round(middle) - unlimited_bytes),
        spread_bytes=round(max(spread) - min(spread)),
        out_bytes=_median(one.out_bytes for one in every),
        faults=_median(one.major_faults for one in every),
        rounds=len(every),
        visit_bytes=tuple(max(0, middle - unlimited_bytes) for middle in medians),
        confirmed=len(alike) > 1,
    )


def _median(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known)) if known else None
