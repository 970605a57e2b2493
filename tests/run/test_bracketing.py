"""The search for the least limits, in worlds where they are known."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebench.errors import UsageError
from edgebench.records import KillReport, TrialRecord
from edgebench.results.limit_to_give import (
    HUGE_PAGE,
    LimitBracket,
    given_bracket,
    viable_bracket,
)
from edgebench.run.search.minimum import search_of
from edgebench.run.search.search import MOST_NETWORK_TRIALS, PRECISION, LimitSearch, SearchRules
from edgebench.run.walk.pace import pace_of_rounds
from edgebench.scenario.points import PlannedTrial, Point, points
from edgebench.units import MIB

sys.path.insert(0, str(Path(__file__).parents[1] / "scenario"))

from planner_worlds import DEMAND, World, hinge

#: As a search of a network has them: what is compared is made twice without a limit.
RULES = SearchRules(pace_of_rounds, unlimited=2)
ALONE = SearchRules(pace_of_rounds)


def candidates(swap: str = "4G") -> list[Point]:
    return points(search_of("lenet", {"slowdown": 1.5, "swap": swap}).scenario)


def program_points() -> list[Point]:
    return points(search_of(("true",), {}).scenario)


def search(
    edge: float, slowdown: float | None, swap: str = "4G"
) -> tuple[World, LimitBracket, LimitBracket]:
    made = candidates(swap)
    world = World(made, hinge, killed_below=edge)
    planner = LimitSearch(made, changed(RULES, slowdown=slowdown, confirm=0))
    world.explore(planner)
    tried = planner.tried(world.planned, world.records)
    return world, viable_bracket(tried), given_bracket(tried, slowdown)


def true_share(slowdown: float) -> float:
    return 0.9 / math.exp(((slowdown - 1) / 3.0) ** (1 / 1.5))


@pytest.mark.parametrize("edge", [0.06, 0.43, 0.98])
def test_both_limits_are_found(edge: float):
    _, least, fast = search(edge, 1.5)
    assert least.is_known_to(PRECISION)
    assert least.bad.limit_bytes < edge * DEMAND <= least.good.limit_bytes
    assert fast.is_known_to(PRECISION)
    truth = max(true_share(1.5), edge) * DEMAND
    assert fast.bad.limit_bytes <= truth * 1.0001
    assert fast.good.limit_bytes >= truth * 0.9999


@pytest.mark.parametrize(
    ("slowdown", "swap", "killed"),
    [(None, "none", False), (2.0, "4G", False), (2.0, "4G", True), (1.2, "4G", True)],
)
def test_no_search_takes_more_trials_than_are_foretold(
    slowdown: float | None, swap: str, killed: bool
):
    for percent in range(5, 130, 5):
        made = candidates(swap)
        world = World(made, hinge, killed_below=percent / 100)
        rules = RULES if slowdown else ALONE
        world.explore(LimitSearch(made, changed(rules, slowdown=slowdown, killed=killed)))
        assert len(world.records) <= MOST_NETWORK_TRIALS


@pytest.mark.parametrize("needs", [403.4, 61.2, 9.31])
def test_without_swap_the_need_and_the_step_below_it_are_tried(needs: float):
    made = program_points()
    by_id = {point.id: point.limits.memory_bytes for point in made}

    class Killed(World):
        def make(self, planned: PlannedTrial) -> TrialRecord:
            size = by_id[planned.point_id]
            enough = size is None or size >= needs * MIB
            made = replace(super().make(planned), outcome="ok" if enough else "oom-killed")
            return replace(made, demand_bytes=None if size else round(needs * MIB))

    world = Killed(made, lambda share: 1.0)
    planner = LimitSearch(made, RULES)
    world.explore(planner)
    found = given_bracket(planner.tried(world.planned, world.records))
    step = 0.125 if needs < 10 else 1
    assert found.good.limit_bytes / MIB == math.ceil(needs / step) * step
    assert found.good.trials == 4
    assert found.bad.limit_bytes >= found.good.limit_bytes - 2 * MIB
    assert len(world.planned) <= 8


def thp(planner_points: Sequence[Point], killed_below: float) -> World:
    by_id = {point.id: point.limits.memory_bytes for point in planner_points}

    class Huge(World):
        def make(self, planned: PlannedTrial) -> TrialRecord:
            size = by_id[planned.point_id]
            made = super().make(planned)
            return (
                made
                if size is None or not size % HUGE_PAGE
                else replace(made, outcome="oom-killed", phases=[])
            )

    return Huge(planner_points, lambda share: 1.0, killed_below=killed_below)


def test_a_kill_at_an_odd_limit_bounds_nothing_that_its_multiple_refutes():
    made = program_points()
    world = thp(made, 25.9 * MIB / DEMAND)
    planner = LimitSearch(made, RULES)
    world.explore(planner)
    tried = planner.tried(world.planned, world.records)
    for found in (viable_bracket(tried), given_bracket(tried)):
        assert (found.good.limit_bytes, found.bad.limit_bytes) == (26 * MIB, 24 * MIB)


def test_a_heap_sized_from_the_limit_is_given_what_its_trials_need():
    made = program_points()
    world = World(made, lambda share: 1.0, killed_below=1.7)
    planner = LimitSearch(made, RULES)
    world.explore(planner)
    found = given_bracket(planner.tried(world.planned, world.records))
    assert found.is_known_to(PRECISION)
    assert found.bad.limit_bytes < 1.7 * DEMAND <= found.good.limit_bytes
    assert found.good.trials == 4


def test_with_enough_swap_only_the_limit_to_give_is_searched():
    made, factor = candidates("2G"), 2.0
    worlds = {killed: World(made, hinge, killed_below=0.05) for killed in (False, True)}
    brackets = {}
    for killed, world in worlds.items():
        planner = LimitSearch(made, changed(RULES, slowdown=factor, confirm=3, killed=killed))
        world.explore(planner)
        tried = planner.tried(world.planned, world.records)
        brackets[killed] = given_bracket(tried, factor)
        assert brackets[killed].is_known_to(PRECISION)
        assert (viable_bracket(tried).bad is None) != killed
    assert brackets[False] == brackets[True]
    assert min(worlds[False].shares()) > 0.6 * true_share(factor)
    assert len(worlds[False].planned) < len(worlds[True].planned)


def test_with_too_little_swap_it_is_killed_and_that_is_searched():
    """Swap that can't hold the demand: it is killed before it is slow, asked for or not."""
    made = candidates("100M")
    world = World(made, lambda share: 1.0, killed_below=0.75)
    planner = LimitSearch(made, changed(RULES, slowdown=2.0, killed=False))
    world.explore(planner)
    assert viable_bracket(planner.tried(world.planned, world.records)).is_known_to(PRECISION)


