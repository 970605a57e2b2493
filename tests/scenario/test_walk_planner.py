"""Which walks a plan makes, where processes are killed."""

from __future__ import annotations

from dataclasses import replace

from scenario.adaptive_making import MIB, World, points_of

from edgebench.records import TrialRecord
from edgebench.run.walked_limits import killed_limit, points_after_kill
from edgebench.scenario.points import PlannedTrial
from edgebench.scenario.walk_planner import MOST_AGAIN, WalkPlanner
from edgebench.walk_report import WalkReport

POINTS = points_of([60, 20], ("small", "large"))
PLANNER = WalkPlanner(POINTS, 1, 1, starts=[])


def explored(killed: dict[str, int], direction: str = "down") -> list[PlannedTrial]:
    """All that is planned where so many walks of a point are killed at a further limit."""
    world = World(POINTS, lambda share: 1.0)
    left = dict(killed)
    more = PLANNER.first()
    while more:
        world.planned += more
        for one in more:
            made = world.make(one)
            if one.walk:
                made = replace(made, walk=WalkReport(one.trial, 0))
                ends = "oom-killed" if left.get(one.point_id, 0) > 0 else "ok"
                left[one.point_id] = left.get(one.point_id, 0) - 1
                last = replace(
                    made,
                    trial=f"{one.trial}-01",
                    outcome=ends,
                    direction=direction,
                    walk=WalkReport(one.trial, 1),
                )
                world.records[last.trial] = last
            world.records[one.trial] = made
        more = PLANNER.further(world.planned, world.records)
    return world.planned


def walks_of(planned: list[PlannedTrial], point: str) -> list[PlannedTrial]:
    """The walks among them of a point."""
    return [one for one in planned if one.walk and one.point_id == point]


def test_a_killed_walk_is_followed_by_another_of_the_same_workload() -> None:
    """The other workload, which lived, is not walked again; trials keep distinct names."""
    small, large = (point.id for point in POINTS if point.unlimited)
    planned = explored({large: 1})
    assert len(walks_of(planned, small)) == 1
    assert [one.repeat for one in walks_of(planned, large)] == [0, 1]
    assert len({one.trial for one in planned}) == len(planned)


def test_walks_that_are_killed_again_and_again_come_to_an_end() -> None:
    """So many more, and no further ones."""
    (large,) = [point.id for point in POINTS[3:] if point.unlimited]
    assert len(walks_of(explored({large: 9}), large)) == 1 + MOST_AGAIN


def test_a_kill_on_the_way_up_asks_for_no_other_walk() -> None:
    """The way down was finished before: its curve is whole."""
    (small,) = [point.id for point in POINTS[:3] if point.unlimited]
    assert len(walks_of(explored({small: 1}, direction="up"), small)) == 1


def test_the_largest_limit_that_killed_counts_though_no_scenario_names_it() -> None:
    """A closer limit's point is named after the unlimited one, with its bytes."""
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


def test_after_a_kill_only_the_lowest_finished_limit_is_visited_again() -> None:
    """The next one stays in: it may kill, or not have been reached."""
    own = points_of([80, 60, 20])
    world = World(own, lambda share: 1.0)
    records = [
        replace(
            world.make(PlannedTrial(f"0002-{step:02d}", point.id, 0, 0)),
            direction="down" if step else None,
            walk=WalkReport("0002", step),
            outcome="oom-killed" if step == 3 else "ok",
        )
        for step, point in enumerate(own)
    ]
    assert points_after_kill(own, records) == (own[0], own[2], own[3])
