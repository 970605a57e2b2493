"""Which limits a walk visits: a trial whose limit is moved while it lives.

It begins without a limit and goes down through the scenario's limits; those between two that read
the same on the plateau and the tightest one are left out. Then it goes up again until both ways
agree and rounds read as little as at the widest. Then it looks closer for the knee, the limit where
rounds begin to read memory again, until it knows it to the target with two visits on both sides,
and ends without a limit. Where visits disagree on which side of the knee they are, it visits these
limits again. Every closer look begins without one too: so it comes from above, as the
way down does, and shows how the machine drifts.

A limit at which the process is killed ends the walk. The next one stays above that limit, but looks
closer between it and the limits that it finished at.
"""

from __future__ import annotations

import math
import mmap
import os
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from edgebench.need import (
    KNEE_SHARE,
    LEAST_PLATEAU_BYTES,
    KneeBracket,
    bracket,
    equal_bytes,
    medians,
    plateau_of,
    settled,
)
from edgebench.records import UP, Direction, LimitSetting, PhaseSum, RoundCounts, TrialRecord
from edgebench.results.times import reads_of, steadiness
from edgebench.scenario.points import Point, limits_of, series_of
from edgebench.text import MIB

#: The kernel charges so much at once, for each CPU: limits closer together are the same.
CHARGED_BYTES = 64 * mmap.PAGESIZE
#: Labels of shares are written to this part of the demand.
_LABEL_PART = 0.001
#: Visits on the way down at most, closer looks among them.
MOST_LIMITS = 24
#: Visits of each limit around the knee.
_BOTH_SIDES = 2
#: Visits of a limit at most, where they disagree: then most of them are on one side.
_TELLING = 3
#: The way up ends where so many limits in a row are as on the way down, and read as little as the
#: widest.
_AGREEING = 2
#: Two ways agree if they read the same but for this share.
_NEAR_SHARE = 0.1


@dataclass(frozen=True)
class Visit:
    """A limit to go to: its bytes, None for none; ``direction`` is None without a limit."""

    memory_bytes: int | None
    direction: Direction | None = None


@dataclass(frozen=True)
class Visited:
    """What a visit came to: medians of its steady rounds.

    Args:
        seconds: on the clock; None: it had no round.
        read_bytes: read from swap and files; None: not counted.
    """

    seconds: float | None = None
    read_bytes: int | None = None


Walk = Generator[Visit, Visited, "KneeBracket | None"]


def walk(
    limits: Sequence[int],
    target: float,
    step_bytes: int,
    killed: Mapping[int, Visited] | None = None,
) -> Walk:
    """Yield one visit after the other, each answered with what it came to; return the knee.

    Args:
        limits: the scenario's, bytes; all above the killed one.
        target: how well the knee is to be known, as a share of the limit.
        step_bytes: closer limits than this are the same.
        killed: the largest limit at which a walk before was killed, with what its rounds had come
            to till then; it is not visited.
    """
    unlimited = yield Visit(None)
    down = _Reads(unlimited, killed or {})
    left = sorted(limits, reverse=True)
    while left:
        limit = left.pop(0)
        down.add(limit, (yield Visit(limit, "down")))
        if left and plateau_of(down.added()) is not None:
            # One more point of the plateau says all: the tightest, where a kill would show.
            left = left[-1:]
    yield from _up(down)
    while (closer := _next(down, target, step_bytes)) is not None and down.visits < MOST_LIMITS:
        yield Visit(None)
        down.add(closer, (yield Visit(closer, "down")))
    if down.visits:
        yield Visit(None)
    return down.bracket()


