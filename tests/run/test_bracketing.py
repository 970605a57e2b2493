"""The search for the least limits, in worlds where they are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace
from scenario.planner_worlds import DEMAND, World, hinge

from edgebench.records import KillReport, TrialRecord
from edgebench.results.limit_to_give import (
    HUGE_PAGE,
    LimitBracket,
    given_bracket,
    viable_bracket,
)
from edgebench.run.search.minimum import search_of
from edgebench.run.search.search import (
    MOST_NETWORK_TRIALS,
    PRECISION,
    LimitSearch,
    SearchRules,
    pace_of_rounds,
)
from edgebench.scenario.points import PlannedTrial, Point, points
from edgebench.text import MIB

#: As a search of a network has them: what is compared is made twice without a limit.
RULES = SearchRules(pace_of_rounds, unlimited=2)
ALONE = SearchRules(pace_of_rounds)


def candidates(swap: str = "4G") -> list[Point]:
    return points(search_of("lenet", {"slowdown": 1.5, "swap": swap}).scenario)


def program_points() -> list[Point]:
    return points(search_of(("true",), {}).scenario)


def even(_: float) -> float:
    return 1.0


@dataclass
class Changed(World):
    change: Callable[[TrialRecord], TrialRecord] = lambda record: record

    def make(self, planned: PlannedTrial) -> TrialRecord:
        return self.change(super().make(planned))


def brackets(world: World, rules: SearchRules) -> tuple[LimitBracket, LimitBracket]:
    planner = LimitSearch(world.points, rules)
    world.explore(planner)
    tried = planner.tried(world.planned, world.records)
    return viable_bracket(tried), given_bracket(tried, rules.slowdown)


def true_share(slowdown: float) -> float:
    return 0.9 / math.exp(((slowdown - 1) / 3.0) ** (1 / 1.5))


@pytest.mark.parametrize("edge", [0.06, 0.43, 0.98])
def test_both_limits_are_found(edge: float):
    world = World(candidates(), hinge, killed_below=edge)
    least, fast = brackets(world, changed(RULES, slowdown=1.5, confirm=0))
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
    made = candidates(swap)
    for percent in range(5, 130, 5):
        world = World(made, hinge, killed_below=percent / 100)
        rules = RULES if slowdown else ALONE
        brackets(world, changed(rules, slowdown=slowdown, killed=killed))
        assert len(world.records) <= MOST_NETWORK_TRIALS


@pytest.mark.parametrize("needs", [403.4, 61.2, 9.31])
def test_without_swap_the_need_and_the_step_below_it_are_tried(needs: float):
    def killed(record: TrialRecord) -> TrialRecord:
        size = record.limit_bytes
        enough = size is None or size >= needs * MIB
        demand = None if size else round(needs * MIB)
        return replace(record, outcome="ok" if enough else "oom-killed", demand_bytes=demand)

    world = Changed(program_points(), even, change=killed)
    _, found = brackets(world, RULES)
    step = 0.125 if needs < 10 else 1
    assert found.good.limit_bytes / MIB == math.ceil(needs / step) * step
    assert found.good.trials == 4
    assert found.bad.limit_bytes >= found.good.limit_bytes - 2 * MIB
    assert len(world.planned) <= 8


def test_a_kill_at_an_odd_limit_bounds_nothing_that_its_multiple_refutes():
    def huge(record: TrialRecord) -> TrialRecord:
        is_odd = record.limit_bytes and record.limit_bytes % HUGE_PAGE
        return replace(record, outcome="oom-killed", phases=[]) if is_odd else record

    edge = 25.9 * MIB / DEMAND
    for found in brackets(Changed(program_points(), even, killed_below=edge, change=huge), RULES):
        assert (found.good.limit_bytes, found.bad.limit_bytes) == (26 * MIB, 24 * MIB)


def test_a_heap_sized_from_the_limit_is_given_what_its_trials_need():
    _, found = brackets(World(program_points(), even, killed_below=1.7), RULES)
    assert found.is_known_to(PRECISION)
    assert found.bad.limit_bytes < 1.7 * DEMAND <= found.good.limit_bytes
    assert found.good.trials == 4


def test_with_enough_swap_only_the_limit_to_give_is_searched():
    made, factor = candidates("2G"), 2.0
    worlds = {killed: World(made, hinge, killed_below=0.05) for killed in (False, True)}
    given = {}
    for killed, world in worlds.items():
        rules = changed(RULES, slowdown=factor, confirm=3, killed=killed)
        viable, given[killed] = brackets(world, rules)
        assert given[killed].is_known_to(PRECISION)
        assert (viable.bad is None) != killed
    assert given[False] == given[True]
    assert min(worlds[False].shares()) > 0.6 * true_share(factor)
    assert len(worlds[False].planned) < len(worlds[True].planned)


def test_with_too_little_swap_it_is_killed_and_that_is_searched():
    """Swap that can't hold the demand: it is killed before it is slow, asked for or not."""
    world = World(candidates("100M"), even, killed_below=0.75)
    viable, _ = brackets(world, changed(RULES, slowdown=2.0, killed=False))
    assert viable.is_known_to(PRECISION)


