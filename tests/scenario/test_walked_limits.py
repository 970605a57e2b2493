"""Which limits a walk visits, in worlds where the bytes that rounds read are known."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from edgebench.need import KneeBracket
from edgebench.run.walk.walk import MOST_LIMITS, Visit, Visited, _between, _near, walk

MIB = 1 << 20
LIMITS = [500 * MIB, 400 * MIB, 300 * MIB, 200 * MIB]


def walked(
    reads: Callable[[float], float],
    target: float = 0.03,
    limits: list[int] = LIMITS,
    killed: dict[int, Visited] | None = None,
    unlimited: float = 0.0,
) -> tuple[list[Visit], KneeBracket | None]:
    """All visits of a walk where a round reads so many MiB at a limit in MiB, and its knee."""
    above = [size for size in limits if size > max(killed or {0: None})]
    steps = walk(above, target, MIB // 4, killed)
    visits = [next(steps)]
    try:
        while True:
            size = visits[-1].memory_bytes
            read = unlimited if size is None else reads(size / MIB)
            visits.append(steps.send(Visited(1.0, round(read * MIB))))
    except StopIteration as end:
        return visits, end.value


def step(knee_mib: float) -> Callable[[float], float]:
    """All of 200 MiB is read again from that limit down, as by a loop over it under LRU."""
    return lambda mib: 0.0 if mib > knee_mib else 200.0


def ways(visits: list[Visit], direction: str) -> list[float]:
    return [(v.memory_bytes or 0) / MIB for v in visits if v.direction == direction]


def test_the_knee_is_found_to_the_target() -> None:
    """The limits on both sides of it are within 3 % of each other, and were visited twice."""
    visits, knee = walked(step(337))
    assert knee
    assert knee.low_bytes <= 337 * MIB < knee.high_bytes
    assert knee.known_to <= 0.03
    times = Counter(ways(visits, "down"))
    assert times[knee.low_bytes / MIB] == times[knee.high_bytes / MIB] == 2
    assert len(visits) < 24


def test_a_first_visit_in_another_state_is_found_out() -> None:
    """Until a tight limit was visited, rounds read half of the plateau and more up to 420 MiB."""
    settled = False

    def reads(mib: float) -> float:
        nonlocal settled
        read = step(337)(mib)
        if mib < 420 and not settled:
            read = max(read, 120.0)
        settled = settled or mib <= 200
        return read

    visits, knee = walked(reads)
    assert knee
    assert knee.low_bytes <= 337 * MIB < knee.high_bytes
    assert knee.known_to <= 0.03
    assert not knee.disagree
    assert len(ways(visits, "down")) < MOST_LIMITS


def test_limits_at_which_visits_never_agree_are_left() -> None:
    """Read by chance between 330 and 345 MiB: the limits beside them are found, and it ends."""
    turns = itertools.cycle((200.0, 0.0))
    visits, knee = walked(lambda mib: next(turns) if 330 < mib < 345 else step(337)(mib))
    assert knee
    assert knee.low_bytes < 345 * MIB
    assert knee.high_bytes > 330 * MIB
    assert max(Counter(ways(visits, "down")).values()) <= 3
    assert len(ways(visits, "down")) <= MOST_LIMITS


def test_what_an_unlimited_round_reads_hides_no_knee() -> None:
    cold = 300.0
    _, knee = walked(lambda mib: cold + step(337)(mib), unlimited=cold)
    assert knee
    assert knee.low_bytes <= 337 * MIB < knee.high_bytes


def test_it_goes_up_until_both_ways_agree() -> None:
    visits, _ = walked(step(237))
    assert ways(visits, "up") == [300, 400]
    assert ways(walked(step(337))[0], "up") == [300, 400, 500]


def test_what_is_read_on_the_way_up_is_followed() -> None:
    steps = walk(LIMITS, 0.5, MIB // 4)
    visits = [next(steps)]
    with contextlib.suppress(StopIteration):
        while True:
            here = visits[-1]
            more = here.direction == "up" and here.memory_bytes != 500 * MIB
            visits.append(steps.send(Visited(1.0, more * 50 * MIB)))
    assert ways(visits, "up") == [300, 400, 500]


def test_what_reads_nothing_again_is_not_looked_at() -> None:
    visits, knee = walked(lambda _: 0.2)
    assert knee is None
    assert ways(visits, "down") == [500, 400, 300, 200]
    assert ways(visits, "up") == [300, 400]


def test_where_nothing_is_counted_the_scenarios_limits_are_all() -> None:
    steps = walk(LIMITS, 0.03, MIB // 4)
    visits = [next(steps)]
    with contextlib.suppress(StopIteration):
        while True:
            visits.append(steps.send(Visited(1.0)))
    assert [(visit.memory_bytes or 0) // MIB for visit in visits] == [0, 500, 400, 300, 200, 0]


@pytest.mark.parametrize("target", [0.0001, 0.002])
def test_a_walk_ends_whatever_the_target(target: float) -> None:
    visits, _ = walked(lambda mib: 500 - mib, target=target)
    assert len(ways(visits, "down")) <= MOST_LIMITS


def test_after_a_kill_the_knee_is_looked_for_above_it() -> None:
    visits, knee = walked(step(237), killed={200 * MIB: Visited(4.0, 200 * MIB)})
    assert knee
    assert knee.low_bytes <= 237 * MIB < knee.high_bytes
    assert knee.known_to <= 0.03
    assert min(ways(visits, "down")) > 200


def test_after_a_kill_at_once_the_place_above_it_is_looked_at() -> None:
    visits, knee = walked(lambda _: 0.0, killed={200 * MIB: Visited()})
    assert knee is None
    down = ways(visits, "down")
    assert 200 < min(down) < 207


@pytest.mark.parametrize(
    ("low", "high", "disagree", "closer"),
    [
        # The geometric middle, not 250.
        (100, 400, (), 200),
        # Of 100 to 110 and 150 to 400 the wider: the root of 60,000 is 244.95, in quarters 245.
        (100, 400, (110, 150), 245),
        (100, 400, (350, 390), 187),
        (100, 100.4, (), None),
        (100, 100.5, (), 100.25),
    ],
)
def test_the_closer_look_is_in_the_middle_of_the_widest_gap(
    low: float, high: float, disagree: tuple[int, ...], closer: float | None
) -> None:
    knee = KneeBracket(int(low * MIB), int(high * MIB), tuple(one * MIB for one in disagree))
    assert _between(knee, MIB // 4) == (closer and closer * MIB)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    # A tenth of the larger one; a MiB in any case.
    [(100, 110.5, True), (100, 112, False), (0, 1, True), (0, 1.1, False), (110.5, 100, True)],
)
def test_two_ways_read_the_same_but_for_a_tenth(one: float, other: float, near: bool) -> None:
    assert _near(int(one * MIB), int(other * MIB)) is near
