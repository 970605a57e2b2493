"""The limits of a walk, chosen as it goes: a trial whose limit is moved while it lives.

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
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from edgebench.knee import (
    KNEE_SHARE,
    LEAST_PLATEAU_BYTES,
    KneeBracket,
    bracket,
    equal_bytes,
    medians,
    plateau_of,
)
from edgebench.records import Direction

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