class _Reads:
    """What rounds read on the way down, by limit."""

    def __init__(self, unlimited: Visited, killed: Mapping[int, Visited]) -> None:
        self._free_bytes = unlimited.read_bytes
        self._read: dict[int, list[int]] = {}
        self.killed = killed
        self.visits = 0

    def add(self, limit: int, visited: Visited) -> None:
        """Take in what a visit came to."""
        self.visits += 1
        read = self._added(visited)
        if read is not None:
            self._read.setdefault(limit, []).append(read)

    def _added(self, visited: Visited) -> int | None:
        if visited.read_bytes is None or self._free_bytes is None:
            return None
        return max(0, visited.read_bytes - self._free_bytes)

    def times(self, limit: int) -> int:
        """How often a limit was visited."""
        return len(self._read.get(limit, ()))

    def added(self) -> dict[int, int]:
        """Limit → bytes that rounds read again there."""
        return medians(self._read)

    def near(self, limit: int, up: Visited) -> bool:
        """Whether the way up reads there what the way down did, and no more than the widest."""
        read, added = self._added(up), self.added()
        if read is None or limit not in added:
            return True
        return all(_near(read, other) for other in (added[limit], added[max(added)]))

    def bracket(self) -> KneeBracket | None:
        """Return the limits around the knee; None: nothing is read again, or at the widest already.

        Before there is a plateau, half of the most that rounds read stands for half of it.
        """
        visits = {**self._read}
        for limit, visited in self.killed.items():
            if (read := self._added(visited)) is not None:
                visits[limit] = [read]
        added = medians(visits)
        most = plateau_of(added) or max(added.values(), default=0)
        return bracket(visits, KNEE_SHARE * most) if most >= LEAST_PLATEAU_BYTES else None


def _near(one: int, other: int) -> bool:
    far = max(LEAST_PLATEAU_BYTES, _NEAR_SHARE * max(one, other))
    return equal_bytes(one, other) or abs(one - other) <= far


def _up(down: _Reads) -> Generator[Visit, Visited, None]:
    """Go up from the lowest limit, until wider ones can show nothing more.

    Of the plateau its tightest limit is enough: there both ways read the same.
    """
    limits = sorted(down.added())
    knee = down.bracket()
    agreeing = 0
    for limit in limits[1:]:
        if knee and limit < knee.low_bytes:
            continue
        up = yield Visit(limit, "up")
        agreeing = agreeing + 1 if down.near(limit, up) else 0
        if agreeing == _AGREEING:
            return


def _next(down: _Reads, target: float, step_bytes: int) -> int | None:
    """Return the next limit to look at; None: the knee is known, or can't be.

    One where visits disagree; else one closer to the knee; else one beside it again. Where a limit
    killed and no knee is known above it, the place just above that limit.
    """
    knee, added = down.bracket(), down.added()
    if knee is None and down.killed and added:
        knee = KneeBracket(max(down.killed), min(added))
    if knee is None:
        return None
    unsure = [limit for limit in knee.disagree if down.times(limit) < _TELLING]
    if unsure:
        return min(unsure, key=lambda limit: (down.times(limit), -limit))
    if knee.known_to > target and (closer := _between(knee, step_bytes)) is not None:
        return closer
    again = (side for side in (knee.low_bytes, knee.high_bytes) if side in added)
    return next((side for side in again if down.times(side) < _BOTH_SIDES), None)


def _between(knee: KneeBracket, step_bytes: int) -> int | None:
    """Return the geometric middle, in whole steps; None: it is too close.

    Where limits disagree, of the wider gap beside them.
    """
    beside = knee.disagree or (knee.high_bytes,)
    gaps = [(knee.low_bytes, beside[0]), (beside[-1], knee.high_bytes)]
    low, high = max(gaps, key=lambda gap: gap[1] / gap[0])
    if high - low < 2 * step_bytes:
        return None
    return round(math.sqrt(low * high) / step_bytes) * step_bytes


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
        charged = CHARGED_BYTES * (os.cpu_count() or 1)
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
    series = next(series for series in series_of(points) if unlimited in series)
    return unlimited, *(point for point in series if point != unlimited)


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
    killed = [
        record
        for record in records
        # Where a walk looked closer, what follows the dash is the limit.
        if record.walk and record.outcome == "oom-killed" and record.point.split("-")[0] in names
    ]
    largest = max(killed, key=lambda record: record.limit_bytes or 0, default=None)
    if largest is None or not largest.limit_bytes:
        return {}
    return {largest.limit_bytes: visited(largest.phases, largest.round_counts)}


def visited(phases: Sequence[PhaseSum], counts: Sequence[RoundCounts]) -> Visited:
    """Medians of the steady rounds: seconds, and bytes read; these of the last that read alike.

    Of a single round, which a kill may leave, they are its own; nothing where there is none.
    """
    rounds = [phase for phase in phases if phase.phase == "round"]
    if not rounds:
        return Visited()
    places = steadiness([phase.wall_s for phase in rounds]).rounds or (0,)
    reads = reads_of((phase.round for phase in rounds), counts)
    known = [read for place in settled(reads) or places if (read := reads[place]) is not None]
    return Visited(
        statistics.median(rounds[place].wall_s for place in places),
        round(statistics.median(known)) if known else None,
    )