def test_everything_is_viable():
    _, least, _ = search(0.0, None)
    assert least.bad is None
    assert least.good is not None


def test_nothing_is_fast_enough():
    made = candidates()
    world = World(made, lambda share: 1.0 if share == math.inf else 2.0)
    planner = LimitSearch(made, changed(RULES, slowdown=1.5))
    world.explore(planner)
    found = given_bracket(planner.tried(world.planned, world.records), 1.5)
    assert found.good is None
    assert not found.is_known_to(PRECISION)


def test_impossible_wishes_are_refused():
    with pytest.raises(UsageError, match="did you mean 'alexnet'"):
        search_of("alexnt", {})


@pytest.mark.promise("Models, planning and searches don't silently use such kills.")
def test_a_kill_with_swap_free_is_not_enough():
    made = candidates()
    world = World(made, hinge, killed_below=0.5)
    planner = LimitSearch(made, ALONE)
    world.explore(planner)
    free = KillReport(swap_allowed_bytes=4 << 30, swap_free_bytes=3 << 30)
    for name, record in world.records.items():
        if record.outcome == "oom-killed":
            world.records[name] = replace(record, killed_with_swap_free=True, kill=free)
    found = viable_bracket(planner.tried(world.planned, world.records))
    assert found.good is not None
    assert found.bad is not None
    assert found.bad.killed
    assert found.bad.limit_bytes < 0.5 * DEMAND <= found.good.limit_bytes


@pytest.mark.parametrize(("needs", "stops"), [(20.3, False), (61.7, False), (61.7, True)])
def test_a_need_that_was_told_too_small_is_no_end(needs: float, stops: bool):
    made = program_points()
    by_id = {point.id: point.limits.memory_bytes for point in made}

    class Underestimated(World):
        def make(self, planned: PlannedTrial) -> TrialRecord:
            size = by_id[planned.point_id]
            enough = size is None or size >= needs * MIB
            bad = "timeout" if stops else "oom-killed"
            return replace(
                super().make(planned),
                outcome="ok" if enough else bad,
                wall_s=2.0 if enough else planned.timeout_s,
                demand_bytes=None if size else round(3.2 * MIB),
                peak_bytes=64 * MIB,
            )

    world = Underestimated(made, lambda share: 1.0)
    planner = LimitSearch(made, changed(RULES, is_hurried=True))
    world.explore(planner)
    found = given_bracket(planner.tried(world.planned, world.records))
    assert found.good is not None
    assert needs * MIB <= found.good.limit_bytes <= 65 * MIB
    assert len(world.planned) <= 20


