"""Which limits a walk visits, in worlds with a known slowdown."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest

from edgebench.scenario.walk import MOST_LIMITS, Cliff, Visit, Visited, cliff_of, walk

MIB = 1 << 20
LIMITS = [500 * MIB, 400 * MIB, 300 * MIB, 200 * MIB]


def walked(
    slowdown: Callable[[float], float],
    target: float = 0.02,
    spread: float = 0.01,
    killed: dict[int, Visited] | None = None,
) -> tuple[list[Visit], Cliff | None]:
    """All visits of a walk where a round takes so many seconds at a limit in MiB, and its cliff."""
    steps = walk([size for size in LIMITS if size not in (killed or {})], target, MIB // 4, killed)
    visits = [next(steps)]
    try:
        while True:
            size = visits[-1].memory_bytes
            seconds = 1.0 if size is None else slowdown(size / MIB)
            visits.append(
                steps.send(
                    Visited(
                        {"round": seconds, "execute": seconds / 2, "load": 0.001},
                        {"round": spread, "execute": spread, "load": 0.0},
                    )
                )
            )
    except StopIteration as end:
        return visits, end.value


def test_a_cliff_is_found_to_the_target() -> None:
    """The two limits on both sides of a step are within 2 % of each other, and hold it."""
    visits, cliff = walked(lambda mib: 1.0 if mib > 337 else 4.0)
    assert cliff
    assert cliff.low_bytes <= 337 * MIB < cliff.high_bytes
    assert cliff.known_to <= 0.02
    assert cliff.ratio == 4.0
    assert len(visits) < 40


def test_every_visit_on_the_way_down_comes_from_above() -> None:
    """From the limit before it that is higher, or from no limit: never from below."""
    visits, _ = walked(lambda mib: 1.0 if mib > 337 else 4.0)
    for before, visit in itertools.pairwise(visits):
        if visit.direction == "down" and before.memory_bytes is not None:
            assert before.memory_bytes > (visit.memory_bytes or 0)


def test_it_goes_up_until_nothing_changes_and_ends_without_a_limit() -> None:
    """The way up begins at the lowest limit; two that are as on the way down end it."""
    visits, _ = walked(lambda mib: 1.0 if mib > 237 else 4.0)
    ways = {way: [v.memory_bytes for v in visits if v.direction == way] for way in ("down", "up")}
    assert visits[-1].memory_bytes is None
    assert ways["down"][: len(LIMITS)] == LIMITS
    assert ways["up"] == [300 * MIB, 400 * MIB]
    assert visits[1 + len(LIMITS)].direction == "up"


def test_what_stays_slow_on_the_way_up_is_followed() -> None:
    """Hysteresis: limits that slowed nothing on the way down do so on the way up."""
    steps = walk(LIMITS, 0.9, MIB // 4)
    visits = [next(steps)]
    with contextlib.suppress(StopIteration):
        while True:
            slow = visits[-1].direction == "up" and visits[-1].memory_bytes != 500 * MIB
            visits.append(steps.send(Visited({"round": 1.0 + slow}, {"round": 0.01})))
    up = [visit.memory_bytes for visit in visits if visit.direction == "up"]
    assert up == sorted(LIMITS)[1:]


def test_a_change_within_the_noise_is_not_looked_at() -> None:
    """Where rounds differ by as much as slowdown changes, the place is said to be doubtful."""
    visits, cliff = walked(lambda mib: 1.0 if mib > 337 else 1.3, spread=0.2)
    assert cliff
    assert cliff.doubtful
    assert cliff.known_to > 0.02
    assert [visit.direction for visit in visits].count("down") == len(LIMITS)


@pytest.mark.parametrize("target", [0.0001, 0.002])
def test_a_walk_ends_whatever_the_target(target: float) -> None:
    """A smooth slope has no place that is known at last: there are at most so many limits."""
    visits, _ = walked(lambda mib: 500 / mib * 2, target=target)
    assert len({v.memory_bytes for v in visits if v.direction == "down"}) <= MOST_LIMITS


def test_after_a_kill_slowdown_is_looked_for_above_it() -> None:
    """Rounds before the kill were slow, so the cliff is found between there and the next limit."""
    slow = Visited({"round": 4.0, "execute": 2.0}, {"round": 0.01, "execute": 0.01})
    visits, cliff = walked(lambda mib: 1.0 if mib > 237 else 4.0, killed={200 * MIB: slow})
    assert cliff
    assert cliff.low_bytes <= 237 * MIB < cliff.high_bytes
    assert cliff.known_to <= 0.02
    assert min(v.memory_bytes for v in visits if v.memory_bytes) > 200 * MIB


def test_a_noisy_phase_does_not_hide_where_another_changes() -> None:
    """Loading varies by more than its change at one place; execution changes surely at another."""
    free = Visited({"round": 2.0, "load": 1.0, "execute": 1.0}, {"load": 0.3, "execute": 0.01})
    down = {
        500: free,
        400: Visited({"round": 2.6, "load": 1.6, "execute": 1.0}, free.spread),
        300: Visited({"round": 3.0, "load": 1.6, "execute": 1.4}, free.spread),
    }
    every = {size: with_round(visited) for size, visited in down.items()}
    cliff = cliff_of(every, with_round(free))
    assert cliff == Cliff(300, 400, 1.4, doubtful=False)


def with_round(visited: Visited) -> Visited:
    """The same, its rounds as noisy as its noisiest phase."""
    return Visited(visited.seconds, {**visited.spread, "round": max(visited.spread.values())})
