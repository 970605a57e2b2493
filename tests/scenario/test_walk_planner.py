"""Which walks a plan makes, where processes are killed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from scenario.planner_worlds import MIB, World, points_of

from edgebench.records import NOT_REACHED, TrialRecord, WalkReport, WorkingSet
from edgebench.run.walk.control import NOT_MARKED
from edgebench.run.walk.walk import killed_limit, points_after_kill
from edgebench.scenario.points import MOST_AGAIN, PlannedTrial, WalkPlanner

POINTS = points_of([60, 20], ("small", "large"))
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


def walks_of(planned: list[PlannedTrial], point: str) -> list[PlannedTrial]:
    return [one for one in planned if one.walk and one.point_id == point and not one.unlimited]


def unlimited_of(planned: list[PlannedTrial], point: str) -> list[PlannedTrial]:
    return [one for one in planned if one.walk and one.point_id == point and one.unlimited]


def test_a_killed_walk_is_followed_by_another_of_the_same_workload() -> None:
    small, large = (point.id for point in POINTS if point.unlimited)
    planned = explored({large: 1})
    assert len(walks_of(planned, small)) == 1
    assert [one.repeat for one in walks_of(planned, large)] == [0, 1]
    assert len({one.trial for one in planned}) == len(planned)


def test_walks_that_are_killed_again_and_again_come_to_an_end() -> None:
    (large,) = [point.id for point in POINTS[3:] if point.unlimited]
    assert len(walks_of(explored({large: 9}), large)) == 1 + MOST_AGAIN
    thrice = WalkPlanner(POINTS, 3, 1, starts=[])
    assert len(walks_of(explored({large: 9}, planner=thrice), large)) == 3 + MOST_AGAIN


def test_a_kill_on_the_way_up_asks_for_no_other_walk() -> None:
    (small,) = [point.id for point in POINTS[:3] if point.unlimited]
    assert len(walks_of(explored({small: 1}, direction="up"), small)) == 1


def test_where_no_walk_came_to_its_end_one_stays_without_a_limit() -> None:
    (small,) = [point.id for point in POINTS[:3] if point.unlimited]
    for direction, killed in (("down", 9), ("up", 1)):
        planned = explored({small: killed}, direction=direction)
        assert unlimited_of(planned, small) == planned[-1:]


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