def test_a_slow_limit_that_a_smaller_one_refutes_is_tried_again():
    """Once 1.4 times as slow at about half of the need, by chance: less is fast, so it is given."""
    made = program_points()
    by_id = {point.id: point.limits.memory_bytes for point in made}

    class Unlucky(World):
        """One moment in which something else ran."""

        def make(self, planned: PlannedTrial) -> TrialRecord:
            made = super().make(planned)
            share = (by_id[planned.point_id] or DEMAND) / DEMAND
            late = 1.4 if planned.repeat == 0 and 0.4 < share < 0.5 else 1.0
            phases = [replace(phase, wall_s=late) for phase in made.phases]
            return replace(made, phases=phases)

    world = Unlucky(made, lambda share: 1.0, killed_below=0.2)
    planner = LimitSearch(made, changed(RULES, killed=False))
    world.explore(planner)
    assert 1.4 in [phase.wall_s for one in world.records.values() for phase in one.phases]
    found = given_bracket(planner.tried(world.planned, world.records))
    assert found.good is not None
    assert 0.2 * DEMAND <= found.good.limit_bytes < 0.25 * DEMAND


def test_a_lucky_trial_without_a_limit_is_not_the_only_one():
    """The first was twice as fast by chance; what has all that it needs can't be slow."""
    made = points(search_of("lenet", {}).scenario)

    class Lucky(World):
        def make(self, planned: PlannedTrial) -> TrialRecord:
            made = super().make(planned)
            seconds = 0.9 if len(self.records) == 0 else 1.2
            phases = [replace(phase, wall_s=seconds) for phase in made.phases]
            return replace(made, phases=phases)

    world = Lucky(made, lambda share: 1.0, killed_below=0.98)
    planner = LimitSearch(made, ALONE)
    world.explore(planner)
    unlimited = [one for one in world.planned if one.point_id == made[0].id]
    assert len(unlimited) == 2


def test_a_limit_that_one_trial_made_slightly_too_slow_is_tried_again():
    """1.18 times as slow at 128 MiB by chance, once: the second trial says that it is not."""
    made = candidates()
    by_id = {point.id: point.limits.memory_bytes for point in made}

    class Noisy(World):
        def make(self, planned: PlannedTrial) -> TrialRecord:
            size = by_id[planned.point_id] or DEMAND
            late = 1.18 if planned.repeat == 0 and size < 0.7 * DEMAND else 1.0
            made = super().make(planned)
            return replace(made, phases=[replace(made.phases[0], wall_s=late)])

    world = Noisy(made, lambda share: 1.0)
    planner = LimitSearch(made, changed(RULES, killed=False))
    world.explore(planner)
    found = given_bracket(planner.tried(world.planned, world.records))
    assert found.good is not None
    assert found.good.limit_bytes < 0.1 * DEMAND


class Sometimes(World):
    def make(self, planned: PlannedTrial) -> TrialRecord:
        (point,) = (point for point in self.points if point.id == planned.point_id)
        made = super().make(planned)
        if 0.5 <= (point.limits.memory_bytes or 9 * DEMAND) / DEMAND < 0.6 and planned.repeat == 1:
            return replace(made, outcome="oom-killed", phases=[])
        return made


def confirmed(confirm: int) -> tuple[World, LimitBracket]:
    made = points(search_of("lenet", {"swap": "4G"}).scenario)
    world = Sometimes(made, hinge, killed_below=0.5)
    planner = LimitSearch(made, SearchRules(pace_of_rounds, slowdown=3.0, confirm=confirm))
    world.explore(planner)
    return world, viable_bracket(planner.tried(world.planned, world.records))


@pytest.mark.promise(
    "Trials at the least viable limit are repeated; a limit that sometimes kills is not viable."
)
def test_a_limit_that_kills_now_and_then_is_not_the_least():
    _, lucky = confirmed(0)
    assert lucky.good is not None
    assert lucky.good.limit_bytes < 0.6 * DEMAND
    world, found = confirmed(3)
    assert found.is_known_to(PRECISION)
    assert found.good is not None
    assert found.bad is not None
    assert 0.6 * DEMAND <= found.good.limit_bytes <= 0.6 * DEMAND * PRECISION
    assert (found.good.finished, found.good.trials) == (4, 4)
    assert found.bad.killed
    assert len(world.planned) <= 20
