"""Walks: which limits one visits where the bytes that rounds read are known, and after kills."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from scenario.planner_worlds import MIB, World, points_of

from edgebench.need import KneeBracket
from edgebench.records import NOT_REACHED, TrialRecord, WalkReport, WorkingSet
from edgebench.run.walk.control import NOT_MARKED
from edgebench.run.walk.walk import (
    MOST_LIMITS,
    Visit,
    Visited,
    _between,
    _near,
    killed_limit,
    points_after_kill,
    walk,
)
from edgebench.scenario.points import MOST_AGAIN, PlannedTrial, WalkPlanner

LIMITS = [500 * MIB, 400 * MIB, 300 * MIB, 200 * MIB]


def walked(
    reads: Callable[[float], float],
    target: float = 0.03,
    killed: dict[int, Visited] | None = None,
    unlimited: float = 0.0,
    see: Callable[[Visit, float], Visited] = lambda visit, read_mib: Visited(
        1.0, round(read_mib * MIB)
    ),
) -> tuple[list[Visit], KneeBracket | None]:
    """All visits of a walk where a round reads so many MiB at a limit in MiB, and its knee."""
    above = [size for size in LIMITS if size > max(killed or {0: None})]
    steps = walk(above, target, MIB // 4, killed)
    visits = [next(steps)]
    try:
        while True:
            size = visits[-1].memory_bytes
            visits.append(steps.send(see(visits[-1], reads(size / MIB) if size else unlimited)))
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
    def see(visit: Visit, read_mib: float) -> Visited:
        more = visit.direction == "up" and visit.memory_bytes != 500 * MIB
        return Visited(1.0, more * 50 * MIB)

    assert ways(walked(step(0), 0.5, see=see)[0], "up") == [300, 400, 500]


def test_what_reads_nothing_again_is_not_looked_at() -> None:
    visits, knee = walked(lambda _: 0.2)
    assert knee is None
    assert ways(visits, "down") == [500, 400, 300, 200]
    assert ways(visits, "up") == [300, 400]


def test_where_nothing_is_counted_the_scenarios_limits_are_all() -> None:
    visits, _ = walked(step(0), see=lambda visit, read_mib: Visited(1.0))
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


POINTS = points_of([60, 20], ("small", "large"))
SMALL, LARGE = (point.id for point in POINTS if point.unlimited)
PLANNER = WalkPlanner(POINTS, 1, 1, starts=[])
#: A plan of one workload, and its walk.
ALONE = WalkPlanner(POINTS[:3], 1, 1, starts=[])
WALK = PlannedTrial("0002", POINTS[0].id, 1, 0, walk=True)


def explored(
    killed: dict[str, int], direction: str = "down", planner: WalkPlanner = PLANNER
) -> list[PlannedTrial]:
    """All that is planned where so many walks of a point are killed at a further limit."""
    world = World(POINTS, lambda share: 1.0)
    left = dict(killed)
    more = planner.first()
    while more:
        world.planned += more
        for one in more:
            made = world.make(one)
            if one.walk:
                dies = left.get(one.point_id, 0) > 0 and not one.unlimited
                left[one.point_id] = left.get(one.point_id, 0) - 1
                made = seen(replace(made, walk=WalkReport(one.trial, 0)), to_the_end=not dies)
                last = replace(
                    made,
                    trial=f"{one.trial}-01",
                    outcome="oom-killed" if dies else "ok",
                    direction=direction,
                    walk=WalkReport(one.trial, 1),
                )
                world.records[last.trial] = last
            world.records[one.trial] = made
        more = planner.further(world.planned, world.records)
    return world.planned


def seen(first: TrialRecord, to_the_end: bool) -> TrialRecord:
    if to_the_end:
        return replace(first, working_set=WorkingSet(*range(5)))
    return replace(first, missing={"working_set": NOT_REACHED})


def walks_of(
    planned: list[PlannedTrial], point: str, *, unlimited: bool = False
) -> list[PlannedTrial]:
    return [
        trial
        for trial in planned
        if trial.walk and trial.point_id == point and trial.unlimited is unlimited
    ]


def test_a_killed_walk_is_followed_by_another_of_the_same_workload() -> None:
    planned = explored({LARGE: 1})
    assert len(walks_of(planned, SMALL)) == 1
    assert [one.repeat for one in walks_of(planned, LARGE)] == [0, 1]
    assert len({one.trial for one in planned}) == len(planned)


def test_walks_that_are_killed_again_and_again_come_to_an_end() -> None:
    assert len(walks_of(explored({LARGE: 9}), LARGE)) == 1 + MOST_AGAIN
    thrice = WalkPlanner(POINTS, 3, 1, starts=[])
    assert len(walks_of(explored({LARGE: 9}, planner=thrice), LARGE)) == 3 + MOST_AGAIN


def test_a_kill_on_the_way_up_asks_for_no_other_walk() -> None:
    assert len(walks_of(explored({SMALL: 1}, direction="up"), SMALL)) == 1


def test_where_no_walk_came_to_its_end_one_stays_without_a_limit() -> None:
    for direction, killed in (("down", 9), ("up", 1)):
        planned = explored({SMALL: killed}, direction=direction)
        assert walks_of(planned, SMALL, unlimited=True) == planned[-1:]


def test_what_another_process_would_not_show_asks_for_none() -> None:
    first = replace(World(POINTS, lambda share: 1.0).make(WALK), walk=WalkReport(WALK.trial, 0))
    unseen = seen(first, to_the_end=False)
    assert [one.unlimited for one in ALONE.further([WALK], {WALK.trial: unseen})] == [True]
    for made in (
        replace(unseen, outcome="failed"),
        replace(unseen, missing={"working_set": NOT_MARKED}),
        replace(unseen, walk=None, outcome="harness-error"),
    ):
        assert ALONE.further([WALK], {WALK.trial: made}) == []


def test_the_largest_limit_that_killed_counts_though_no_scenario_names_it() -> None:
    own = POINTS[:3]
    world = World(own, lambda share: 1.0)
    record = world.make(PlannedTrial("0001", own[0].id, 0, 0))

    def killed(point: str, limit_bytes: int) -> TrialRecord:
        ended = replace(record, point=point, limit_bytes=limit_bytes, outcome="oom-killed")
        return replace(ended, walk=WalkReport("0002", 1))

    records = [killed(own[2].id, 80 * MIB), killed(f"{own[0].id}-{99 * MIB}", 99 * MIB)]
    assert set(killed_limit(own, records)) == {99 * MIB}
    start = replace(killed(own[1].id, 120 * MIB), walk=None)
    assert set(killed_limit(own, [*records, start])) == {99 * MIB}
    assert killed_limit(own, [record]) == {}


def test_after_a_closer_look_was_killed_the_next_walk_begins_above_it() -> None:
    own = POINTS[:3]
    made = World(own, lambda share: 1.0).make(PlannedTrial("0001", own[0].id, 0, 0))

    def walked(point: str, limit_mib: int, **changes: Any) -> TrialRecord:
        visit = replace(made, point=point, limit_bytes=limit_mib * MIB, direction="down")
        return replace(visit, walk=WalkReport("0002", 1), **changes)

    finished = [walked(own[1].id, 240), walked(own[2].id, 80)]
    killed = walked(f"{own[0].id}-{99 * MIB}", 99, outcome="oom-killed")
    assert points_after_kill(own, [*finished, killed]) == (own[0], own[1])
    assert points_after_kill(own, finished) == (own[0], own[2])
