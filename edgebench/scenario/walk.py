"""The limits of a walk, chosen as it goes: a trial whose limit is moved while it lives.

It begins without a limit, goes down through the scenario's limits, and up again until both ways
agree and rounds are as fast as at the widest. Then it looks closer where slowdown changes most,
until it knows that place (the cliff) to the target, and ends without a limit. Every closer look
begins without one too: so it comes from above, as the way down does, and shows how the machine
drifts.

A limit at which the process is killed ends the walk. The next one stays above that limit, but looks
closer between it and the limits that it finished at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from edgebench.records import Direction

#: Visits on the way down at most, closer looks among them.
MOST_LIMITS = 24
#: A smaller change between two neighbouring limits is no cliff, as a ratio.
LEAST_CHANGE = 1.1
#: The cliff is looked for while the change is at least so many times what rounds differ by.
_NOISES = 3.0
#: The way up ends where so many limits in a row are as on the way down, and as fast as the widest.
_AGREEING = 2
#: A phase that takes a smaller part of an unlimited round says little about the network.
_LEAST_PART = 0.02


@dataclass(frozen=True)
class Visit:
    """A limit to go to: its bytes, None for none; ``direction`` is None without a limit."""

    memory_bytes: int | None
    direction: Direction | None = None


@dataclass(frozen=True)
class Visited:
    """What a visit came to.

    Args:
        seconds: the median of the steady rounds, of each phase and of the whole ``round``.
        spread: how steady rounds differ from it, as a share of it, of each phase.
    """

    seconds: Mapping[str, float]
    spread: Mapping[str, float]


@dataclass(frozen=True)
class Cliff:
    """Two neighbouring limits between which slowdown changes most.

    ``ratio`` is by how much. ``doubtful``: less than rounds at these limits differ by.
    """

    low_bytes: int
    high_bytes: int
    ratio: float
    doubtful: bool

    @property
    def known_to(self) -> float:
        """Their distance, as a share of the higher one."""
        return 1 - self.low_bytes / self.high_bytes


Walk = Generator[Visit, Visited, "Cliff | None"]


def walk(
    limits: Sequence[int],
    target: float,
    step_bytes: int,
    killed: Mapping[int, Visited] | None = None,
) -> Walk:
    """Visits one after the other; each is answered with what it came to. Ends with the cliff.

    Args:
        limits: the scenario's, bytes; all above the killed one.
        target: how well the cliff is to be known, as a share of the limit.
        step_bytes: closer limits than this are the same.
        killed: the largest limit at which a walk before was killed, with what its rounds had come
            to till then; it is not visited.
    """
    below = killed or {}
    unlimited = yield Visit(None)
    down: dict[int, Visited] = {}
    for limit in sorted(limits, reverse=True):
        down[limit] = yield Visit(limit, "down")
    yield from _up(down, unlimited)
    while (place := _place(below, down, unlimited)) and _is_wide(place, target, step_bytes):
        if len(down) >= MOST_LIMITS:
            break
        yield Visit(None)
        between = _between(place, step_bytes)
        down[between] = yield Visit(between, "down")
    if down:
        yield Visit(None)
    return cliff_of({**below, **down}, unlimited)


def _up(down: Mapping[int, Visited], unlimited: Visited) -> Generator[Visit, Visited, None]:
    """Up from the lowest limit, until wider ones can show nothing more."""
    agreeing = 0
    for limit in sorted(down)[1:]:
        up = yield Visit(limit, "up")
        fast = any(_near(up, wide) for wide in (unlimited, down[max(down)]))
        same = fast and _near(up, down[limit])
        agreeing = agreeing + 1 if same else 0
        if agreeing == _AGREEING:
            return


def _near(one: Visited, other: Visited) -> bool:
    """Whether their rounds differ by less than a cliff would have, or by no more than noise."""
    ratio = one.seconds["round"] / other.seconds["round"]
    larger = max(ratio, 1 / ratio)
    return larger < LEAST_CHANGE or larger - 1 < _noise(one, other, "round")


def _noise(one: Visited, other: Visited, phase: str) -> float:
    """A change below it, as a share, may be none: so much do rounds differ."""
    return _NOISES * (one.spread[phase] + other.spread[phase]) / 2


def _place(
    killed: Mapping[int, Visited], down: Mapping[int, Visited], unlimited: Visited
) -> Cliff | None:
    """Where to look closer: at a sure cliff; else above a limit that killed it."""
    cliff = cliff_of({**killed, **down}, unlimited)
    if not killed or not down or (cliff and not cliff.doubtful):
        return cliff
    return Cliff(max(killed), min(down), math.inf, doubtful=False)


def cliff_of(down: Mapping[int, Visited], unlimited: Visited) -> Cliff | None:
    """Where slowdown changes most between neighbouring limits; None where it nowhere does.

    Only phases count that are a part of the unlimited round worth speaking of, and those that
    change by more than their rounds differ before others. Above the highest limit nothing is looked
    for.
    """
    phases = [
        phase
        for phase, seconds in unlimited.seconds.items()
        if seconds >= _LEAST_PART * unlimited.seconds["round"]
    ]
    found = []
    for low, high in itertools.pairwise(sorted(down)):
        below, above = down[low], down[high]
        for phase in phases:
            if not below.seconds.get(phase) or not above.seconds.get(phase):
                continue
            ratio = below.seconds[phase] / above.seconds[phase]
            doubtful = ratio - 1 < _noise(below, above, phase)
            found.append(Cliff(low, high, ratio, doubtful))
    large = [one for one in found if one.ratio >= LEAST_CHANGE]
    return max(large, key=lambda one: (not one.doubtful, one.ratio), default=None)


def _is_wide(cliff: Cliff, target: float, step_bytes: int) -> bool:
    """Whether a closer look is wanted and would show anything."""
    apart = cliff.high_bytes - cliff.low_bytes
    return not cliff.doubtful and cliff.known_to > target and apart >= 2 * step_bytes


def _between(cliff: Cliff, step_bytes: int) -> int:
    """The geometric middle, in whole steps."""
    middle = math.sqrt(cliff.low_bytes * cliff.high_bytes)
    return round(middle / step_bytes) * step_bytes
