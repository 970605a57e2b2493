"""The adaptive plan in worlds whose slowdown is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from adaptive_making import DEMAND, World, cliff, hinge, points_of

from edgebench.records import TrialRecord
from edgebench.scenario.adaptive import AdaptivePlanner, most_trials
from edgebench.scenario.planner import GridPlanner
from edgebench.scenario.points import PlannedTrial
from edgebench.scenario.uncertainty import knots, noise_of, uncertainty

SHARES = list(range(120, 28, -4))


def error_at(world: World, share: float, *, without: bool = False) -> float:
    """How far interpolation between what was tried is from the truth; ``without`` this limit."""
    times: dict[float, list[float]] = {}
    unlimited: list[float] = []
    for one in world.planned:
        record = world.records[one.trial]
        if record.outcome != "ok":
            continue
        if record.limit_bytes is None:
            unlimited.append(record.phases[0].wall_s)
        elif not (without and math.isclose(record.limit_bytes, share * DEMAND, rel_tol=1e-3)):
            times.setdefault(float(record.limit_bytes), []).append(record.phases[0].wall_s)
    known = knots(times, unlimited, DEMAND, 0.0)
    x = math.log(share * DEMAND)
    low = max((knot for knot in known if knot.x <= x), key=lambda k: k.x, default=known[0])
    high = min((knot for knot in known if knot.x >= x), key=lambda k: k.x, default=known[-1])
    part = 0.0 if high.x == low.x else (x - low.x) / (high.x - low.x)
    return abs(math.exp(low.y + part * (high.y - low.y)) / world.slowdown(share) - 1)


def mean_error(world: World, *, without: bool = False) -> float:
    """Over all limits of the grid but the outermost."""
    return sum(error_at(world, s / 100, without=without) for s in SHARES[1:-1]) / len(SHARES[1:-1])


@pytest.mark.parametrize("slowdown", [hinge, cliff], ids=["hinge", "cliff"])
@pytest.mark.parametrize("noise", [0.0, 0.03], ids=["quiet", "noisy"])
def test_a_third_of_the_grid_knows_as_much(slowdown: Callable[[float], float], noise: float):
    """With at most a third of the grid's trials the error at limits not tried is no larger."""
    points = points_of(SHARES)
    grid = World(points, slowdown, noise)
    grid.explore(GridPlanner(points, 3, 1))
    adaptive = World(points, slowdown, noise)
    adaptive.explore(AdaptivePlanner(points, 3, 1, 0.01))
    assert len(adaptive.planned) <= len(grid.planned) / 3
    assert mean_error(adaptive) <= mean_error(grid, without=True) + 1e-9


def test_the_knee_is_where_it_looks():
    """Around a cliff the limits are tried one by one; on the flat nothing is spent."""
    points = points_of(SHARES)
    world = World(points, cliff)
    world.explore(AdaptivePlanner(points, 3, 1, 0.03))
    tried = set(world.shares())
    assert {0.76, 0.72} <= tried
    assert len([share for share in tried if share > 0.84]) <= 1


def test_the_edge_of_viability_is_bracketed():
    """Where trials are killed, neighbouring candidates end up on both sides of the edge."""
    points = points_of(SHARES)
    world = World(points, hinge, killed_below=0.55)
    world.explore(AdaptivePlanner(points, 2, 1, 0.03))
    assert {0.56, 0.52} <= set(world.shares())
    assert min(world.shares()) == pytest.approx(0.32)
    assert sum(share < 0.52 for share in world.shares()) <= 3


def test_repeats_are_spent_where_noise_is_larger_than_the_target():
    """A noisy sweep repeats points, a quiet one doesn't (but the unlimited one, which counts)."""
    points = points_of(SHARES)
    repeated = {}
    for noise in (0.001, 0.1):
        world = World(points, lambda share: 1.0, noise)
        planned = world.explore(AdaptivePlanner(points, 5, 1, 0.05))
        repeated[noise] = len(planned) - len({one.point_id for one in planned})
    assert repeated[0.001] == 1
    assert repeated[0.1] > 5