def test_nothing_is_fast_enough():
    world = World(candidates(), lambda share: 1.0 if share == math.inf else 2.0)
    _, found = brackets(world, changed(RULES, slowdown=1.5))
    assert found.good is None
    assert not found.is_known_to(PRECISION)


@pytest.mark.promise("Models, planning and searches don't silently use such kills.")
def test_a_kill_with_swap_free_is_not_enough():
    free = KillReport(swap_allowed_bytes=4 << 30, swap_free_bytes=3 << 30)

    def with_swap_free(record: TrialRecord) -> TrialRecord:
        is_killed = record.outcome == "oom-killed"
        return replace(record, killed_with_swap_free=True, kill=free) if is_killed else record

    world = Changed(candidates(), hinge, killed_below=0.5, change=with_swap_free)
    found, _ = brackets(world, ALONE)
    assert found.good is not None
    assert found.bad is not None
    assert found.bad.killed
    assert found.bad.limit_bytes < 0.5 * DEMAND <= found.good.limit_bytes


@pytest.mark.parametrize(("needs", "stops"), [(20.3, False), (61.7, False), (61.7, True)])
def test_a_need_that_was_told_too_small_is_no_end(needs: float, stops: bool):
    def underestimated(record: TrialRecord) -> TrialRecord:
        size = record.limit_bytes
        enough = size is None or size >= needs * MIB
        bad = "timeout" if stops else "oom-killed"
        return replace(
            record,
            outcome="ok" if enough else bad,
            wall_s=2.0 if enough else 6.4,
            demand_bytes=None if size else round(3.2 * MIB),
            peak_bytes=64 * MIB,
        )

    world = Changed(program_points(), even, change=underestimated)
    _, found = brackets(world, changed(RULES, is_hurried=True))
    assert found.good is not None
    assert needs * MIB <= found.good.limit_bytes <= 65 * MIB
    assert len(world.planned) <= 20


def slower(record: TrialRecord, seconds: float) -> TrialRecord:
    return replace(record, phases=[replace(phase, wall_s=seconds) for phase in record.phases])


def test_a_slow_limit_that_a_smaller_one_refutes_is_tried_again():
    """Once 1.4 times as slow at about half of the need, by chance: less is fast, so it is given."""

    def unlucky(record: TrialRecord) -> TrialRecord:
        share = (record.limit_bytes or DEMAND) / DEMAND
        return slower(record, 1.4 if record.repeat == 0 and 0.4 < share < 0.5 else 1.0)

    world = Changed(program_points(), even, killed_below=0.2, change=unlucky)
    _, found = brackets(world, changed(RULES, killed=False))
    assert 1.4 in [phase.wall_s for one in world.records.values() for phase in one.phases]
    assert found.good is not None
    assert 0.2 * DEMAND <= found.good.limit_bytes < 0.25 * DEMAND


def test_a_lucky_trial_without_a_limit_is_not_the_only_one():
    """The first was faster by chance; what has all that it needs can't be slow."""
    made = points(search_of("lenet", {}).scenario)
    world = Changed(
        made, even, killed_below=0.98, change=lambda r: slower(r, 0.9 if r.trial == "0001" else 1.2)
    )
    brackets(world, ALONE)
    assert [one.point_id for one in world.planned].count(made[0].id) == 2


def test_a_limit_that_one_trial_made_slightly_too_slow_is_tried_again():
    """1.18 times as slow below 280 MiB by chance, once: the second trial says that it is not."""

    def noisy(record: TrialRecord) -> TrialRecord:
        is_late = record.repeat == 0 and (record.limit_bytes or DEMAND) < 0.7 * DEMAND
        return slower(record, 1.18 if is_late else 1.0)

    _, found = brackets(Changed(candidates(), even, change=noisy), changed(RULES, killed=False))
    assert found.good is not None
    assert found.good.limit_bytes < 0.1 * DEMAND


@pytest.mark.promise(
    "Trials at the least viable limit are repeated; a limit that sometimes kills is not viable."
)
def test_a_limit_that_kills_now_and_then_is_not_the_least():
    def sometimes(record: TrialRecord) -> TrialRecord:
        share = (record.limit_bytes or 9 * DEMAND) / DEMAND
        is_killed = 0.5 <= share < 0.6 and record.repeat == 1
        return replace(record, outcome="oom-killed", phases=[]) if is_killed else record

    made = points(search_of("lenet", {"swap": "4G"}).scenario)
    found = {}
    for confirm in (0, 3):
        world = Changed(made, hinge, killed_below=0.5, change=sometimes)
        found[confirm], _ = brackets(world, changed(ALONE, slowdown=3.0, confirm=confirm))
    assert found[0].good is not None
    assert found[0].good.limit_bytes < 0.6 * DEMAND
    good, bad = found[3].good, found[3].bad
    assert found[3].is_known_to(PRECISION)
    assert good is not None
    assert bad is not None
    assert 0.6 * DEMAND <= good.limit_bytes <= 0.6 * DEMAND * PRECISION
    assert (good.finished, good.trials) == (4, 4)
    assert bad.killed
    assert len(world.planned) <= 20
