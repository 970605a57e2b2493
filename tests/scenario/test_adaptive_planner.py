"""The adaptive plan in worlds whose slowdown is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from adaptive_making import DEMAND, World, cliff, hinge, points_of

from edgebench.scenario.adaptive import AdaptivePlanner
from edgebench.scenario.planner import GridPlanner
from edgebench.scenario.uncertainty import knots

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


@pytest.mark.parametrize("slowdown", [hinge, cliff])
def test_a_third_of_the_grid_knows_as_much(slowdown: Callable[[float], float]):
    """With at most a third of the grid's trials the error at limits not tried is no larger."""
    points = points_of(SHARES)
    grid = World(points, slowdown)
    grid.explore(GridPlanner(points, 3, 1))
    adaptive = World(points, slowdown)
    adaptive.explore(AdaptivePlanner(points, 3, 1, 0.01))
    assert len(adaptive.planned) <= len(grid.planned) / 3
    assert mean_error(adaptive) <= mean_error(grid, without=True) + 1e-9