def test_several_workloads_share_the_budget():
    """A network that memory does not matter to leaves its trials to the others."""
    points = points_of(SHARES, ("flat", "steep"))

    class Two(World):
        def make(self, planned):
            flat = next(p for p in points if p.id == planned.point_id).settings["networks"]
            self.slowdown = (lambda share: 1.0) if flat == ["flat"] else hinge
            return super().make(planned)

    world = Two(points, hinge)
    planned = world.explore(AdaptivePlanner(points, 3, 1, 0.01))
    of = {p.id: p.settings["networks"][0] for p in points}
    counts = {name: sum(of[one.point_id] == name for one in planned) for name in ("flat", "steep")}
    assert counts["flat"] == 4
    assert counts["steep"] > 8
    assert len(planned) <= most_trials(points, 3)


def test_it_goes_on_as_it_would_have():
    """Cut short after any round and taken up again, the same trials are planned."""
    points = points_of(SHARES)
    whole = World(points, hinge, 0.03).explore(AdaptivePlanner(points, 3, 1, 0.02))
    torn = World(points, hinge, 0.03)
    while len(torn.planned) < len(whole):
        torn.explore(AdaptivePlanner(points, 3, 1, 0.02), rounds=1)
    assert torn.planned == whole
    assert [one.trial for one in whole] == [f"{n:04d}" for n in range(1, len(whole) + 1)]


def test_all_killed_ends():
    """Where nothing finishes below a limit, the planner asks no more than the candidates."""
    points = points_of(SHARES)
    world = World(points, hinge, killed_below=9.0)
    assert len(world.explore(AdaptivePlanner(points, 3, 1, 0.05))) <= most_trials(points, 3)


def test_own_trials_come_last():
    """Strategies' own trials follow the timed ones, once, of points that were tried."""
    points = points_of([120, 80, 40])
    planned = World(points, hinge).explore(AdaptivePlanner(points, 2, 1, 0.05, ["process"]))
    own = [one for one in planned if one.strategy]
    assert planned[-len(own) :] == own
    assert {one.point_id for one in own} == {one.point_id for one in planned if not one.strategy}


def test_doubt_is_largest_at_a_bend():
    """On a line there is none, where two slopes meet it is largest."""
    line = knots({s * DEMAND: [1 / s] for s in (0.25, 0.5)}, [1.0], DEMAND, 0.0)
    assert uncertainty(line, 0.35 * DEMAND) == pytest.approx(0.0, abs=1e-9)
    bend = knots({s * DEMAND: [cliff(s)] for s in (0.4, 0.6, 0.9)}, [1.0], DEMAND, 0.0)
    assert uncertainty(bend, 0.75 * DEMAND) > 0.5
    assert uncertainty(bend, 0.5 * DEMAND) == pytest.approx(0.0, abs=1e-9)
    assert uncertainty(bend, 2.0 * DEMAND) == 0.0


def test_noise_is_a_standard_deviation():
    """The pooled noise of many repeats is the spread that made them."""
    import random

    chance = random.Random(3)
    groups = [[math.exp(chance.gauss(0, 0.1)) for _ in range(5)] for _ in range(200)]
    assert noise_of(groups) == pytest.approx(0.1, rel=0.25)
    assert noise_of([[1.0]]) == 0.01


@pytest.mark.promise("Models, planning and searches don't silently use such kills.")
def test_a_kill_with_swap_free_does_not_end_the_search_below():
    """A wide limit that killed once although swap was free says nothing of tighter ones."""
    points = points_of(SHARES)
    odd = next(point for point in points if point.share == pytest.approx(0.56))

    class Unlucky(World):
        """Everything finishes, but for the trials at one limit."""

        def make(self, planned: PlannedTrial) -> TrialRecord:
            """The record that the planner is shown."""
            made = super().make(planned)
            if planned.point_id != odd.id:
                return made
            return replace(made, outcome="oom-killed", killed_with_swap_free=True, phases=[])

    world = Unlucky(points, lambda share: 1.0 if share > 0.45 else 3.0)
    world.explore(AdaptivePlanner(points, 2, 1, 0.03))
    assert {0.56, 0.48, 0.44} <= set(world.shares())
